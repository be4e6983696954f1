#include "transformer/training_state.h"

namespace railyard::transformer {

TrainingState training_state(std::uint64_t parameters, const StatePrecision& precision, const StateSharding& sharding) {
  constexpr Bytes kMoments = 2;
  const Bytes master = precision.has_master() ? precision.master : 0;
  const Bytes copy = precision.is_wide() && precision.gradients < precision.master ? precision.master : 0;
  const std::uint64_t shard = ceil_div(parameters, sharding.ranks);
  const auto owned = [&](std::uint32_t stage) { return sharding.zero_stage >= stage ? shard : parameters; };
  return {owned(3) * precision.weights, owned(2) * precision.gradients,
          owned(1) * (kMoments * precision.moments + master), owned(1) * copy, owned(1)};
}

Bytes narrow_weight_bytes(std::uint64_t weights, const TrainingForm& form) {
  if (!form.narrow || form.narrow->weight_cast == WeightCast::product) return 0;
  return form.narrow->copies() * stored_bytes(weights, form.narrow->dtype);
}

}  // namespace railyard::transformer
