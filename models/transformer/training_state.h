// Memory of weights, gradients and optimizer state: Adam keeps two moments of each parameter, and a copy of parameters in
// its own precision if they have less. While it runs, it also has such a copy of gradients (Megatron-LM,
// _copy_model_grads_to_main_grads(); zero_grad() frees it). A distributed optimizer (ZeRO, Rajbhandari et al., arXiv
// 1910.02054) divides state among D data-parallel ranks: stage 1 the optimizer's, stage 2 also gradients, stage 3 also
// weights, of which a layer is gathered while it runs.
//
//   bytes per parameter            stage 0    1            2            3
//   16-bit, fp32 gradients         18         6 + 12/D     2 + 16/D     18/D
//   16-bit, 16-bit gradients       16         4 + 12/D     2 + 14/D     16/D    and 4, or 4/D, while the optimizer runs
//   fp32                           16         8 + 8/D      4 + 12/D     16/D
#pragma once

#include "base/units.h"
#include "transformer/parameters.h"
#include "transformer/training_form.h"

namespace railyard::transformer {

/// Bytes of a number.
struct StatePrecision {
  Bytes weights = 2;
  Bytes gradients = 4;  ///< sum over micro-batches
  Bytes optimizer = 4;
};

struct StateSharding {
  std::uint32_t zero_stage = 0;
  std::uint32_t ranks = 1;  ///< D
};

/// On one rank.
struct TrainingState {
  Bytes weights = 0, gradients = 0, optimizer = 0;
  Bytes gradient_copies = 0;  ///< in the optimizer's precision; only while it runs
  /// Between optimizers.
  Bytes total() const { return weights + gradients + optimizer; }
  TrainingState& operator+=(const TrainingState& o) {
    weights += o.weights;
    gradients += o.gradients;
    optimizer += o.optimizer;
    gradient_copies += o.gradient_copies;
    return *this;
  }
};

/// State of a rank with so many parameters before data parallelism divides them; shards are rounded up.
TrainingState training_state(std::uint64_t parameters, const StatePrecision& precision, const StateSharding& sharding);

/// Narrow copies of so many weights that a rank keeps for a step (NarrowProducts::copies(), WeightCast::step).
Bytes narrow_weight_bytes(std::uint64_t weights, const TrainingForm& form);

}  // namespace railyard::transformer
