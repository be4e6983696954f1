#include "sc_main/scenario/kinds/pipeline_groups.h"

#include <algorithm>

#include "sc_main/scenario/kinds/mapping.h"
#include "sc_main/scenario/kinds/ranks_and_sizes.h"

namespace railyard::scenario {

namespace {

using workload::Dimension;

/// Replicas for which each group has GPUs.
std::uint32_t replicas_of(const TrainingSection& written, const platforms::MachineSpec& machine, const Source& source) {
  const std::uint32_t each = written.written_tp * written.written_cp;
  std::optional<std::uint32_t> most;
  for (std::uint32_t g = 0; g < machine.groups.size(); ++g) {
    const auto stages =
        static_cast<std::uint32_t>(std::count(written.stage_groups.begin(), written.stage_groups.end(), g));
    if (stages == 0) continue;
    const std::uint32_t gpus = machine.groups[g].servers * machine.board.gpus, ranks = stages * each;
    const std::string text = std::to_string(stages) + " of group " + machine.groups[g].name + " x tp " +
                             std::to_string(written.written_tp) + " x cp " + std::to_string(written.written_cp);
    if (written.written_dp ? ranks * std::uint64_t{*written.written_dp} > gpus : gpus % ranks != 0)
      refuse_workload(source, "stages",
                      text +
                          (written.written_dp ? " x dp " + std::to_string(*written.written_dp) + " needs more than"
                                              : " does not divide") +
                          " its " + std::to_string(gpus) + " GPUs; set machine.groups." + machine.groups[g].name +
                          ".servers, or workload.dp");
    if (!written.written_dp && most && *most != gpus / ranks)
      refuse_workload(source, "stages",
                      text + " leaves GPUs for " + std::to_string(gpus / ranks) + " replicas, the other groups for " +
                          std::to_string(*most) + "; set workload.dp");
    most = gpus / ranks;
  }
  return written.written_dp.value_or(*most);
}

}  // namespace

Record<PipelineStage> pipeline_stage_record() {
  Record<PipelineStage> r;
  r.add("group", &PipelineStage::group, "group of the machine that has its GPUs").required();
  r.add("layers", &PipelineStage::layers, "decoder layers").range(0, kMostLayers).required();
  return r;
}

TrainingSection with_stages(TrainingSection written, const transformer::ModelShape& model,
                            const platforms::MachineSpec& machine, const Source& source) {
  const std::vector<PipelineStage>& stages = written.stages;
  if (stages.empty()) return written;
  for (const char* key : {"pp", "stage_layers", "placement", "virtual_stages", "gtp"})
    if (value_at(source.root, std::string("workload.") + key))
      refuse_workload(source, key, "is not accepted with workload.stages");
  std::vector<std::uint32_t> layers;
  std::uint64_t sum = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    written.stage_groups.push_back(
        group_named(stages[s].group, "workload.stages." + std::to_string(s) + ".group", machine, source));
    layers.push_back(stages[s].layers);
    sum += stages[s].layers;
  }
  if (sum != model.layers)
    refuse_workload(source, "stages",
                    "have " + std::to_string(sum) + " layers; " + model.name + " has " + std::to_string(model.layers));
  written.written_pp = static_cast<std::uint32_t>(stages.size());
  written.written_stage_layers = layers;
  written.written_dp = replicas_of(written, machine, source);
  return written;
}

std::vector<std::uint32_t> placed_by_stage(const TrainingSpec& spec, const platforms::MachineSpec& machine) {
  std::vector<std::uint32_t> next{0};  // free GPU, by group
  for (const platforms::GroupSpec& group : machine.groups)
    next.push_back(next.back() + group.servers * machine.board.gpus);
  std::vector<std::uint32_t> placement;
  for (std::uint32_t r = 0; r < spec.ranks(); ++r)
    placement.push_back(next[spec.group_of(r / spec.stride(Dimension::pp) % spec.pp())]++);
  return placement;
}

void check_stages(const TrainingSpec& spec, const platforms::MachineSpec& machine, const Source& source) {
  if (spec.stage_groups.empty()) return;
  const auto refuse = [&](const std::string& text) { refuse_workload(source, "stages", text); };
  if (spec.virtual_stages() != 1 || spec.halves() != 1 || spec.table)
    refuse("need a schedule with one stage on each pipeline rank; accepted: naive, gpipe, 1f1b, zb_h1, zb_h2, zb_auto");
  const auto is_blackwell = [&](std::uint32_t group) {
    return machine.groups[group].gpu.architecture == gpu::Architecture::blackwell;
  };
  for (const std::uint32_t group : spec.stage_groups)
    if (is_blackwell(group) != is_blackwell(spec.stage_groups.front()) && spec.software.cudnn_on_blackwell &&
        !value_at(source.root, "workload.flash_attention"))
      refuse(spec.software.name + " has other attention kernels on " + machine.groups[group].gpu.name + " than on " +
             machine.groups[spec.stage_groups.front()].gpu.name + "; set workload.flash_attention");
}

}  // namespace railyard::scenario
