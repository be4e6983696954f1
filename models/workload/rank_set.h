// The ranks of a test that uses some GPUs of a machine as one group: streams for each, who they are to collectives, and how they
// reach each other.
#pragma once

#include <deque>
#include <vector>

#include "collective/tuner.h"
#include "workload/job.h"

namespace railyard::workload {

struct RankSet {
  /// @param gpus  by rank; @pre the machine is elaborated
  RankSet(const std::vector<gpu::Gpu*>& gpus, transport::Fabric& fabric) : group(collective::group_of(gpus)) {
    for (gpu::Gpu* gpu : gpus) {
      storage.emplace_back().gpu = gpu;
      devices.push_back(&storage.back());
    }
    if (gpus.size() == 1) return;  // nobody to meet
    collective::add_multicast_groups(group, gpus, fabric);
    site = collective::site_of(gpus, group, fabric);
  }
  RankSet(const RankSet&) = delete;
  RankSet& operator=(const RankSet&) = delete;

  std::uint32_t size() const { return static_cast<std::uint32_t>(devices.size()); }

  std::deque<RankDevice> storage;
  std::vector<RankDevice*> devices;  ///< by rank
  collective::Group group;
  collective::Site site;
};

}  // namespace railyard::workload
