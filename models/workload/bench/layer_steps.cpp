#include "workload/bench/layer_steps.h"

#include <optional>

#include "transformer/parameters.h"

namespace railyard::workload::layer {

std::vector<LayerStep> plan_layer(const transformer::ModelShape& model, const LayerSpec& spec,
                                  transformer::LayerTimer& timer) {
  transformer::LayerPass pass;
  (spec.phase == Phase::decode ? pass.decodes : pass.prefills).assign(spec.batch, {spec.tokens, spec.context_tokens});
  pass.kind = model.kind(common_layer(model));
  transformer::LayerSplit split{spec.tp, spec.sequence_parallel};
  split.gather_for(spec.form);

  std::vector<LayerStep> steps;
  const auto add = [&](const std::string& prefix, const std::vector<transformer::LayerStep>& plan) {
    std::optional<std::size_t> beside;  // the collective that runs beside this step
    for (const transformer::LayerStep& step : plan) {
      for (const transformer::NamedKernel& kernel : step.kernels.kernels)
        steps.push_back({prefix + name_of(step.part, kernel.name), false, kernel.time, {}, 0});
      if (beside) steps[*beside].beside = static_cast<std::uint32_t>(steps.size() - *beside - 1);
      beside.reset();
      if (!step.is_collective()) continue;
      if (step.beside_next) beside = steps.size();
      steps.push_back({prefix + name_of(step.part, name_of(step.operation)), true, {}, step.operation, step.bytes});
    }
  };
  const bool trains = spec.phase == Phase::training;
  add(trains ? "forward." : "", transformer::plan_layer(model, timer, pass, split));
  if (trains) {
    add("recompute.", transformer::plan_recompute(model, timer, pass, split));
    add("backward.", transformer::plan_layer(model, timer, pass, split, transformer::Direction::backward));
  }
  return steps;
}

}  // namespace railyard::workload::layer
