// Messages on a whole machine, given as a `machine:` section, and the traffic on its links.
#pragma once

#include <string>

#include "platforms/machine.h"
#include "tests/support/machine_of.h"
#include "tests/support/simulation.h"

namespace railyard::test {

class MachineRun : public Simulation {
 public:
  explicit MachineRun(const std::string& yaml, const std::string& platform = "plx_box", Bytes transaction_bytes = 4096)
      : Simulation(transaction_bytes), machine(machine_of(yaml, platform), fabric) {}

  platforms::Machine machine;

  /// Payload that left a device through one of its ports; names as in machine.json.
  Bytes carried(const std::string& device, const std::string& port) const {
    for (const transport::Device* d : fabric.devices())
      for (std::uint32_t p = 0; p < d->ports(); ++p)
        if (d->name() == device && d->port(PortId(p)).name == port) return d->port(PortId(p)).counters.payload_bytes;
    BOOST_TEST_REQUIRE(false, "no port " << device << "." << port);
    return 0;
  }
  double gb_per_s(std::size_t message) const {
    return static_cast<double>(wanted()[message].bytes) / took[message].seconds() / 1e9;
  }
};

}  // namespace railyard::test
