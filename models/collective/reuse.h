// Collectives that are simulated once and then replayed. On links that no other traffic can reach, a collective is a
// function of its graph, its bytes, its members and the times at which they entered. If the links are quiet when it
// begins, an equal collective takes the same course. A course records when each member was done, what the collective
// added to the counters of its links, and what it took of its members' memories, step by step. A replay adds the same.
// Where the use of links is asked for in the middle of a collective (Fabric::follow_charges), a course also records
// when each link was charged. A run gives the same results whether its courses are replayed or simulated.
//
// isolate() proves before the run which groups are alone on their links, from the routes of everything the workload can
// send. A collective is simulated, not replayed, if a member is late, if its links are not quiet, or if a listener
// follows one of them; and also if the next collective of the group may begin before all credits have returned, because
// a replay does not leave those credits behind.
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

/// The courses of one group of members, with the group's ports and meters. No other traffic can cross these.
class ReuseTable {
 public:
  /// @param least_launch  least time from the entry of a member to the begin of its collective, for all of the group
  ReuseTable(const transport::Fabric& fabric, std::vector<std::pair<transport::Device*, PortId>> ports,
             const std::vector<transport::Meter*>& meters, Time least_launch);

  Time least_launch() const { return least_launch_; }
  /// The instant from which the links are quiet if no traffic is added; not after now if they are quiet already; max if it
  /// is not known yet.
  Time quiet_from() const;
  /// Whether a listener follows one of the ports. A replay would hide events from it.
  bool followed() const;
  const Course* find(const CourseKey& key) const;
  /// A collective of the group begins. Another collective that is being recorded is no longer alone: its recording is
  /// dropped.
  void begin(const Collective& collective);
  /// The collective that has just begun is being recorded. keep() follows when it is over.
  void keeps(Collective& collective, Course& course, Time now);
  /// @param took  time from the first start until now, when all members are done
  void keep(const CourseKey& key, Course course, Time now, Time took);

  /// Adds a course that begins now to the counters. @return transactions over links in the course
  std::uint64_t replay(const Course& course, Time now);

 private:
  void stop_logs();

  // Bounds of the memory for all courses.
  static constexpr std::size_t kMostCourses = 4096, kMostSteps = 1 << 22;
  const transport::Fabric& fabric_;
  std::vector<std::pair<transport::Device*, PortId>> ports_;
  std::vector<transport::PortCounters*> counters_;  ///< of the ports, then of the meters
  Time least_launch_;
  Collective* kept_ = nullptr;
  std::size_t steps_ = 0;
  std::map<CourseKey, Course> courses_;
};

/// Members of a collective group. Each member takes part in one collective after the other.
struct ReuseGroup {
  std::vector<transport::Window> members;
  Time least_launch;  ///< least launch time of all collectives of the group
};

/// Makes a table for each group whose links no other traffic can reach; null for all other groups.
/// @param others  (source, destination, class) of all other messages of the run
std::vector<std::unique_ptr<ReuseTable>> isolate(
    transport::Fabric& fabric, const std::vector<ReuseGroup>& groups, std::uint8_t traffic_class,
    const std::vector<std::tuple<transport::Window, transport::Window, std::uint8_t>>& others);

}  // namespace railyard::collective
