// The result of a message, a collective or a job.
#pragma once

#include <cstdint>

namespace railyard {

enum class Status : std::uint8_t {
  ok,
  undeliverable,  ///< links failed, and no path is left for some of its bytes
  cancelled       ///< not done, because a job for which it waits has failed
};

}  // namespace railyard
