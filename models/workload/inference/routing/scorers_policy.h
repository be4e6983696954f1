// llm-d's endpoint picker (llm-d/llm-d-inference-scheduler): scores from 0 to 1, weighted and added; the highest sum, or one of
// several at random.
//
//   prefix  blocks of the prompt that the instance has / blocks of the prompt. The router's own index has 31 250 blocks of each
//           server, those met last, and looks for at most 256 blocks of a prompt; or the engines report their blocks
//   queue   1 for the shortest queue, 0 for the longest, in between in proportion; 1 if all are equal
//   kv      share of the KV blocks that is free
#pragma once

#include <algorithm>

#include "base/random.h"
#include "workload/inference/routing/router_spec.h"
#include "workload/inference/routing/sent_prefixes.h"

namespace railyard::workload::inference {

class ScorersPolicy : public RoutingPolicy {
 public:
  ScorersPolicy(const ScorersSpec& spec, std::size_t instances, Random random)
      : spec_(spec), sent_(instances, kMostBlocksSent), random_(random) {}

  std::uint32_t choose(Asked& asked, const Candidates& candidates, RouterView& view,
                       std::vector<double>& scores) override {
    std::size_t shortest = ~std::size_t{0}, longest = 0;
    for (const std::uint32_t id : candidates) {
      shortest = std::min(shortest, view.load(id).waiting);
      longest = std::max(longest, view.load(id).waiting);
    }
    for (const std::uint32_t id : candidates) {
      const EngineLoad& load = view.load(id);
      const double queue = longest > shortest
                               ? static_cast<double>(longest - load.waiting) / static_cast<double>(longest - shortest)
                               : 1.0;
      const double kv = 1 - static_cast<double>(load.blocks) / view.member(id).blocks;
      scores.push_back(spec_.prefix_weight * prefix(asked, id, view) + spec_.queue_weight * queue +
                       spec_.kv_weight * kv);
    }
    const double best = *std::max_element(scores.begin(), scores.end());
    const std::uint32_t chosen = one_with(best, candidates, scores, random_);
    if (!spec_.by_events) sent_.add(chosen, asked, view);
    return chosen;
  }
  void on_lost(std::uint32_t instance) override { sent_.clear(instance); }

 private:
  double prefix(Asked& asked, std::uint32_t id, const RouterView& view) const {
    const std::uint64_t blocks = asked.request.prompt_tokens / view.member(id).block_tokens;
    if (blocks == 0) return 0;
    const std::uint64_t matched =
        spec_.by_events ? view.cached_blocks(id, asked) : sent_.matched(id, asked, view, kMostBlocksMatched);
    return static_cast<double>(matched) /
           static_cast<double>(spec_.by_events ? blocks : std::min(blocks, kMostBlocksMatched));
  }

  ScorersSpec spec_;
  SentPrefixes sent_;
  Random random_;
};

}  // namespace railyard::workload::inference
