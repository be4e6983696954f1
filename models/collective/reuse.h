// Collectives computed once and reused. On links that no other traffic can reach, a collective is a function of its graph, its
// bytes, its members and when each of them entered: if the links are quiet when it begins, the same one takes the same course
// again. What is kept of it is when each member was done and what it added to the counters of its links, and a replay adds
// just that.
//
// Who is alone is proved before the run, from the routes of everything the workload can send (see isolate()). A late member,
// links that are not quiet, or a listener that follows one of them: then it is simulated.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "collective/collective.h"

namespace railyard::collective {

/// What one collective left behind, relative to its first start.
struct Course {
  std::vector<std::pair<Time, std::uint32_t>> done;   ///< (when, member), in order
  std::vector<transport::PortCounters> counters;      ///< added to each port of the group
  transport::ClassTotals messages;
  std::vector<Bytes> memory;                          ///< read and written, by member
  std::vector<Trail> trails;                          ///< by member; empty where nobody follows causes
};

/// The ports of one group of members, if nobody else's traffic can cross them.
class ReuseTable {
 public:
  explicit ReuseTable(std::vector<std::pair<transport::Device*, PortId>> ports) : ports_(std::move(ports)) {}

  bool quiet(Time now);
  /// Whether a listener follows one of the ports: it would miss what a replay leaves out.
  bool followed() const;
  const Course* find(const CourseKey& key) const;
  void keep(const CourseKey& key, Course course);

  std::vector<transport::PortCounters> counters() const;
  /// Adds a course to the ports' counters. @return its transactions
  std::uint64_t replay(const Course& course);

 private:
  static constexpr std::size_t kMostCourses = 4096;
  std::vector<std::pair<transport::Device*, PortId>> ports_;
  std::map<CourseKey, Course> courses_;
};

/// Makes a table for every group whose links no other pair of memories can reach; null for the others.
/// @param groups  members of each collective group
/// @param others  (source, destination, class) of everything else that will be sent
std::vector<std::unique_ptr<ReuseTable>> isolate(transport::Fabric& fabric, const std::vector<std::vector<transport::Window>>& groups,
                                                 std::uint8_t traffic_class,
                                                 const std::vector<std::tuple<transport::Window, transport::Window, std::uint8_t>>& others);

}  // namespace railyard::collective
