// llm-d's "sticky until saturated" (llm-d.ai/blog/sticky-until-saturated-token-aware-routing): a prompt goes where its prefix is, until
// that instance has more prompt tokens in flight than it may keep waiting; then the prefix counts no more, and the instance with the
// fewest tokens in flight takes the prompt. Of equal ones, at random.
//
//   prefix            blocks of prompts that the router has sent there, as of scorers
//   tokens in flight  prompt tokens of requests without a first token, without those that the instance had reported as cached
#pragma once

#include <algorithm>

#include "base/random.h"
#include "workload/inference/routing/router_spec.h"
#include "workload/inference/routing/sent_prefixes.h"

namespace railyard::workload::inference {

class StickyPolicy : public RoutingPolicy {
 public:
  StickyPolicy(const StickySpec& spec, std::size_t instances, Random random)
      : spec_(spec), sent_(instances, kMostBlocksSent), random_(random) {}

  std::uint32_t choose(Asked& asked, const Candidates& candidates, RouterView& view,
                       std::vector<double>& scores) override {
    std::uint64_t longest = 1;
    Candidates with;  // the longest prefix among those that are not saturated
    for (const std::uint32_t id : candidates) {
      scores.push_back(static_cast<double>(view.prefill_tokens(id)));
      if (view.prefill_tokens(id) > spec_.saturation_tokens) continue;
      const std::uint64_t matched = sent_.matched(id, asked, view, kMostBlocksMatched);
      if (matched > longest) with.clear();
      if (matched >= longest) with.push_back(id);
      longest = std::max(longest, matched);
    }
    const Candidates& among = with.empty() ? candidates : with;
    std::vector<double> in_flight;
    for (const std::uint32_t id : among) in_flight.push_back(static_cast<double>(view.prefill_tokens(id)));
    const double fewest = *std::min_element(in_flight.begin(), in_flight.end());
    const std::uint32_t chosen = one_with(fewest, among, in_flight, random_);
    sent_.add(chosen, asked, view);
    return chosen;
  }
  void on_lost(std::uint32_t instance) override { sent_.clear(instance); }

 private:
  StickySpec spec_;
  SentPrefixes sent_;
  Random random_;
};

}  // namespace railyard::workload::inference
