// The least time that the jobs of a pass may take: when the links of a stage are free of others (stage_sends.h).
#include "workload/inference/engine/pipeline.h"

#include <algorithm>

#include "workload/program/program_clock.h"

namespace railyard::workload::inference {

Pipeline::LeastTimes Pipeline::least_times(const Pass& pass) const {
  LeastTimes least;
  for (std::size_t kind = 0; kind < pass.layers.size(); ++kind) {
    const std::vector<Pass::Step>& steps = pass.layers[kind];
    LeastTimes::OfLayer& layer = least.layers.emplace_back();
    if (pass.is_divided()) {
      for (const std::vector<Pass::Step>& half : pass.halves[kind])
        for (const Pass::Step& step : half)
          if (step.kernels != nullptr) layer.all += workload::least_time(step.kernels);
      layer.after_attention = layer.all;
      continue;
    }
    Time attention, mlp;  // of the last kernels
    for (const Pass::Step& step : steps) {
      if (step.kernels == nullptr) continue;
      const bool is_mlp = step.part == transformer::LayerPart::mlp;
      (is_mlp ? mlp : attention) = workload::least_time(step.kernels);
      layer.all += workload::least_time(step.kernels);
      if (is_mlp) layer.after_attention += workload::least_time(step.kernels);
    }
    layer.attention = layer.after_attention + attention;
    layer.mlp = mlp;
  }
  least.after_draft.resize(pass.drafts.size());
  for (std::size_t d = pass.drafts.size(); d-- > 0;) {
    least.after_draft[d] = least.drafts;
    for (const Pass::Step& step : pass.drafts[d]) least.drafts += workload::least_time(step.kernels);
  }
  least.head = workload::least_time(pass.head) + least.drafts;
  least.after.resize(grid_.model().layers);
  for (std::uint32_t p = 0; p < grid_.pp(); ++p) {
    Time sum = grid_.stage(p).last ? least.head : Time();
    const std::uint32_t last = grid_.first_layer(p) + grid_.stage(p).layers - 1;
    const Time after_kv = sum + least.layers[grid_.model().kind(last)].after_attention;
    for (std::uint32_t l = grid_.stage(p).layers; l-- > 0;) {
      const std::uint32_t layer = grid_.first_layer(p) + l;
      least.after[layer] = sum;
      sum += least.layers[grid_.model().kind(layer)].all;
    }
    least.stages.push_back({sum, after_kv});
  }
  return least;
}

Time Pipeline::least_pass() const {
  Time sum;
  for (const StageSends& stage : sends_) sum += stage.least().all;
  return sum;
}

Time Pipeline::least_until_kv() const { return since(sends_.front().least().all, sends_.front().least().after_kv); }

Time Pipeline::next_kv() const {
  Time next = Time::max();
  for (const StageSends& stage : sends_) next = sooner(next, stage.next_kv());
  return next;
}

Time Pipeline::least_time(const Fields& f) const {
  const LeastTimes& least = states_[f.pass - first_state_].least;
  if (f.what == kHead) return least.head;
  if (f.what == kDraft) return least.after_draft[f.layer];
  if (f.what == kEmbedding) return least.stages[f.stage].all;
  // One of the micro-batches may have begun the next layer.
  if (pass_of(f).is_divided()) return least.after[std::min(f.layer + 1u, grid_.model().layers - 1)];
  const LeastTimes::OfLayer& layer = least.layers[grid_.model().kind(f.layer)];
  return (f.what == kMlp ? layer.mlp : layer.attention) + least.after[f.layer];
}

Time Pipeline::least_time_after(const Fields& f) const {
  const LeastTimes& least = states_[f.pass - first_state_].least;
  const Time after = least.after[f.layer];
  const bool ends_layer = f.what == kMlpReduce || f.what == kCombine || f.what == kGatherTokens;
  return ends_layer ? after : least.layers[grid_.model().kind(f.layer)].mlp + after;
}

}  // namespace railyard::workload::inference
