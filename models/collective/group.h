// A group of GPUs as collectives see it.
#pragma once

#include "collective/spec.h"
#include "gpu/gpu.h"

namespace railyard::transport {
class Fabric;
}

namespace railyard::collective {

/// GPUs in rank order. Where ranks of a server do not follow each other, each run of them counts as a server.
Group group_of(const std::vector<gpu::Gpu*>& gpus);
/// Where the NVSwitches of every server multicast and reduce: makes the groups for it.
void add_multicast_groups(Group& group, const std::vector<gpu::Gpu*>& gpus, transport::Fabric& fabric);

}  // namespace railyard::collective
