// When an engine runs a step as two micro-batches, whose exchanges of tokens hide behind the kernels of the other one. The
// values are in platforms/datasheets/engines. Plain data; no SystemC.
#pragma once

#include <cstdint>

#include "transformer/routing.h"

namespace railyard::workload::inference {

struct MicroBatchRules {
  /// none: the engine has none, or the scenario does not ask for them.
  transformer::MicroBatchTurns turns = transformer::MicroBatchTurns::none;
  // at_exchanges: least tokens of each attention replica, in a batch of decodes, and in one with prompts.
  std::uint32_t decode_tokens = 0, prompt_tokens = 0;
};

}  // namespace railyard::workload::inference
