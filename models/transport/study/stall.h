// State of a stalled fabric: transactions that wait for credit and, in a deadlock, a cycle in which each transaction
// holds the buffer for which the previous one waits. Used at the end of a run that cannot progress.
#pragma once

#include <vector>

#include "transport/device/device.h"

namespace railyard::transport {

/// The front of a queue that waits to leave through a port.
struct Stall {
  const Device* device = nullptr;
  PortId port;
  const Transaction* transaction = nullptr;
  Bytes outstanding = 0;  ///< bytes outstanding on its virtual channel; its window is the link's buffer
};

/// All waiting fronts, device by device.
std::vector<Stall> stalls(const std::vector<Device*>& devices);

/// A cycle of stalls: the next stall holds the far buffer for which a stall waits, and the last one waits for the
/// first. Empty if there is no cycle.
std::vector<Stall> cycle_of(const std::vector<Stall>& stalls);

}  // namespace railyard::transport
