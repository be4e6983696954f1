#include "sc_main/scenario/kinds/expert_exchange.h"

#include <algorithm>
#include <map>

#include "collective/deepep.h"

namespace railyard::scenario {

namespace {

using workload::Dimension;

/// Of the group of the first rank. Groups of other ranks are placed alike, unless the user places each rank.
std::map<std::uint32_t, std::uint32_t> ranks_by_server(const workload::training::TrainingSpec& spec,
                                                       std::uint32_t gpus) {
  std::map<std::uint32_t, std::uint32_t> ranks;
  const std::uint32_t tp = spec.whole_experts ? spec.tp() : 1;
  for (std::uint32_t e = 0; e < spec.ep(); ++e)
    for (std::uint32_t t = 0; t < tp; ++t)
      ++ranks[spec.placement[e * spec.stride(Dimension::ep) + t * spec.stride(Dimension::tp)] / gpus];
  return ranks;
}

}  // namespace

void check_expert_exchange(const workload::training::TrainingSpec& spec, const transformer::ModelShape& model,
                           const platforms::MachineSpec& machine, const Source& source) {
  const transformer::RoutedForm& routed = spec.software.routed;
  if (routed.capacity && model.experts == 0) refuse_workload(source, "expert_capacity", model.name + " has no experts");
  if (routed.capacity && *routed.capacity > model.experts)
    refuse_workload(source, "expert_capacity",
                    number_text(*routed.capacity) + " is more than the " + std::to_string(model.experts) +
                        " experts of " + model.name);
  if (routed.pads && !routed.capacity) refuse_workload(source, "pad_to_capacity", "needs expert_capacity");
  if (routed.capacity && routed.dispatch == transformer::TokenDispatch::deepep)
    refuse_workload(source, "expert_capacity", "needs expert_exchange: all_to_all");
  if (routed.shared_beside) {
    const auto refuse = [&](const std::string& text) { refuse_workload(source, "shared_experts_beside", text); };
    if (model.shared_ffn == 0) refuse(model.name + " has no shared experts; accepted: false");
    if (spec.expert_ranks() == 1) refuse("needs ep of 2 or more");
    if (spec.schedule.overlap_pairs) refuse("needs overlap_moe: false");
  }
  if (routed.dispatch != transformer::TokenDispatch::deepep) return;
  const auto refuse = [&](const std::string& text) {
    refuse_workload(source, "expert_exchange", "deepep " + text + "; accepted: all_to_all");
  };
  const std::uint32_t ranks = spec.expert_ranks();
  if (ranks == 1) refuse("needs ep of 2 or more");
  if (spec.tp() > 1 && !spec.whole_experts) refuse("with tp of 2 or more needs expert_tp: 1");
  if (spec.gtp() > 1 || spec.cp() > 1) refuse("needs gtp: none and cp: 1");
  if (spec.software.launch != workload::training::Launch::eager || !routed.synchronizes)
    refuse("needs launch: eager and experts_synchronize: true, because the host waits for the numbers of tokens");
  for (const platforms::GroupSpec& group : machine.groups)
    if (group.nvlink_planes.empty()) refuse("needs NVLink");
  if (collective::deepep_chunks(ranks) == nullptr)
    refuse("has no kernels for ep " + std::to_string(ranks) + ", only for " + collective::deepep_ranks());
  const std::uint32_t together = std::min(ranks, collective::kDeepEpServerRanks);
  for (const auto& [server, on_server] : ranks_by_server(spec, machine.board.gpus))
    if (on_server != together)
      refuse("needs " + std::to_string(together) + " ranks with the experts of a layer on each server, but server " +
             std::to_string(server) + " has " + std::to_string(on_server));
}

}  // namespace railyard::scenario
