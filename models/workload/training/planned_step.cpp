#include "workload/training/planned_traffic.h"

#include "collective/tuner.h"
#include "workload/training/nccl_request.h"

namespace railyard::workload::training {

using transformer::RankGroup;

namespace {

/// By RankGroup, of the groups of the first rank.
std::array<collective::Site, transformer::kRankGroups> sites_of(const TrainingSpec& spec, const Mesh& mesh,
                                                                const transport::Fabric& fabric) {
  std::array<collective::Site, transformer::kRankGroups> sites;
  const auto add = [&](RankGroup group, Dimension dimension, TrafficClass traffic) {
    std::vector<gpu::Gpu*> gpus;
    const std::vector<std::vector<std::uint32_t>> sets = mesh.groups({dimension});
    for (const std::uint32_t rank : sets.front()) gpus.push_back(mesh.rank(rank).gpu);
    collective::Site& site = sites[static_cast<std::size_t>(group)];
    site = collective::site_of(gpus, collective::group_of(gpus), fabric);
    site.most_channels = nccl_request(spec.software, traffic).most_channels;
  };
  add(RankGroup::tp, Dimension::tp, TrafficClass::tp);
  add(RankGroup::ep, Dimension::ep, TrafficClass::ep);
  add(RankGroup::cp, Dimension::cp, TrafficClass::cp);
  return sites;
}

}  // namespace

gpu::LayerTraffic planned_traffic(const SlotPlans& plans, const TrainingSpec& spec, const Mesh& mesh,
                                  const transport::Fabric& fabric) {
  const auto sites = sites_of(spec, mesh, fabric);
  gpu::LayerTime time;
  for (std::uint32_t stage = 0; stage < plans.stages(); ++stage)
    for (const SlotKind kind : {SlotKind::forward, SlotKind::backward}) {
      const SlotPlan& plan = plans.plan(kind, stage);
      time.kernels_s += plan.kernels_s;
      for (const SlotStep& step : plan.steps) {
        const collective::Site& site = sites[static_cast<std::size_t>(step.group)];
        if (step.kernels != nullptr || site.ranks == 1) continue;
        const bool beside = step.coupled != nullptr || step.beside_next;
        (beside ? time.beside_s : time.waits_s) += collective::planned_s(site, step.operation, step.bytes);
      }
    }
  return time.traffic();
}

}  // namespace railyard::workload::training
