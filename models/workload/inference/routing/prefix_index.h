// Blocks of KV cache that a router takes to be in an instance, by content. With a limit, those that it has met longest ago go first.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "workload/inference/kv/block_pool.h"

namespace railyard::workload::inference {

class PrefixIndex {
 public:
  using Content = BlockPool::Content;
  /// @param most  blocks; 0: no limit
  explicit PrefixIndex(std::uint64_t most = 0) : most_(most) {}

  void add(Content content) {
    const auto [found, is_new] = places_.try_emplace(content);
    if (!is_new) order_.erase(found->second);
    found->second = order_.insert(order_.end(), content);
    if (most_ == 0 || order_.size() <= most_) return;
    places_.erase(order_.front());
    order_.pop_front();
  }
  void remove(Content content) {
    const auto found = places_.find(content);
    if (found == places_.end()) return;
    order_.erase(found->second);
    places_.erase(found);
  }
  void clear() {
    order_.clear();
    places_.clear();
  }
  /// The blocks of a prompt from number `first` on that are here, one after the other.
  /// @param most  blocks that are looked for
  std::uint64_t matched(const std::vector<Content>& contents, std::uint64_t first = 0,
                        std::uint64_t most = ~0ull) const {
    std::uint64_t n = 0;
    while (first + n < contents.size() && n < most && places_.count(contents[first + n]) > 0) ++n;
    return n;
  }
  std::uint64_t size() const { return order_.size(); }

 private:
  std::uint64_t most_;
  std::list<Content> order_;  ///< by when they were met last
  std::unordered_map<Content, std::list<Content>::iterator> places_;
};

}  // namespace railyard::workload::inference
