// `stages` of training: a pipeline whose ranks have GPUs of several groups of the machine.
#pragma once

#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/training_keys.h"

namespace railyard::scenario {

Record<PipelineStage> pipeline_stage_record();

/// The section with the keys that `stages` stands for: pp, stage_layers, and dp, if it is not written. The same without `stages`.
TrainingSection with_stages(TrainingSection written, const transformer::ModelShape& model,
                            const platforms::MachineSpec& machine, const Source& source);
/// The GPU of each rank: each pipeline rank takes the next ones of its group. @pre sizes, order and stage_groups are set
std::vector<std::uint32_t> placed_by_stage(const TrainingSpec& spec, const platforms::MachineSpec& machine);
/// Refuses what needs one kind of GPU, or pipeline ranks with several stages. @pre all else is set
void check_stages(const TrainingSpec& spec, const platforms::MachineSpec& machine, const Source& source);

}  // namespace railyard::scenario
