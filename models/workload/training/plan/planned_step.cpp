#include "workload/training/plan/planned_step.h"

#include <algorithm>

#include "collective/tuner.h"
#include "workload/training/plan/nccl_request.h"

namespace railyard::workload::training {

using transformer::HostWait;
using transformer::RankGroup;

namespace {

using Sites = std::array<collective::Site, transformer::kRankGroups>;

collective::Site site_of(const std::vector<std::uint32_t>& ranks, TrafficClass traffic, const TrainingSpec& spec,
                         const Mesh& mesh, const transport::Fabric& fabric) {
  std::vector<gpu::Gpu*> gpus;
  for (const std::uint32_t rank : ranks) gpus.push_back(mesh.rank(rank).gpu);
  collective::Site site = collective::site_of(gpus, collective::group_of(gpus), fabric);
  site.most_channels = nccl_request(spec.software, traffic).most_channels;
  return site;
}

/// By RankGroup, of the groups of the first rank, or of the first one of a stage that has a group of GPUs.
Sites sites_of(const TrainingSpec& spec, const Mesh& mesh, const transport::Fabric& fabric, std::uint32_t stage) {
  Sites sites;
  const auto add = [&](RankGroup group, const std::vector<Dimension>& dimensions, TrafficClass traffic) {
    const std::vector<std::vector<std::uint32_t>> all = mesh.groups(dimensions);
    const auto found = std::find_if(all.begin(), all.end(), [&](const std::vector<std::uint32_t>& ranks) {
      return spec.stage_groups.empty() || mesh.coordinate(ranks.front(), Dimension::pp) == stage;
    });
    sites[static_cast<std::size_t>(group)] = site_of(*found, traffic, spec, mesh, fabric);
  };
  add(RankGroup::tp, {Dimension::tp}, TrafficClass::tp);
  add(RankGroup::ep, spec.expert_dimensions(), TrafficClass::ep);
  add(RankGroup::cp, {Dimension::cp}, TrafficClass::cp);
  return sites;
}

double collective_s(const SlotStep& step, const Sites& sites) {
  const collective::Site& site = sites[static_cast<std::size_t>(step.group)];
  if (step.kernels != nullptr || site.ranks == 1) return 0;
  const bool crosses = step.tokens.runs() && site.servers > 1;
  return collective::planned_s(site, step.operation, crosses ? step.tokens.network_bytes : step.bytes);
}

gpu::LayerTime planned_time(const SlotPlan& plan, const Sites& sites) {
  gpu::LayerTime time;
  time.kernels_s = plan.kernels_s;
  for (const SlotStep& step : plan.steps) {
    const bool beside = step.coupled != nullptr || step.beside_next;
    (beside ? time.beside_s : time.waits_s) += collective_s(step, sites);
  }
  return time;
}

/// A slot in which the host waits for kernels: neither the GPU nor the host hides the other's work behind it.
double waiting_slot_s(const SlotPlan& plan, const Sites& sites, const Software& software) {
  const double launch_s = software.host_us * 1e-6, call_s = software.expert_call_us * 1e-6;
  double host_s = 0, gpu_s = 0;  // when each has done all so far
  bool waits = false;            // for the step before
  for (const SlotStep& step : plan.steps) {
    const double awaited_s = gpu_s;
    host_s += launch_s * (step.kernels != nullptr ? step.launches : 1) + call_s * step.calls;
    double step_s = 0;
    if (step.kernels != nullptr)
      for (const gpu::KernelTime& kernel : step.kernels->kernels) step_s += kernel.seconds;
    if (step.coupled == nullptr && !step.beside_next) step_s += collective_s(step, sites);
    if (step.coupled != nullptr) step_s += step.coupled->kernels_s();
    gpu_s = std::max(gpu_s, host_s) + step_s;
    const auto wait = [&](double until_s) { host_s = std::max(host_s, until_s) + launch_s; };  // a call, too
    if (waits) wait(awaited_s);
    waits = step.host_waits == HostWait::after_next;
    if (step.host_waits == HostWait::at_once) wait(gpu_s);
  }
  return gpu_s;
}

}  // namespace

gpu::LayerTraffic planned_traffic(const SlotPlans& plans, const TrainingSpec& spec, const Mesh& mesh,
                                  const transport::Fabric& fabric) {
  gpu::LayerTime sum;
  Sites sites;
  for (std::uint32_t stage = 0; stage < plans.stages(); ++stage) {
    if (stage == 0 || !spec.stage_groups.empty()) sites = sites_of(spec, mesh, fabric, stage);
    for (const SlotKind kind : {SlotKind::forward, SlotKind::backward}) {
      const gpu::LayerTime time = planned_time(plans.plan(kind, stage), sites);
      sum.kernels_s += time.kernels_s;
      sum.waits_s += time.waits_s;
      sum.beside_s += time.beside_s;
    }
  }
  return sum.traffic();
}

std::vector<StageTimes> planned_times(const SlotPlans& plans, const TrainingSpec& spec, const Mesh& mesh,
                                      const transport::Fabric& fabric, Bytes sent_bytes) {
  Sites sites;
  const std::vector<std::uint32_t> line = mesh.groups({Dimension::pp}).front();
  const auto transfer = [&](std::uint32_t from) {
    const std::vector<std::uint32_t> pair{line[from % line.size()], line[(from + 1) % line.size()]};
    if (pair[0] == pair[1]) return Time();
    return Time::seconds(collective::planned_s(site_of(pair, TrafficClass::pp, spec, mesh, fabric),
                                               collective::Operation::send_recv, sent_bytes));
  };
  std::vector<StageTimes> times;
  for (std::uint32_t s = 0; s < plans.stages(); ++s) {
    if (s == 0 || !spec.stage_groups.empty()) sites = sites_of(spec, mesh, fabric, s);
    const auto slot = [&](SlotKind kind) {
      const SlotPlan& plan = plans.slowest(kind, s);
      const gpu::LayerTime time = planned_time(plan, sites);
      const double gpu_s = time.kernels_s + time.waits_s;
      if (spec.software.launch != Launch::eager) return Time::seconds(gpu_s);
      const bool waits = std::any_of(plan.steps.begin(), plan.steps.end(),
                                     [](const SlotStep& step) { return step.host_waits != HostWait::none; });
      if (waits) {
        const double before_s = (kind == SlotKind::forward ? spec.software.slot_host_us : 0) * 1e-6;
        return Time::seconds(before_s + waiting_slot_s(plan, sites, spec.software));
      }
      double host_us = 0;
      for (const SlotStep& step : plan.steps) host_us += step.launches * spec.software.host_us;
      const double before_us = kind == SlotKind::forward ? spec.software.slot_host_us : 0;
      return Time::seconds(before_us * 1e-6 + std::max(gpu_s, host_us * 1e-6));
    };
    const auto last = static_cast<std::uint32_t>(line.size() - 1);  // the rank before the first one
    times.push_back({slot(SlotKind::forward), slot(SlotKind::backward_inputs), slot(SlotKind::backward_weights),
                     transfer(s), transfer(s + last)});
  }
  return times;
}

}  // namespace railyard::workload::training
