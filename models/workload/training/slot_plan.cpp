#include "workload/training/slot_plan.h"

#include <map>

namespace railyard::workload::training {

using transformer::Direction;

namespace {

/// Adds steps of the model to a slot. Chains of layers of one kind are shared.
void append(SlotPlan& plan, const std::vector<transformer::LayerStep>& steps,
            const std::vector<gpu::SharedChain>& chains, std::uint32_t layer) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const transformer::LayerStep& step = steps[i];
    plan.steps.push_back({chains[i], step.operation, step.bytes, layer, step.part,
                          static_cast<std::uint32_t>(step.kernels.kernels.size())});
    plan.kernels_s += step.kernels.seconds;
    plan.flops += step.kernels.flops;
  }
}

std::vector<gpu::SharedChain> chains_of(const std::vector<transformer::LayerStep>& steps) {
  std::vector<gpu::SharedChain> chains;
  for (const transformer::LayerStep& step : steps) chains.push_back(step.kernels.chain());
  return chains;
}

}  // namespace

SlotPlans::SlotPlans(const transformer::ModelShape& model, const TrainingSpec& spec, transformer::LayerTimer& timer)
    : stages_(transformer::stages_of(spec.stage_layers)), plans_(stages_.size()) {
  const transformer::LayerSplit split{spec.tp(), spec.sequence_parallel};
  struct Planned {
    std::vector<transformer::LayerStep> steps;
    std::vector<gpu::SharedChain> chains;
  };
  std::map<std::pair<std::uint32_t, Direction>, Planned> layers;  // by kind of layer
  const auto add_layer = [&](SlotPlan& plan, std::uint32_t layer, Direction direction) {
    const std::uint32_t kind = model.kind(layer);
    const auto [found, fresh] = layers.try_emplace({kind, direction});
    if (fresh) {
      transformer::LayerPass pass;
      pass.prefills.assign(spec.micro_batch, {spec.seq_tokens, 0});
      pass.kind = kind;
      found->second.steps = transformer::plan_layer(model, timer, pass, split, direction);
      found->second.chains = chains_of(found->second.steps);
    }
    append(plan, found->second.steps, found->second.chains, layer);
  };
  const auto add_end = [&](SlotPlan& plan, const transformer::Segment& kernels) {
    const std::vector<transformer::LayerStep> steps{{transformer::LayerPart::attention, kernels}};
    append(plan, steps, chains_of(steps), SlotStep::kEnds);
  };
  for (std::uint32_t s = 0; s < stages(); ++s) {
    const transformer::Stage& stage = stages_[s];
    const std::uint32_t end = stage.first_layer + stage.layers;
    SlotPlan& forward = plans_[s][static_cast<std::size_t>(SlotKind::forward)];
    SlotPlan& backward = plans_[s][static_cast<std::size_t>(SlotKind::backward)];
    if (stage.first) add_end(forward, timer.embedding(spec.micro_batch_tokens()));
    for (std::uint32_t l = stage.first_layer; l < end; ++l) add_layer(forward, l, Direction::forward);
    if (stage.last) add_end(forward, timer.head(spec.micro_batch_tokens()));
    for (std::uint32_t l = end; l-- > stage.first_layer;) add_layer(backward, l, Direction::backward);
  }
}

}  // namespace railyard::workload::training
