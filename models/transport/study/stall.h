// Where a fabric stands still: which transactions wait for credit that does not come, and in a deadlock the cycle in which each
// holds the buffer that the one before waits for. For the end of a run that cannot progress; nothing else asks.
#pragma once

#include <vector>

#include "transport/device/device.h"

namespace railyard::transport {

/// The front of a queue, waiting to leave through a port.
struct Stall {
  const Device* device = nullptr;
  PortId port;
  const Transaction* transaction = nullptr;
  Bytes outstanding = 0;  ///< on its channel; its window is the link's buffer
};

/// Everything that waits, device by device.
std::vector<Stall> stalls(const std::vector<Device*>& devices);

/// A cycle among them: the far buffer that a stall waits for is held by the next one, and the last one waits for the first.
/// Empty where there is none.
std::vector<Stall> cycle_of(const std::vector<Stall>& stalls);

}  // namespace railyard::transport
