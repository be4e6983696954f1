// The key tp_overlap of training: how products overlap with their tensor-parallel collectives.
#pragma once

#include <optional>

#include "sc_main/scenario/kinds/kind.h"
#include "workload/training/plan/training_spec.h"

namespace railyard::scenario {

nlohmann::json tp_overlap_schema();
/// A word for all products, or a mapping of products to words, or to mappings of `method` and `comm_sms`.
workload::training::TpOverlap read_tp_overlap(const Node& node, const std::string& path);
/// Sets what the spec overlaps; `written` or the software's word.
/// @pre sizes, tokens, placement, form and software are set
void resolve_tp_overlap(workload::training::TrainingSpec& spec,
                        const std::optional<workload::training::TpOverlap>& written,
                        const platforms::MachineSpec& machine, const Source& source);

}  // namespace railyard::scenario
