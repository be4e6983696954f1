// vllm-project/production-stack, src/vllm_router/routers/routing_logic.py, PrefixAwareRouter: one of the instances with the longest
// prefix, at random; without any, the one that was sent the fewest requests in the last minute. Nothing is ever forgotten.
#pragma once

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "workload/inference/routing/sent_prefixes.h"

namespace railyard::workload::inference {

class PrefixTriePolicy : public RoutingPolicy {
 public:
  PrefixTriePolicy(std::size_t instances, Random random) : sent_(instances, 0), random_(random) {}

  std::uint32_t choose(Asked& asked, const Candidates& candidates, RouterView& view,
                       std::vector<double>& scores) override {
    for (const std::uint32_t id : candidates) scores.push_back(static_cast<double>(sent_.matched(id, asked, view)));
    const double longest = *std::max_element(scores.begin(), scores.end());
    std::uint32_t chosen = 0;
    if (longest > 0) {
      chosen = one_with(longest, candidates, scores, random_);
    } else {
      std::vector<double> recent;
      for (const std::uint32_t id : candidates) recent.push_back(view.recent(id));
      chosen = least(candidates, recent);
    }
    sent_.add(chosen, asked, view);
    return chosen;
  }
  void on_lost(std::uint32_t instance) override { sent_.clear(instance); }

 private:
  SentPrefixes sent_;
  Random random_;
};

}  // namespace railyard::workload::inference
