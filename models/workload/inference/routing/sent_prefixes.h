// Prefixes by what the router has sent: each instance is taken to have all prompts that went there, in blocks of its KV cache.
#pragma once

#include <vector>

#include "workload/inference/routing/least.h"

namespace railyard::workload::inference {

/// llm-d's own index: blocks that it keeps for a server, and at most looks for of a prompt (llm-d-inference-scheduler v0.8).
constexpr std::uint64_t kMostBlocksSent = 31'250, kMostBlocksMatched = 256;

class SentPrefixes {
 public:
  /// @param most  blocks kept for an instance; 0: all
  SentPrefixes(std::size_t instances, std::uint64_t most) : sent_(instances, PrefixIndex(most)) {}
  std::uint64_t matched(std::uint32_t id, Asked& asked, const RouterView& view, std::uint64_t most = ~0ull) const {
    return sent_[id].matched(asked.contents(view.member(id).block_tokens), 0, most);
  }
  void clear(std::uint32_t id) { sent_[id].clear(); }
  void add(std::uint32_t id, Asked& asked, const RouterView& view) {
    for (const BlockPool::Content content : asked.contents(view.member(id).block_tokens)) sent_[id].add(content);
  }

 private:
  std::vector<PrefixIndex> sent_;
};

}  // namespace railyard::workload::inference
