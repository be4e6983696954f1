// TrainingRun: whether ranks fit into the memory of their GPUs and sockets, and which changes make them fit.
#include <fmt/format.h>
#include <algorithm>
#include <map>

#include "base/input_error.h"
#include "sc_main/kinds/training_run.h"

namespace railyard {

using transformer::Recompute;
using workload::Dimension;
using workload::training::MemoryPlan;
using workload::training::MomentFormat;
using workload::training::PeakMemory;
using workload::training::ScheduleKind;
using workload::training::Slot;
using workload::training::SlotKind;

double TrainingRun::left_bytes(const MemoryPlan& plan, std::uint32_t pipeline_rank) const {
  return gpu_of(pipeline_rank).hbm.visible_bytes() - static_cast<double>(plan.peak(pipeline_rank).total());
}

const PeakMemory& TrainingRun::tightest(const MemoryPlan& plan) const {
  if (spec().stage_groups.empty()) return plan.largest();
  std::uint32_t tightest = 0;
  for (std::uint32_t p = 1; p < spec().pp(); ++p)
    if (left_bytes(plan, p) < left_bytes(plan, tightest)) tightest = p;
  return plan.peak(tightest);
}

void TrainingRun::check_fits() const {
  const PeakMemory& peak = tightest(*memory_);
  const gpu::GpuDatasheet& gpu = gpu_of(peak.pipeline_rank);
  if (left_bytes(*memory_, peak.pipeline_rank) < 0)
    throw InputError(
        scenario_.workload_origin,
        fmt::format("workload: a rank of pipeline rank {} needs {}, but {} has {:.2f} GB; {}", peak.pipeline_rank,
                    sum_text(peak), gpu.name, gpu.hbm.visible_bytes() * 1e-9, what_fits()));
  check_host_fits();
}

TrainingRun::HostUse TrainingRun::host_use(const MemoryPlan& plan) const {
  std::map<const pcie::HostMemory*, HostUse> sockets;
  HostUse most;
  for (std::uint32_t r = 0; r < gpus_.size(); ++r) {
    const PeakMemory& peak = plan.peak(step_->mesh().coordinate(r, Dimension::pp));
    HostUse& use = sockets[&machine_.host_of(gpus_[r])];
    use.activations += peak.host_activations;
    use.state += peak.host_state;
    ++use.ranks;
    if (use.total() > most.total()) most = use;
  }
  return most;
}

void TrainingRun::check_host_fits() const {
  if (!spec().offload.has_any()) return;
  const double limit = scenario_.machine.host_memory.bytes;
  if (limit == 0)
    throw InputError(scenario_.workload_origin,
                     fmt::format("workload.offload: the board of {} does not say how much memory a CPU socket has; set "
                                 "machine.overrides.host_memory.bytes",
                                 scenario_.platform));
  const HostUse use = host_use(*memory_);
  if (static_cast<double>(use.total()) <= limit) return;
  const auto gb = [](Bytes bytes) { return static_cast<double>(bytes) * 1e-9; };
  throw InputError(
      scenario_.workload_origin,
      fmt::format("workload.offload: {} ranks keep activations {:.2f} GB + optimizer {:.2f} GB = {:.2f} GB in "
                  "the memory of a CPU socket, which has {:.2f} GB",
                  use.ranks, gb(use.activations), gb(use.state), gb(use.total()), limit * 1e-9));
}

std::string TrainingRun::what_fits() const {
  // One change at a time, from the cheapest in time to the dearest.
  std::vector<std::pair<std::string, Spec>> changes;
  const auto change = [&](const std::string& text, auto edit) {
    Spec changed = spec();
    edit(changed);
    changes.emplace_back(text, std::move(changed));
  };
  if (spec().micro_batch > 1)
    change(fmt::format("micro_batch: {}", spec().micro_batch / 2), [](Spec& s) {
      s.micro_batch /= 2;
      s.schedule.micro_batches *= 2;
    });
  if (spec().zero_stage == 0 && spec().software.has_zero_stage(1))
    change("zero_stage: 1", [](Spec& s) { s.zero_stage = 1; });
  if (spec().moments == MomentFormat::fp32 && !spec().offload.optimizer)
    change("precision.moments: bf16", [](Spec& s) { s.moments = MomentFormat::bf16; });
  if (spec().form.recompute == Recompute::none)
    change("recompute: selective", [](Spec& s) { s.form.recompute = Recompute::selective; });
  if (spec().form.recompute != Recompute::full)
    change("recompute: full", [](Spec& s) { s.form.recompute = Recompute::full; });
  const bool divides = std::any_of(schedule_.slots.begin(), schedule_.slots.end(), [](const auto& slots) {
    return std::any_of(slots.begin(), slots.end(),
                       [](const Slot& slot) { return slot.kind == SlotKind::backward_inputs; });
  });
  if (spec().offload.activations == 0 && offload_needs(spec(), divides).empty())
    change("offload.activations: 1", [](Spec& s) { s.offload.activations = 1; });
  if (!spec().offload.optimizer && spec().gtp() == 1 && !spec().narrow_primary)
    change("offload.optimizer: true", [](Spec& s) { s.offload.optimizer = true; });
  const std::uint32_t dp = spec().sizes[static_cast<std::size_t>(Dimension::dp)];
  const auto trade = [&](Dimension d, const char* key) {
    const std::uint32_t size = spec().sizes[static_cast<std::size_t>(d)];
    if (dp % 2 != 0) return;
    change(fmt::format("{}: {} and dp: {}", key, 2 * size, spec().dp() / 2), [d](Spec& s) {
      s.sizes[static_cast<std::size_t>(d)] *= 2;
      s.sizes[static_cast<std::size_t>(Dimension::dp)] /= 2;
      s.schedule.micro_batches *= 2;
      s.schedule.ranks = s.pp();
    });
  };
  if (scenario_.model.heads % (2 * spec().tp()) == 0 && 2 * spec().tp() <= scenario_.machine.board.gpus)
    trade(Dimension::tp, "tp");
  if (spec().stage_groups.empty() && 2 * spec().stage_layers.size() <= scenario_.model.layers)
    trade(Dimension::pp, "pp");
  std::vector<std::string> fitting;
  for (auto& [text, changed] : changes) {
    if (changed.pp() != spec().pp())
      changed.stage_layers =
          transformer::even_stage_layers(scenario_.model.layers, changed.pp() * spec().virtual_stages());
    if (changed.schedule.kind == ScheduleKind::zb_auto || changed.table || illegal_value(changed.schedule)) continue;
    workload::training::Schedule schedule = make_schedule(changed.schedule);
    if (changed.defer_embedding_wgrad) schedule = with_head_deferred(std::move(schedule));
    const MemoryPlan plan(scenario_.model, changed, schedule);
    const PeakMemory& peak = tightest(plan);
    if (left_bytes(plan, peak.pipeline_rank) < 0) continue;
    if (changed.offload.has_any() && static_cast<double>(host_use(plan).total()) > scenario_.machine.host_memory.bytes)
      continue;
    fitting.push_back(fmt::format("{} ({:.2f} GB)", text, static_cast<double>(peak.total()) * 1e-9));
  }
  if (fitting.empty()) return "use more GPUs, or a larger tp or pp";
  std::string text = fitting.front();
  for (std::size_t i = 1; i < fitting.size(); ++i) text += (i + 1 < fitting.size() ? ", " : " or ") + fitting[i];
  return text + " would fit";
}

}  // namespace railyard
