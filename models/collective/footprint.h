// The links that collectives of a group can use, and whether two groups are alike. If they are alike, an equal
// collective runs alike on both: the same times, and the same bytes on corresponding links.
//
// Ports are listed in the order in which the paths between the members cross them, so equal positions correspond. The
// makeup of a footprint contains all that a collective's progress can depend on:
//   paths     of every pair of members, hop by hop, with their fixed times, limits and stripes
//   links     rates, latencies, credits and packets of both directions
//   devices   class, traits (Device::traits()), and the order of their ports, because arbitration follows this order
//   servers   the server of each member, because programs depend on it
// Trains also need equal places of the members' memories in the address interleave (`stripes`); fluid links do not.
// Two groups are alike if their makeups are equal. A group has no makeup if it crosses a device that cannot be compared
// (a NIC, a host's memory), or a link in one direction only.
#pragma once

#include <optional>
#include <typeindex>
#include <vector>

#include "collective/spec.h"
#include "transport/fabric.h"

namespace railyard::collective {

struct Makeup {
  std::vector<std::uint64_t> words;
  std::vector<std::type_index> classes;  ///< of the devices
  bool operator==(const Makeup& o) const { return words == o.words && classes == o.classes; }
};

struct Footprint {
  std::vector<transport::LinkEnd> ports;
  std::vector<transport::Meter*> meters;
  bool spread = false;           ///< bytes may also cross other ports, chosen at run time
  std::optional<Makeup> makeup;  ///< none: not like any other group
  /// By path: the place of the memory's first byte in the cycle of the address interleave.
  std::vector<std::uint64_t> stripes;
};

/// @param classes  traffic classes of the group's collectives
Footprint footprint_of(const transport::Fabric& fabric, const Group& group, const std::vector<std::uint8_t>& classes);

}  // namespace railyard::collective
