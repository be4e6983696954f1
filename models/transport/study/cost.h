// What time on the way of a cause goes into: the vocabulary in which a run's critical path is told.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "base/units.h"
#include "transport/link/counters.h"

namespace railyard::transport {

enum class CostKind : std::uint8_t {
  kernel,   ///< alone on its GPU
  sharing,  ///< what it took longer, beside other kernels, collectives and messages, or on a GPU that was slowed down
  sm_wait,  ///< CTAs of a collective waiting for SMs
  step,     ///< work of a collective's CTAs, proxies and host
  engine,  ///< a message: what limits its bytes is no link, but the engine that reads or writes them; a CTA that copies
  latency,  ///< a message: what one byte takes on an empty machine
  wire,     ///< a message: its bytes at the slowest link of its way, on an empty machine
  queue,    ///< a message: what it took longer than alone, laid at the ports that it waited for
  host,     ///< work of host software
  delay,    ///< a stream kept for a given time
  arrival,  ///< nothing was to be done yet
};
constexpr std::size_t kCostKinds = 11;
constexpr bool of_links(CostKind kind) { return kind == CostKind::wire || kind == CostKind::queue; }
constexpr bool of_traffic(CostKind kind) { return kind >= CostKind::step && kind <= CostKind::queue; }
constexpr std::array<const char*, kCostKinds> kCostKindNames{
    "kernel", "sharing", "sm_wait", "step", "engine", "latency", "wire", "queue", "host", "delay", "arrival"};

/// What tells costs apart.
using CostKey = std::tuple<CostKind, std::uint8_t, const PortCounters*>;

struct Cost {
  CostKey key() const { return {kind, which, port}; }

  CostKind kind = CostKind::kernel;
  std::uint8_t which = 0;  ///< traffic class of messages and of a collective's steps; of a kernel, what limits it
  const PortCounters* port = nullptr;  ///< of wire and queue: the sending port; of a message's engine: which one
  Time time;
  // Of it, what something beside it would take all the same:
  Time hidden;            ///< were all costs of its kind free
  Time hidden_elsewhere;  ///< were the links of its group free
};

}  // namespace railyard::transport
