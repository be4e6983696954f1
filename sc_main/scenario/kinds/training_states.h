// Number formats of a training step's states, what of it is in host memory, and adapters: checks of the keys
// precision.parameters, workload.offload and workload.lora.
#pragma once

#include "sc_main/scenario/kinds/training_keys.h"

namespace railyard::scenario {

/// @pre products, software and stages are known. @param divides  some backward slots are two, B and W
/// @throws InputError: a combination that is not modelled; more layers than a stage has
void resolve_states(TrainingSpec& spec, const TrainingSection& written, DataType model, const Source& source);
void resolve_adapters(TrainingSpec& spec, const TrainingSection& written, bool divides,
                      const transformer::ModelShape& model, const Source& source);
void check_modules_format(const TrainingSpec& spec, const transformer::ModelShape& model, const Source& source);
/// @pre tp_overlap is known, too
void check_adapters_overlap(const TrainingSpec& spec, const Source& source);
void resolve_offload(TrainingSpec& spec, const TrainingSection& written, bool divides, const Source& source);

}  // namespace railyard::scenario
