// SGLang's gateway (sgl-project/sglang, sgl-model-gateway/src/policies/cache_aware.rs). If loads differ by more than two limits, the
// instance with the fewest requests; else the one with the longest prefix, if it is long enough; else the one with the fewest
// requests. The router compares texts there, blocks here.
#pragma once

#include <algorithm>
#include <vector>

#include "workload/inference/routing/router_spec.h"
#include "workload/inference/routing/sent_prefixes.h"

namespace railyard::workload::inference {

class CacheAwarePolicy : public RoutingPolicy {
 public:
  CacheAwarePolicy(const CacheAwareSpec& spec, std::size_t instances) : spec_(spec), sent_(instances, 0) {}

  std::uint32_t choose(Asked& asked, const Candidates& candidates, RouterView& view,
                       std::vector<double>& scores) override {
    std::vector<double> requests;
    for (const std::uint32_t id : candidates) {
      requests.push_back(view.requests(id));
      scores.push_back(static_cast<double>(sent_.matched(id, asked, view) * view.member(id).block_tokens) /
                       asked.request.prompt_tokens);
    }
    const auto [fewest, most] = std::minmax_element(requests.begin(), requests.end());
    const bool is_imbalanced = *most - *fewest > spec_.balance_abs && *most > *fewest * spec_.balance_rel;
    const auto longest = std::max_element(scores.begin(), scores.end());
    const std::uint32_t chosen = !is_imbalanced && *longest > spec_.match_ratio
                                     ? candidates[static_cast<std::size_t>(longest - scores.begin())]
                                     : candidates[static_cast<std::size_t>(fewest - requests.begin())];
    sent_.add(chosen, asked, view);
    return chosen;
  }
  void on_lost(std::uint32_t instance) override { sent_.clear(instance); }

 private:
  CacheAwareSpec spec_;
  SentPrefixes sent_;
};

}  // namespace railyard::workload::inference
