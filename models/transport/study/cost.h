// Kinds of cost of time on a causal chain: the terms in which a run's critical path is reported.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "base/units.h"
#include "transport/link/counters.h"

namespace railyard::transport {

enum class CostKind : std::uint8_t {
  kernel,     ///< the time of a kernel alone on its GPU
  sharing,    ///< slow-down of a kernel by other kernels, collectives and messages
  straggler,  ///< slow-down of a kernel by an event that slows its GPU
  sm_wait,    ///< CTAs of a collective waiting for SMs
  step,       ///< work of a collective's CTAs, proxies and host
  engine,     ///< a message limited not by a link but by the engine that reads or writes its bytes; a CTA that copies
  latency,    ///< a message: time of one byte on an empty machine
  wire,       ///< a message: time of its bytes on the slowest link of its path, on an empty machine
  queue,      ///< a message: time beyond its time without contention, attributed to the ports for which it waited
  host,       ///< work of host software
  delay,      ///< a stream occupied for a given time
  arrival,    ///< no work had arrived yet
};
constexpr std::size_t kCostKinds = 12;
constexpr bool of_links(CostKind kind) { return kind == CostKind::wire || kind == CostKind::queue; }
constexpr bool of_traffic(CostKind kind) { return kind >= CostKind::step && kind <= CostKind::queue; }
constexpr std::array<const char*, kCostKinds> kCostKindNames{"kernel", "sharing", "straggler", "sm_wait",
                                                             "step",   "engine",  "latency",   "wire",
                                                             "queue",  "host",    "delay",     "arrival"};

/// Key that distinguishes costs.
using CostKey = std::tuple<CostKind, std::uint32_t, const PortCounters*>;

struct Cost {
  CostKey key() const { return {kind, which, port}; }

  CostKind kind = CostKind::kernel;
  std::uint32_t which = 0;  ///< traffic class of messages and of a collective's steps; of a kernel, its limit; of a
                            ///< straggler, the number of its GPU
  const PortCounters* port = nullptr;  ///< of wire and queue: the sending port; of a message's engine: the engine's
                                       ///< port
  Time time;
  // Parts of `time` that would remain because of parallel work, of a queue in a collective at most:
  Time hidden;            ///< if all costs of this kind were free
  Time hidden_elsewhere;  ///< if the links of this group were free
};

}  // namespace railyard::transport
