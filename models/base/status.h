// How something that was asked for ended: a message, a collective, a job.
#pragma once

#include <cstdint>

namespace railyard {

enum class Status : std::uint8_t {
  ok,
  undeliverable,  ///< links were lost, and there is no way left for some of its bytes
  cancelled       ///< something that it needs did not end well, so it was not done
};

}  // namespace railyard
