// Where the time of a message went, by link. The parts add up to what it took:
//
//   latency   what one byte takes on an empty machine: links, switches, NICs, memory
//   wire      what all bytes take longer than one, at the slowest link of the way
//   engine    the same, where no link is what limits: a NIC's reads in flight, the path between two sockets, a switch's reduction;
//             and what is written at the source more slowly than that
//   queue     the rest, at the ports that its transactions waited for, in proportion (as links.csv has it); behind whoever was
//             there, earlier messages of the same sender included
#pragma once

#include <unordered_map>
#include <vector>

#include "transport/cost.h"
#include "transport/fabric.h"

namespace railyard::transport {

class MessageCosts {
 public:
  /// Numbers of the groups that links belong to; a link that is not there is in a group of its own.
  using Groups = std::unordered_map<const PortCounters*, std::size_t>;

  /// @param groups  outlives it
  MessageCosts(Fabric& fabric, const Groups& groups) : fabric_(fabric), groups_(groups) {}

  /// A message sets out; links that are lost later may take its way with them.
  void sent(const Message& message);
  /// Of a message that lands now.
  std::vector<Cost> landed(const Message& message, Time now);
  /// Of one whose last byte leaves its source now: no latency, otherwise the same.
  std::vector<Cost> left(const Message& message, Time now);

 private:
  struct Way {
    Time latency;
    const PortCounters* slowest = nullptr;  ///< null: what limits is no link, or there is no way
    // Of the bytes' time at what limits them, what the rest of the way would take:
    double hidden_ratio = 0;                ///< all that is not of its kind: engines beside links, or links beside engines
    double hidden_elsewhere_ratio = 0;      ///< all but the links of its group
  };
  const Way& way(const Message& message);
  Way measured(const Message& message, const Path& path);
  /// @param latency  of it, as far as the time goes
  std::vector<Cost> costs(const Message& message, Time took, Time latency);

  Fabric& fabric_;
  const Groups& groups_;
  std::unordered_map<std::uint64_t, Way> ways_;
};

}  // namespace railyard::transport
