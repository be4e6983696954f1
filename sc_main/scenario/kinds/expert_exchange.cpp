#include "sc_main/scenario/kinds/expert_exchange.h"

namespace railyard::scenario {

void check_expert_exchange(const workload::training::TrainingSpec& spec, const transformer::ModelShape& model,
                           const Source& source) {
  const transformer::RoutedForm& routed = spec.software.routed;
  if (routed.capacity && model.experts == 0) refuse_workload(source, "expert_capacity", model.name + " has no experts");
  if (routed.capacity && *routed.capacity > model.experts)
    refuse_workload(source, "expert_capacity",
                    number_text(*routed.capacity) + " is more than the " + std::to_string(model.experts) +
                        " experts of " + model.name);
  if (routed.pads && !routed.capacity) refuse_workload(source, "pad_to_capacity", "needs expert_capacity");
  if (routed.shared_beside) {
    const auto refuse = [&](const std::string& text) { refuse_workload(source, "shared_experts_beside", text); };
    if (model.shared_ffn == 0) refuse(model.name + " has no shared experts; accepted: false");
    if (spec.expert_ranks() == 1) refuse("needs ep of 2 or more");
    if (spec.schedule.overlap_pairs) refuse("needs overlap_moe: false");
  }
}

}  // namespace railyard::scenario
