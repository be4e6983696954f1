// The schedule of a training step's pipeline: what the keys schedule, pp, virtual_stages, stage_layers, overlap_moe and
// defer_embedding_wgrad say together.
#pragma once

#include <cstdint>
#include <vector>

#include "sc_main/scenario/kinds/training_keys.h"

namespace railyard::scenario {

/// Halves of a pipeline that have the same stages.
std::uint32_t halves_of(const TrainingSection& written);
void check_dualpipe(const TrainingSection& written, const Source& source);
/// GPU of each rank where the second half of a pipeline counts as replicas of the first (TrainingSpec::schedule): its
/// rank r is rank p - 1 - r of the pipeline. @pre spec.placement is by rank of whole pipelines
std::vector<std::uint32_t> dualpipe_placement(const TrainingSpec& spec);

/// A schedule by name, or the table of a file. @pre sizes and the batch are known
/// @throws InputError: an unknown name, a file that does not fit, numbers that the schedule does not accept
void resolve_schedule(TrainingSpec& spec, const TrainingSection& written, const Source& source);
/// Whether some backward slots are two: of inputs, and of weights. @pre the schedule is known
bool divides_backward(const TrainingSpec& spec);
/// @pre the schedule is known, in these three
void check_empty_stages(const TrainingSpec& spec, const Source& source);
void check_deferred_head(const TrainingSpec& spec, const Source& source);
void resolve_overlap_moe(TrainingSpec& spec, const TrainingSection& written, const transformer::ModelShape& model,
                         const Source& source);

}  // namespace railyard::scenario
