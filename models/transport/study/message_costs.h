// Where the time of a message went, by link. The parts add up to what it took:
//
//   latency   what one byte takes on an empty machine: links, switches, NICs, memory
//   wire      what all bytes take longer than one, at the slowest link of the way (a meter counts as a link)
//   engine    the same, where no link is what limits: a NIC's reads in flight, a switch's reduction; and what is written at the
//             source more slowly than that
//   queue     the rest, at the ports that its transactions waited for, in proportion (as links.csv has it); behind whatever was
//             there, earlier messages of the same sender included
//
// Without the slowest link, the next slowest limits: each part says how much of it would be there all the same. A queue moves
// on: without the link that a message waited for, the message still meets what its class has posted before on each other link
// of the way (sent()). And messages that belong together, a collective's, are not over before each link has carried them all
// (Load).
#pragma once

#include <array>
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
  /// Numbers of the groups that links belong to; a link that is not there is in a group of its own.
  using Groups = std::unordered_map<const PortCounters*, std::size_t>;

 private:
  struct Link {
    const PortCounters* port;
    std::size_t group;
    double bytes_per_second;  ///< of the message's payload, where it carries its share of it
    std::uint32_t number;     ///< of the port, as they were first seen
  };
  struct Way {
    Time latency;
    std::vector<Link> links;        ///< none twice
    const Link* slowest = nullptr;  ///< null: what limits is no link, or there is no way
    double engine_bytes_per_second = std::numeric_limits<double>::infinity();  ///< infinite: no engine limits it
    const PortCounters* engine =
        nullptr;  ///< the port by which bytes come to the engine that reads them, or leave the writer
    // Of the bytes' time at what limits them, what the rest of the way would take:
    double hidden_ratio = 0;            ///< were an engine free that limits them
    double hidden_elsewhere_ratio = 0;  ///< were the links of the slowest one's group free
  };

 public:
  /// @param groups  outlives it
  /// @param count   of groups: their numbers are below
  MessageCosts(const FabricContext& context, Routes& routes, const Groups& groups, std::size_t count)
      : context_(context), routes_(routes), groups_(groups), group_count_(count) {}

  /// It is sent now, and goes behind what its class has posted on its links, each taken by itself.
  /// Links that are lost later may take its way with them: where links can be lost, the way is found anew.
  /// @param floors  whether take_floors() follows
  void sent(const Message& message, bool floors);
  /// Of a message that lands now.
  std::vector<Cost> landed(const Message& message, Time now);
  /// In what time it would have landed at the earliest without one group of links, by group: what the others had to carry.
  std::vector<Time> take_floors(const Message& message);
  /// The group of the slowest link of its way; frees.groups or more: of none.
  std::size_t slowest_group(const Message& message);
  /// Of one whose last byte leaves its source now: no latency, otherwise the same.
  std::vector<Cost> left(const Message& message, Time now);

  /// What messages lay on links, engines and writers.
  class Load {
   public:
    /// Counts anew what is sent from now on.
    void begin(Time now) { *this = Load(now); }
    explicit Load(Time since = Time()) : since_(since) {}

   private:
    friend class MessageCosts;
    Time since_;
    Time first_sent_ = Time::max(), least_latency_ = Time::max();
    std::unordered_map<const Way*, Bytes> bytes_;
    std::map<std::pair<const Way*, std::uint32_t>, Time> written_;  ///< by way and channel
    Time most_written_;
  };
  /// A message that has landed. What was sent before the load began does not count.
  void add(Load& load, const Message& message);
  /// The least time in which they can be over: until the first is sent, then the latency of any and what follows.
  struct Floors {
    Time lead, latency;
    Time links, engines;             ///< the busiest link; the engine or writer
    Time beside_slowest;             ///< of links, without the group of each message's slowest one
    std::vector<Time> beside_group;  ///< of links, without that group
  };
  Floors floors(const Load& load);

 private:
  const Way& way(const Message& message);
  Way measured(const Message& message, const Path& path);
  static void find_slowest(Way& way);
  /// @param latency  of it, as far as the time goes
  std::vector<Cost> costs(const Message& message, Time took, Time latency);
  /// Of values of links, the most of those that are not in a group, by group.
  template <class Value>
  std::vector<Time> most_beside(const std::vector<Link>& links, const Value& value) const;

  const FabricContext& context_;
  Routes& routes_;
  const Groups& groups_;
  const std::size_t group_count_;
  std::unordered_map<std::uint64_t, Way> ways_;
  std::unordered_map<const PortCounters*, std::uint32_t> numbers_;
  std::vector<std::array<Time, kMaxClasses>>
      posted_;  ///< by number of the port: until then it would carry what was sent
  std::unordered_map<const Message*, std::vector<Time>> floors_;
  // By number of the port, kept to spare allocations.
  std::vector<Time> carried_, carried_slowest_;
};

}  // namespace railyard::transport
