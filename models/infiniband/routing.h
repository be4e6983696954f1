// How a switch picks one of several equal paths upwards. Without SystemC, because the scenario loader uses it.
#pragma once

#include <cstdint>

namespace railyard::infiniband {

enum class Routing : std::uint8_t {
  deterministic,  ///< by destination: one path per LID, as in a subnet manager's linear forwarding tables
  ecmp,           ///< by a hash of the queue pair: its trains keep their order; two queue pairs may collide
  adaptive,       ///< the port that is free first when the head arrives: trains of a queue pair may overtake each other
};

}  // namespace railyard::infiniband
