// Dynamo's KV router (ai-dynamo/dynamo, lib/kv-router/src/scheduling/selector/default.rs): the least cost
//
//   scale x max(0, raw prefill blocks - credit) + decode blocks + weight x requests
//
// raw prefill blocks: (prompt tokens that the instance still has to compute + this prompt) / block size; decode blocks: different
// blocks of its requests and this one; credit: blocks of the prompt in its prefix index x overlap_score_credit / (1 + decay x
// excess), and those that follow them in its host memory and on its disks x host_cache_hit_weight and disk_cache_hit_weight; excess:
// (its tokens to compute - the least of all instances) / block size / blocks of this prompt. Equal costs: at random. With a
// temperature, at random by exp(-cost / temperature), costs scaled to 0 to 1. For answers there is nothing to compute, and no credit; if
// their prompts may stay there (conditional disaggregation), max(0, decode blocks - credit) + weight x requests, without decay.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "workload/inference/routing/router_spec.h"
#include "workload/inference/routing/router_view.h"

namespace railyard::workload::inference {

class KvCostPolicy : public RoutingPolicy {
 public:
  /// @param credits_answers  an answer's instance may compute the prompt, too
  KvCostPolicy(const KvCostSpec& spec, bool credits_answers, Random random)
      : spec_(spec), credits_answers_(credits_answers), random_(random) {}

  std::uint32_t choose(Asked& asked, const Candidates& candidates, RouterView& view,
                       std::vector<double>& scores) override {
    std::uint64_t least_tokens = std::numeric_limits<std::uint64_t>::max();
    for (const std::uint32_t id : candidates) least_tokens = std::min(least_tokens, view.prefill_tokens(id));
    for (const std::uint32_t id : candidates) scores.push_back(cost(asked, id, least_tokens, view));
    return candidates[spec_.temperature > 0 ? drawn(scores) : cheapest(scores)];
  }

 private:
  double cost(Asked& asked, std::uint32_t id, std::uint64_t least_tokens, RouterView& view) const {
    const double block = view.member(id).block_tokens;
    const auto blocks = static_cast<double>(view.blocks_with(id, asked));
    const double requests = spec_.active_request_weight * view.requests(id);
    const auto cached = [&] { return static_cast<double>(view.cached_blocks(id, asked)) * spec_.overlap_score_credit; };
    const auto copied = [&] {
      const RouterView::Copies copies = view.copied_blocks(id, asked);
      return static_cast<double>(copies.host) * spec_.host_cache_hit_weight +
             static_cast<double>(copies.disks) * spec_.disk_cache_hit_weight;
    };
    if (asked.part == RequestPart::answer)
      return (credits_answers_ ? std::max(0.0, blocks - cached() - copied()) : blocks) + requests;
    const double prompt = asked.request.prompt_tokens;
    const auto tokens = static_cast<double>(view.prefill_tokens(id));
    const double excess = (tokens - static_cast<double>(least_tokens)) / prompt;
    const double credit = cached() / (1 + spec_.overlap_decay * excess) + copied();
    return blocks + requests + spec_.prefill_load_scale * std::max(0.0, (tokens + prompt) / block - credit);
  }
  std::size_t cheapest(const std::vector<double>& costs) {
    const double least = *std::min_element(costs.begin(), costs.end());
    std::uint64_t left = random_.below(static_cast<std::uint64_t>(std::count(costs.begin(), costs.end(), least)));
    for (std::size_t i = 0;; ++i)
      if (costs[i] == least && left-- == 0) return i;
  }
  std::size_t drawn(const std::vector<double>& costs) {
    const auto [least, most] = std::minmax_element(costs.begin(), costs.end());
    std::vector<double> weights;
    double sum = 0;
    for (const double cost : costs) {
      const double scaled = *most > *least ? (cost - *least) / (*most - *least) : 0.0;
      weights.push_back(std::exp(-scaled / spec_.temperature));
      sum += weights.back();
    }
    double left = random_.uniform() * sum;
    for (std::size_t i = 0; i + 1 < weights.size(); ++i)
      if ((left -= weights[i]) <= 0) return i;
    return weights.size() - 1;
  }

  KvCostSpec spec_;
  bool credits_answers_;
  Random random_;
};

}  // namespace railyard::workload::inference
