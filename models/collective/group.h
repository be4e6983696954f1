// Makes the Group of a collective from GPUs.
#pragma once

#include "collective/spec.h"
#include "gpu/gpu.h"

namespace railyard::transport {
class Fabric;
}

namespace railyard::collective {

/// @param gpus  in rank order. If the ranks of a server are not contiguous, each contiguous run counts as a server.
Group group_of(const std::vector<gpu::Gpu*>& gpus);
/// A member of a folded group: the place in `gpus` of the GPU that runs for it, which copy of the machine's part it belongs
/// to, its place among the members of its copy, and whether this copy exists.
struct FoldedMember {
  std::uint32_t gpu = 0, copy = 0, place = 0;
  bool exists = true;
};
/// @param members  in rank order; members that exist are in the order of `gpus`
Group folded_group_of(const std::vector<gpu::Gpu*>& gpus, const std::vector<FoldedMember>& members);
/// Makes the multicast groups if the NVSwitches of every server can multicast and reduce.
void add_multicast_groups(Group& group, const std::vector<gpu::Gpu*>& gpus, transport::Fabric& fabric);

}  // namespace railyard::collective
