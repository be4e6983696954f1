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
/// @param members  in rank order; members that exist are in the order of `gpus`
Group folded_group_of(const std::vector<gpu::Gpu*>& gpus, const std::vector<FoldedMember>& members);
/// @param parts  divides the GPUs; each part gets as many that are adjacent. Networks do not add for parts
Group group_in_parts(const std::vector<gpu::Gpu*>& gpus, std::uint32_t parts);
/// Makes the multicast groups if the NVSwitches of every server can multicast and reduce.
void add_multicast_groups(Group& group, const std::vector<gpu::Gpu*>& gpus, transport::Fabric& fabric);

}  // namespace railyard::collective
