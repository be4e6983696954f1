// Every direction of every link, with its name in outputs: GPU_P[p][t]_PCI, IB_NIC_P[k]_PCI, IB_Cable_P[k]. Ranks and
// NICs are numbered within their group (P: prefill, D: decode; [r] if ranks have one index). NVLink and switch ports
// follow the same pattern. Meters have a row, too: for example the rate of two GPUs below different sockets.
#pragma once

#include <string>
#include <vector>

#include "sc_main/simulation.h"

namespace railyard {

struct LinkRow {
  std::string kind;  ///< its name without the owner: "GPU_PCI", "IB_Cable"
  std::string name;
  std::string direction;                      ///< tx or rx, relative to the device in the name; both: of a meter
  const transport::Device* device = nullptr;  ///< the sender; null: a meter
  PortId port;
  const transport::Device* home =
      nullptr;  ///< the switch, NIC or root complex to which it belongs, or the named device
  /// Instead of a link: the shared rate of two GPUs below different sockets.
  const transport::Meter* meter = nullptr;
  std::string meter_name;  ///< the ports of the two GPUs

  /// Hierarchical name of the sending port, as in waveforms; of a meter, the ports of both GPUs.
  std::string port_name() const;
  const transport::PortCounters& counters() const {
    return meter != nullptr ? meter->counters : device->port(port).counters;
  }
  /// Time charged so far; an interrupted run may end in the middle of a charge.
  Time busy(Time now) const { return meter != nullptr ? meter->busy_until(now) : device->port(port).busy_until(now); }
  /// For a meter, only the rate is set.
  transport::LinkDirection link() const;
};

std::vector<LinkRow> link_table(Simulation& simulation);

}  // namespace railyard
