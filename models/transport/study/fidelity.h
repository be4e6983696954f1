// How the fabric moves bytes: as trains (egress_port.h), as fluid (fluid.h), or for each set of links by its traffic
// (fidelity_choice.h). Plain data; no SystemC, so that the scenario loader can fill it.
#pragma once

#include <cstdint>

namespace railyard::transport {

enum class Fidelity : std::uint8_t { train, fluid, automatic };

}  // namespace railyard::transport
