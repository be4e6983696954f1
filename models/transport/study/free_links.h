// What if something were free? For each such world, the latest busy period of each link and engine: it carries one message
// after the other, in the order in which they arrived in the run, and none before it would be sent in that world. So a
// queue moves to another link when its own link is free, and messages that a slow sender kept apart wait for each
// other when the sender is free. A message that would be sent before the period has begun does not wait for it.
#pragma once

#include <unordered_map>
#include <vector>

#include "transport/study/message_costs.h"

namespace railyard::transport {

class FreeLinks {
 public:
  /// Numbers of worlds. In worlds without a number here, links and messages cost what they do.
  struct Worlds {
    std::size_t count = 0;
    std::size_t engine = 0, latency = 0, wire = 0, queue = 0;  ///< without engines, latency, slowest links, queues
    std::size_t classes = 0, groups = 0;  ///< without the first traffic class; without the first group of links
  };
  explicit FreeLinks(const Worlds& worlds) : worlds_(worlds) {}

  /// The next message that has arrived.
  struct Carried {
    const MessageCosts::PathCosts* costs = nullptr;
    Bytes bytes = 0;
    std::uint8_t traffic_class = 0;
    Time uncontended;
  };
  /// @param sent  when it would be sent, by world
  /// @return      the earliest time at which its last byte would arrive, by world
  std::vector<Time> carry(const Carried& message, const std::vector<Time>& sent);

 private:
  struct Busy {
    Time since, until;
  };
  const Worlds worlds_;
  std::vector<std::vector<Busy>> links_;  ///< by number of the link, and world
  std::unordered_map<const PortCounters*, std::vector<Busy>> engines_;
};

}  // namespace railyard::transport
