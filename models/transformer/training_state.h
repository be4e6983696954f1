// Memory of weights, gradients and optimizer state: Adam keeps two moments of each parameter, and a master copy of
// parameters if they have less precision. While an optimizer in fp32 runs, it also has such a copy of gradients
// (Megatron-LM, _copy_model_grads_to_main_grads(); zero_grad() frees it). One with narrower state reads gradients as they
// are (Megatron-LM, --use-precision-aware-optimizer; TransformerEngine, FusedAdam). A distributed optimizer (ZeRO,
// Rajbhandari et al., arXiv 1910.02054) divides state among D data-parallel ranks: stage 1 the optimizer's, stage 2 also gradients, stage 3 also
// weights, of which a layer is gathered while it runs.
//
//   bytes per parameter            stage 0    1            2            3
//   16-bit, fp32 gradients         18         6 + 12/D     2 + 16/D     18/D
//   16-bit, 16-bit gradients       16         4 + 12/D     2 + 14/D     16/D    and 4, or 4/D, while the optimizer runs
//   fp32                           16         8 + 8/D      4 + 12/D     16/D
//   16-bit, 16-bit gradients and   12         4 + 8/D      2 + 10/D     12/D
//   moments, fp32 master
#pragma once

#include "base/units.h"
#include "transformer/parameters.h"
#include "transformer/training_form.h"

namespace railyard::transformer {

/// Bytes of a number.
struct StatePrecision {
  Bytes weights = 2;
  Bytes gradients = 4;  ///< sum over micro-batches
  Bytes master = 4;     ///< 0: no master copy
  Bytes moments = 4;    ///< of each of the two
  /// The optimizer has all of its state in fp32.
  bool is_wide() const { return master == 4 && moments == 4; }
  bool has_master() const { return weights < master; }
  /// Of gradients that the optimizer reads on a GPU.
  Bytes read_gradients() const { return is_wide() ? master : gradients; }
  /// Memory traffic of fused Adam for each parameter: reads gradient, master and moments, writes the last three and the
  /// weight; without a master copy it reads the weight. 30 with weights of 2 bytes and all else in fp32.
  Bytes adam_bytes(Bytes gradient) const {
    return gradient + 4 * moments + weights + (has_master() ? 2 * master : weights);
  }
};

struct StateSharding {
  std::uint32_t zero_stage = 0;
  std::uint32_t ranks = 1;  ///< D
};

/// On one rank.
struct TrainingState {
  Bytes weights = 0, gradients = 0, optimizer = 0;
  Bytes gradient_copies = 0;  ///< in the optimizer's precision; only while it runs
  std::uint64_t owned = 0;    ///< parameters whose optimizer state the rank holds
  /// Between optimizers.
  Bytes total() const { return weights + gradients + optimizer; }
  TrainingState& operator+=(const TrainingState& o) {
    weights += o.weights;
    gradients += o.gradients;
    optimizer += o.optimizer;
    gradient_copies += o.gradient_copies;
    owned += o.owned;
    return *this;
  }
};

/// State of a rank with so many parameters before data parallelism divides them; shards are rounded up.
TrainingState training_state(std::uint64_t parameters, const StatePrecision& precision, const StateSharding& sharding);

/// Narrow copies of so many weights that a rank keeps for a step (NarrowProducts::copies(), WeightCast::step).
Bytes narrow_weight_bytes(std::uint64_t weights, const TrainingForm& form);

}  // namespace railyard::transformer
