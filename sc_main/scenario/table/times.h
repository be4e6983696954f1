// Parameters that are instants.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/units.h"

namespace railyard::scenario {

/// A duration up to Time::max(), rounded once; Time::seconds only reaches half of this.
inline Time long_time(long double femtoseconds) {
  return Time::fs(static_cast<std::uint64_t>(std::round(femtoseconds)));
}

}  // namespace railyard::scenario
