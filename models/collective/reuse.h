// Collectives that are simulated once and then replayed. On links that no other traffic can reach, a collective is a function of
// its graph, its bytes, its members and the times at which they entered. If the links are quiet when it begins, an equal
// collective takes the same course. A course records when each member was done, what the collective added to the counters of
// its links, and what it took of its members' memories, step by step. A replay adds the same. Where the use of links is asked
// for in the middle of a collective (Fabric::follow_charges), a course also records when each link was charged. A run gives the
// same results whether its courses are replayed or simulated.
//
// isolate() proves before the run which groups are alone on their links, from the routes of everything the workload can send. A
// collective is simulated, not replayed, if a member is late, if its links are not quiet, or if a listener follows one of them;
// and also if the next collective of the group may begin before all credits have returned, because a replay does not leave
// those credits behind.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "collective/collective.h"

namespace railyard::collective {

/// What one collective left behind, relative to its first start.
struct Course {
  std::vector<std::pair<Time, std::uint32_t>> done;  ///< (when, member), in order
  std::vector<transport::PortCounters> counters;     ///< added to each port of the group, and to each meter
  std::vector<transport::ChargeLog> charges;         ///< as counters; empty if nobody follows charges
  transport::ClassTotals messages;
  std::shared_ptr<transport::MemoryCourse> memory;  ///< of its members
  std::vector<Trail> trails;                        ///< by member; empty where nobody follows causes
  bool apart = false;  ///< its links are quiet before the group's next collective can begin
};

/// The ports of one group of members, and the meters of their pairs, if nobody else's traffic can cross them.
class ReuseTable {
 public:
  /// @param least_launch  no collective of the group begins sooner after a member of it has entered
  ReuseTable(const transport::Fabric& fabric, std::vector<std::pair<transport::Device*, PortId>> ports,
             const std::vector<transport::Meter*>& meters, Time least_launch);

  Time least_launch() const { return least_launch_; }
  /// From when on the links are quiet if nothing else comes, or an instant not after now; max: not known yet.
  Time quiet_from() const;
  /// Whether a listener follows one of the ports: it would miss what a replay leaves out.
  bool followed() const;
  const Course* find(const CourseKey& key) const;
  /// A collective of the group begins: one whose course was being kept is not alone any more.
  void begin(const Collective& collective);
  /// The course of the one that has just begun is being kept; keep() follows when it is over.
  void keeps(Collective& collective, Course& course, Time now);
  /// @param took  from its first start until all were done, which is now
  void keep(const CourseKey& key, Course course, Time now, Time took);

  /// Adds a course that begins now to the counters. @return its transactions over links
  std::uint64_t replay(const Course& course, Time now);

 private:
  void stop_logs();

  // What all of them may take of memory is bounded.
  static constexpr std::size_t kMostCourses = 4096, kMostSteps = 1 << 22;
  const transport::Fabric& fabric_;
  std::vector<std::pair<transport::Device*, PortId>> ports_;
  std::vector<transport::PortCounters*> counters_;  ///< of the ports, then of the meters
  Time least_launch_;
  Collective* kept_ = nullptr;
  std::size_t steps_ = 0;
  std::map<CourseKey, Course> courses_;
};

/// Members of a collective group, each of which takes part in one collective after the other.
struct ReuseGroup {
  std::vector<transport::Window> members;
  Time least_launch;  ///< of all their collectives
};

/// Makes a table for every group whose links no other pair of memories can reach; null for the others.
/// @param others  (source, destination, class) of everything else that will be sent
std::vector<std::unique_ptr<ReuseTable>> isolate(
    transport::Fabric& fabric, const std::vector<ReuseGroup>& groups, std::uint8_t traffic_class,
    const std::vector<std::tuple<transport::Window, transport::Window, std::uint8_t>>& others);

}  // namespace railyard::collective
