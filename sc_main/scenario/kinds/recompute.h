// workload.recompute of a training step: which layers a backward slot computes again.
#pragma once

#include "sc_main/scenario/kinds/kind.h"
#include "workload/training/plan/training_spec.h"

namespace railyard::scenario {

/// A word, a mapping of method and layers, or a list of modules.
struct RecomputeSection {
  transformer::Recompute recompute = transformer::Recompute::none;
  workload::training::RecomputeMethod method = workload::training::RecomputeMethod::uniform;
  std::uint32_t layers = 1;                                                            ///< only with full recomputation
  std::optional<std::array<bool, transformer::kRecomputeModuleNames.size()>> modules;  ///< of selective recomputation
};

nlohmann::json recompute_schema();
RecomputeSection read_recompute(const Node& node, const std::string& path);
/// @pre the spec has its stages. @throws InputError: more layers than a stage has, a module that the model has not
void resolve_recompute(const RecomputeSection& written, workload::training::TrainingSpec& spec,
                       const transformer::ModelShape& model, const Source& source);

}  // namespace railyard::scenario
