// (4 waiting + running) / max_seqs, as the engines have reported: the weights of vLLM's balance among data-parallel ranks
// (v1/engine/core_client.py, DPLBAsyncMPClient).
#pragma once

#include "workload/inference/routing/least.h"

namespace railyard::workload::inference {

class LeastLoadPolicy : public RoutingPolicy {
 public:
  std::uint32_t choose(Asked&, const Candidates& candidates, RouterView& view, std::vector<double>& scores) override {
    for (const std::uint32_t id : candidates) {
      const EngineLoad& load = view.load(id);
      scores.push_back(static_cast<double>(4 * load.waiting + load.running) / view.member(id).max_seqs);
    }
    return least(candidates, scores);
  }
};

}  // namespace railyard::workload::inference
