// Ways through the fat tree of the whole machine. They follow from numbers of NICs and switches, so they can be walked where
// a folded machine builds only a part of the tree. All links are taken to work.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "platforms/machine_spec.h"

namespace railyard::platforms {

/// One direction of a cable between two switches, which have their numbers in the whole machine.
struct Trunk {
  Tier upper = Tier::spine;  ///< the tier above: spine or core
  bool up = true;
  std::uint32_t above = 0, below = 0;

  bool operator<(const Trunk& o) const {
    return std::tie(upper, up, above, below) < std::tie(o.upper, o.up, o.above, o.below);
  }
};

/// Number of spines of each pod.
std::uint32_t spines_of(const MachineSpec& spec);
/// Number of ports of all switches of the whole machine's network that have a cable.
std::uint64_t switch_ports(const MachineSpec& spec);

/// A message between NICs of the whole machine.
struct NetworkMessage {
  std::uint32_t from = 0, to = 0;        ///< NICs
  std::uint32_t lid = 0;                 ///< of the destination: `to`, or its LID for messages to the next copy
  std::uint32_t source = 0, target = 0;  ///< windows of the memories, which ECMP hashes with the class, on queue pair 0
  std::uint8_t traffic_class = 0;
};

class FatTree {
 public:
  /// @pre the network is a fat tree  @param spec  must outlive this
  FatTree(const MachineSpec& spec, infiniband::Routing routing);

  /// A trunk on the way of a message, and the part of its trains that cross it: less than 1 with adaptive routing.
  struct Leg {
    Trunk trunk;
    double part = 1;
  };
  /// @param turns_at  the least tier at which the way turns around
  std::vector<Leg> path(const NetworkMessage& message, Tier turns_at = Tier::leaf) const;

 private:
  /// The paths that routing allows, of `paths`. @param stride  LIDs after each other with the same path
  std::vector<std::uint32_t> choices(const NetworkMessage& message, std::uint32_t paths, std::uint32_t stride) const;

  const MachineSpec& spec_;
  infiniband::Routing routing_;
  std::uint32_t spines_ = 0, cores_ = 0;  ///< spines of a pod, cores of a spine
};

}  // namespace railyard::platforms
