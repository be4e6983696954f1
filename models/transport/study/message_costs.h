// The room `study` studies messages, and changes none. MessageCosts divides the time of a message by link, for results
// and critical paths; FreeLinks predicts queues without a cost; Invariants checks conservation in tests; stall.h finds
// cycles of waiting; FidelityChoice says which links may be fluid.
//
// The time of a message by link. The sum of the parts is the message's time:
//
//   latency   time of one byte on an empty machine: links, switches, NICs, memory
//   wire      additional time of all bytes at the slowest link of the path (a meter counts as a link)
//   engine    the same if the limit is not a link: a NIC's reads in flight, a switch's reduction; and the additional
//             time of bytes that are written at the source more slowly than that
//   queue     the rest, attributed to the ports for which its transactions waited, in proportion (as in links.csv),
//             behind any other traffic, including earlier messages of the same sender
//
// Without the slowest link, the next slowest link is the limit, so each part has the amount that would remain. A queue
// moves to other links: those of messages of jobs queue anew (free_links.h), and a message of a collective might at most
// wait as long for the same bytes at the next slowest link. And a collective's messages end only after each link has carried all of them
// (Load).
#pragma once

#include <limits>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/device/routes.h"
#include "transport/study/cost.h"

namespace railyard::transport {

class MessageCosts {
 public:
  /// Group number of each link; a link without an entry is a group of its own.
  using Groups = std::unordered_map<const PortCounters*, std::size_t>;
  static constexpr std::size_t kNoGroup = ~std::size_t(0);
  static constexpr double kUnlimited = std::numeric_limits<double>::infinity();

  struct Link {
    const PortCounters* port;
    std::size_t group;
    double bytes_per_second;  ///< payload rate of the message if this link carries its share
    std::uint32_t number;     ///< number of the port, in order of first use
  };
  struct PathCosts {
    Time latency;
    std::vector<Link> links;                      ///< no link twice
    const Link* slowest = nullptr;                ///< null: the limit is not a link, or there is no path
    double engine_bytes_per_second = kUnlimited;  ///< infinite: no engine limits it
    const PortCounters* engine =
        nullptr;  ///< the port through which bytes come to the reading engine, or leave the writer
    // Share of the bytes' time at the limit that the rest of the path would take:
    double hidden_ratio = 0;            ///< if the limiting engine were free
    double hidden_elsewhere_ratio = 0;  ///< if the links of the slowest link's group were free
  };

  /// @param groups  must outlive this object
  /// @param count   number of groups: group numbers are below
  MessageCosts(const FabricContext& context, Routes& routes, const Groups& groups, std::size_t count)
      : context_(context), routes_(routes), groups_(groups), group_count_(count) {}

  /// The message is sent now. If links can fail, the path is found here for each message, because a later failure could
  /// remove it.
  void sent(const Message& message);
  /// The path of a message that was sent.
  const PathCosts& path_costs(const Message& message);
  /// Costs of a message that arrives now.
  std::vector<Cost> landed(const Message& message, Time now);
  /// Costs of a message whose last byte leaves its source now: no latency, otherwise the same.
  std::vector<Cost> left(const Message& message, Time now);

  /// The load of messages on links, engines and writers.
  class Load {
   public:
    /// Starts again with messages that are sent from now on.
    void begin(Time now) { *this = Load(now); }
    explicit Load(Time since = Time()) : since_(since) {}

   private:
    friend class MessageCosts;
    Time since_;
    Time first_sent_ = Time::max(), least_latency_ = Time::max();
    std::unordered_map<const PathCosts*, Bytes> bytes_;
    std::map<std::pair<const PathCosts*, std::uint32_t>, Time> written_;  ///< by path and queue pair
    Time most_written_;
  };
  /// Adds a message that has arrived. A message that was sent before the load began does not count.
  void add(Load& load, const Message& message);
  /// The shortest time for all messages of a load: until the first is sent, then the shortest latency, and the rest.
  struct Floors {
    Time lead, latency;
    Time links, engines;             ///< the busiest link; the busiest engine or writer
    Time beside_slowest;             ///< of links, without the group of each message's slowest link
    std::vector<Time> beside_group;  ///< of links, without that group
  };
  Floors floors(const Load& load);

 private:
  PathCosts measured(const Message& message, const Path& path);
  static void find_slowest(PathCosts& costs);
  /// Rate of a link, relative to the slowest limit of the path outside its group; at most 1.
  static double next_link_ratio(const PathCosts& costs, const PortCounters* port);
  /// @param latency  latency of the message, limited to `took`
  std::vector<Cost> costs(const Message& message, Time took, Time latency);
  /// The largest of the links' values outside a group, for each group.
  template <class Value>
  std::vector<Time> most_beside(const std::vector<Link>& links, const Value& value) const;

  const FabricContext& context_;
  Routes& routes_;
  const Groups& groups_;
  const std::size_t group_count_;
  std::unordered_map<std::uint64_t, PathCosts> paths_;
  std::unordered_map<const PortCounters*, std::uint32_t> numbers_;
  // By number of the port, kept to avoid allocations.
  std::vector<Time> carried_, carried_slowest_;
};

}  // namespace railyard::transport
