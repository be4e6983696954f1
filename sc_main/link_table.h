// Every direction of every link, with the name it has in outputs: GPU_P[p][t]_PCI, IB_NIC_P[k]_PCI, IB_Cable_P[k] as the ranks
// and NICs of a group are numbered (P: prefill, D: decode; [r] where ranks have one index), NVLink and switch ports in the same
// pattern. What is no link but limits bytes as one does has a row, too: two GPUs below different sockets.
#pragma once

#include <string>
#include <vector>

#include "sc_main/simulation.h"

namespace railyard {

struct LinkRow {
  std::string kind;  ///< its name without whose it is: "GPU_PCI", "IB_Cable"
  std::string name;
  std::string direction;  ///< tx or rx, as seen from the device that the name speaks of; both: of a meter
  const transport::Device* device = nullptr;  ///< the sender; null: a meter
  PortId port;
  const transport::Device* home =
      nullptr;  ///< the switch, NIC or root complex that it belongs to, or else the named device
  /// Instead of a link: what two GPUs below different sockets share.
  const transport::Meter* meter = nullptr;
  std::string meter_name;  ///< the ports of the two GPUs

  /// Hierarchical name of the sending port, as in waveforms; of a meter both GPUs'.
  std::string port_name() const;
  const transport::PortCounters& counters() const {
    return meter != nullptr ? meter->counters : device->port(port).counters;
  }
  /// Charged so far; a run that was cut short may be in the middle of a charge.
  Time busy(Time now) const { return meter != nullptr ? meter->busy_until(now) : device->port(port).busy_until(now); }
  /// Of a meter its rate alone.
  transport::LinkDirection link() const;
};

std::vector<LinkRow> link_table(Simulation& simulation);

}  // namespace railyard
