#include "sc_main/kinds/training_run.h"

#include <fmt/format.h>
#include <algorithm>

#include "base/input_error.h"
#include "base/output.h"
#include "gpu/kernels/flash_attention.h"
#include "gpu/kernels/step_clock.h"
#include "sc_main/output_file.h"
#include "transformer/parameters.h"
#include "workload/training/plan/planned_step.h"
#include "workload/training/schedule/gantt.h"
#include "workload/training/schedule/slots.h"
#include "workload/training/schedule/text.h"

namespace railyard {

using workload::Dimension;
using workload::training::MemoryPlan;
using workload::training::PeakMemory;
using workload::training::RankAccount;
using workload::training::Schedule;
using workload::training::ScheduleKind;
using workload::training::ScheduleSpec;
using workload::training::Slot;
using workload::training::SlotKind;
using workload::training::SlotPlans;
using workload::training::TrainingJobs;
using workload::training::TrainingStep;

namespace {

std::vector<GpuId> placed_on(const workload::training::TrainingSpec& spec) {
  std::vector<GpuId> gpus;
  for (const std::uint32_t gpu : spec.placement) gpus.push_back(GpuId(gpu));
  return gpus;
}

}  // namespace

TrainingRun::TrainingRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor)
    : WorkloadRun(scenario, machine, executor),
      gpus_(placed_on(spec())),
      ranks_(add_ranks(gpus_, TrainingStep::kStreams, spec().numbers)),
      kernels_(step_kernels(planned_traffic())),
      timers_(layer_timers(kernels_)) {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    const std::uint32_t group = spec().group_of(mesh().coordinate(r, Dimension::pp));
    ranks_[r]->gpu->sms().set_energy_clock(kernels_[group].gpu().boost_ratio());
  }
  plans_ = std::make_unique<SlotPlans>(scenario.model, spec(), timers_);
  stage_times_ = planned_times(*plans_, spec(), mesh(), fabric_, pipeline_bytes(scenario.model, spec()));
  if (spec().table) {
    schedule_ = *spec().table;
  } else {
    ScheduleSpec schedule = schedule_spec();
    schedule.times = stage_times_;
    schedule_ = make_schedule(schedule);
  }
  table_ = schedule_;
  if (spec().defer_embedding_wgrad) schedule_ = with_head_deferred(std::move(schedule_));
  check_labels();
  memory_ = std::make_unique<MemoryPlan>(scenario.model, spec(), schedule_);
  step_ = std::make_unique<TrainingStep>(spec(), scenario.model, schedule_, *plans_, *memory_, kernels_, ranks_,
                                         executor, hosts());
}

workload::training::HostSide TrainingRun::hosts() const {
  workload::training::HostSide hosts;
  if (!spec().offload.has_any()) return hosts;
  for (const GpuId gpu : gpus_) hosts.memories.push_back(machine_.host_of(gpu).window());
  hosts.bytes_per_s = scenario_.machine.host_memory.gb_per_s * 1e9;
  return hosts;
}

std::vector<gpu::KernelTimer> TrainingRun::step_kernels(const gpu::LayerTraffic& traffic) const {
  std::vector<gpu::KernelTimer> kernels;
  for (const platforms::GroupSpec& group : scenario_.machine.groups)
    kernels.emplace_back(
        gpu::with_flash_attention(gpu::at_step_clock(group.gpu, traffic), spec().software.flash_attention));
  return kernels;
}

std::vector<transformer::LayerTimer> TrainingRun::layer_timers(std::vector<gpu::KernelTimer>& kernels) const {
  std::vector<transformer::LayerTimer> timers;
  for (gpu::KernelTimer& of_group : kernels) {
    transformer::LayerTimer& timer = timers.emplace_back(scenario_.model, spec().tp(), of_group);
    timer.set_training(spec().form);
    if (spec().whole_experts) timer.deal_whole_experts();
  }
  return timers;
}

gpu::LayerTraffic TrainingRun::planned_traffic() const {
  for (const platforms::GroupSpec& group : scenario_.machine.groups)
    if (group.gpu.sm.flop_per_clock[static_cast<std::size_t>(scenario_.model.dtype)] == 0)
      throw InputError(scenario_.model_origin, "model: " + no_tensor_rate_text(group.gpu, scenario_.model.dtype));
  gpu::LayerTraffic traffic;
  constexpr int kPlans = 2;  // a third one changes steps by less than 0.1 %
  for (int i = 0; i < kPlans; ++i) {
    std::vector<gpu::KernelTimer> kernels = step_kernels(traffic);
    std::vector<transformer::LayerTimer> timers = layer_timers(kernels);
    traffic = workload::training::planned_traffic(SlotPlans(scenario_.model, spec(), timers), spec(), mesh(), fabric_);
  }
  return traffic;
}

workload::Mesh TrainingRun::mesh() const {
  return workload::Mesh(ranks_, spec().running_sizes(), spec().order, spec().copies);
}

ScheduleSpec TrainingRun::schedule_spec() const {
  ScheduleSpec schedule = spec().schedule;
  schedule.kept_for_weights = kept_for_weights(scenario_.model, spec());
  return schedule;
}

workload::training::StageTimes TrainingRun::mean_stage_times() const {
  using Times = workload::training::StageTimes;
  const auto mean = [&](Time Times::*part) {
    TimeSum sum;
    for (const Times& stage : stage_times_) sum.add(stage.*part);
    return Time::seconds(sum.seconds() / static_cast<double>(stage_times_.size()));
  };
  return {mean(&Times::forward), mean(&Times::backward_inputs), mean(&Times::backward_weights),
          mean(&Times::forward_transfer), mean(&Times::backward_transfer)};
}

void TrainingRun::check_labels() const {
  for (const std::vector<Slot>& slots : schedule_.slots)
    if (slots.size() > TrainingJobs::kMostSlots)
      throw InputError(scenario_.workload_origin,
                       fmt::format("workload: {} slots on a pipeline rank; accepted: at most {}; use a smaller "
                                   "global_batch or fewer virtual_stages",
                                   slots.size(), TrainingJobs::kMostSlots));
  for (std::uint32_t s = 0; s < plans_->stages(); ++s)
    for (const SlotKind kind : {SlotKind::forward, SlotKind::backward})
      if (plans_->plan(kind, s).steps.size() > TrainingJobs::kMostSlotSteps)
        throw InputError(scenario_.workload_origin,
                         fmt::format("workload: virtual stage {} has {} steps in a slot; accepted: at most {}; use a "
                                     "larger pp or more virtual_stages",
                                     s, plans_->plan(kind, s).steps.size(), TrainingJobs::kMostSlotSteps));
}

std::string TrainingRun::progress() const {
  return fmt::format("{} of {} slots done", step_->slots_done(), step_->slots());
}

std::vector<TrafficClass> TrainingRun::classes() const {
  std::vector<TrafficClass> classes{TrafficClass::tp, TrafficClass::pp, TrafficClass::dp};
  if (spec().expert_ranks() > 1) classes.push_back(TrafficClass::ep);
  if (spec().cp() > 1) classes.push_back(TrafficClass::cp);
  if (spec().zero_stage == 3 || spec().gtp() > 1) classes.push_back(TrafficClass::weights);
  if (spec().offload.has_any()) classes.push_back(TrafficClass::offload);
  return classes;
}

std::vector<RouteOfInterest> TrainingRun::routes() {
  std::vector<RouteOfInterest> routes;
  const workload::Mesh& mesh = step_->mesh();
  for (const auto& [dimension, traffic] : {std::pair{Dimension::tp, TrafficClass::tp},
                                           {Dimension::gtp, TrafficClass::weights},
                                           {Dimension::cp, TrafficClass::cp},
                                           {Dimension::ep, TrafficClass::ep},
                                           {Dimension::pp, TrafficClass::pp},
                                           {Dimension::dp, TrafficClass::dp}}) {
    if (mesh.size(dimension) == 1) continue;
    const std::uint32_t other = mesh.moved(0, dimension, 1);
    routes.push_back({fmt::format("rank 0 to rank {}", other), traffic, gpus_[0].value(), gpus_[other].value()});
  }
  if (spec().offload.has_any())
    routes.push_back({"rank 0 to its host memory", TrafficClass::offload, gpus_[0].value(), hosts().memories[0],
                      transport::Engine::copy_engine});
  if (!spec().copies.empty() && mesh.size(Dimension::dp) == 1)
    routes.push_back(
        {"rank 0 to its next replica", TrafficClass::dp, gpus_[0].value(), machine_.gpu(gpus_[0]).window_beyond()});
  return routes;
}

std::vector<RankSets> TrainingRun::rank_sets() {
  std::vector<RankSets> all;
  const workload::Mesh& mesh = step_->mesh();
  const auto add = [&](const char* group, const std::vector<Dimension>& dimensions) {
    std::vector<std::vector<std::uint32_t>> sets = mesh.groups(dimensions);
    if (sets.front().size() > 1) all.push_back({group, std::move(sets)});
  };
  for (const Dimension d : {Dimension::tp, Dimension::gtp, Dimension::cp, Dimension::ep, Dimension::pp, Dimension::dp})
    add(workload::kDimensionNames[static_cast<std::size_t>(d)],
        d == Dimension::ep ? spec().expert_dimensions() : std::vector<Dimension>{d});
  // Gradients of experts are reduced over dp and cp, all others over ep as well, those that gtp does not divide over gtp.
  if (spec().cp() > 1 || spec().ep() > 1) add("gradients", {Dimension::cp, Dimension::ep, Dimension::dp});
  if (spec().cp() > 1 && spec().ep() > 1) add("expert gradients", {Dimension::cp, Dimension::dp});
  if (spec().state_shards() < spec().replicas()) {
    const auto replicas = mesh.groups({Dimension::cp, Dimension::dp});
    all.push_back({"state shards", workload::adjacent(replicas, spec().state_shards())});
    all.push_back({"same shard", workload::across(replicas, spec().state_shards())});
  }
  if (spec().gtp() > 1) {
    const std::uint32_t experts_size = spec().gtp_shards.experts_size;
    add("whole gradients", {Dimension::gtp, Dimension::cp, Dimension::ep, Dimension::dp});
    if (experts_size > 1)
      all.push_back({"gtp experts", workload::adjacent(mesh.groups({Dimension::gtp}), experts_size)});
  }
  if (scenario_.model.tied_embeddings && spec().pp() > 1) {
    RankSets ends{"embeddings", {}};
    for (const std::vector<std::uint32_t>& line : mesh.groups({Dimension::pp}))
      ends.ranks.push_back({line[schedule_.rank_of.front()], line[schedule_.rank_of.back()]});
    all.push_back(std::move(ends));
  }
  return all;
}

std::string TrainingRun::title() const {
  const Spec& s = spec();
  const std::string divided = s.gtp() > 1 ? fmt::format(" x gtp {}", s.gtp()) : "";
  const std::string context = s.cp() > 1 ? fmt::format(" x cp {}", s.cp()) : "";
  const std::string experts = s.expert_ranks() > 1 ? fmt::format(" (ep {})", s.expert_ranks()) : "";
  return fmt::format("{} on {}: a step of {} sequences of {} tokens, tp {}{}{} x pp {} x dp {}{}, {} micro-batches, {}",
                     scenario_.model.name, machine_text(scenario_), s.global_batch, s.seq_tokens, s.tp(), divided,
                     context, s.pp() * s.halves(), s.dp() / s.halves(), experts, s.micro_batches() * s.halves(),
                     schedule_text());
}

std::string TrainingRun::schedule_text() const {
  return spec().table ? "a schedule from a file" : name_of(spec().schedule.kind);
}

void TrainingRun::add_setup(Value& setup) const {
  const Spec& s = spec();
  setup["seq_tokens"] = s.seq_tokens;
  setup["global_batch"] = s.global_batch;
  setup["micro_batch"] = s.micro_batch;
  setup["micro_batches"] = s.micro_batches() * s.halves();
  setup["tp"] = s.tp();
  setup["pp"] = s.pp() * s.halves();
  setup["dp"] = s.dp() / s.halves();
  setup["cp"] = s.cp();
  setup["ep"] = s.expert_ranks();
  if (s.whole_experts) setup["expert_tp"] = 1;
  if (s.gtp() > 1) setup["gtp"] = s.gtp();
  setup["virtual_stages"] = s.virtual_stages();
  setup["schedule"] = s.table ? "file" : name_of(s.schedule.kind);
  setup["sequence_parallel"] = s.sequence_parallel;
  setup["zero_stage"] = s.zero_stage;
  if (s.state_shards() < s.replicas()) setup["hsdp"] = s.hsdp;
  if (s.form.narrow) {
    setup["gemm"] = name_of(s.form.narrow->dtype);
    setup["recipe"] = transformer::name_of(s.form.narrow->recipe);
  }
  if (s.form.adapters) setup["lora_rank"] = s.form.adapters->rank;
  setup["recompute"] = name_of(s.form.recompute);
  setup["steps"] = s.steps;
}

std::string TrainingRun::table() const {
  const double step = step_s();
  std::string text = title() + "\n\n";
  const double tokens = static_cast<double>(spec().global_batch) * static_cast<double>(spec().seq_tokens);
  if (!done())
    text += fmt::format("  not finished: {}. Figures are of the part that ran\n\n", progress());
  else
    text += fmt::format(
        "  step {}; {:.0f} tokens/s, {:.0f} on each GPU; {:.1f} model TFLOP/s on each GPU, {:.1f} % of peak\n\n",
        duration_text(step), tokens / step, tokens / step / static_cast<double>(spec().ranks()),
        model_flops() / step / static_cast<double>(spec().ranks()) * 1e-12, 100 * model_flops() / step / peak_flops());
  const auto line = [&](const std::string& what, double seconds) {
    text += fmt::format("  {:<42} {:>12} {:>6.1f} %\n", what, duration_text(seconds), 100 * seconds / step);
  };
  text += fmt::format("  {:<42} {:>12} {:>8}\n", "mean of all ranks", "time", "of step");
  line("kernels", mean(&RankAccount::kernels_s));
  for (const TrafficClass c : classes())
    line(fmt::format("exposed transfers, {}", name(c)), mean(&RankAccount::exposed_s, c));
  line("bubble", mean(&RankAccount::bubble_s));
  line("host", mean(&RankAccount::host_s));
  line("optimizer", mean(&RankAccount::optimizer_s));
  const PeakMemory& peak = tightest(*memory_);
  text += fmt::format("\n  memory, pipeline rank {}: {}, of {:.2f} GB\n", peak.pipeline_rank, sum_text(peak),
                      gpu_of(peak.pipeline_rank).hbm.visible_bytes() * 1e-9);
  if (spec().pp() == 1 || !done()) return text;
  return text + "\n  slots of the last step, on the first rank of each pipeline rank\n" +
         gantt_of(schedule_, step_->slot_times());
}

void TrainingRun::open_tables(const OutputDirectory& directory) {
  memory_csv_.emplace(directory.file("memory.csv"), *memory_, *step_);
}

void TrainingRun::write_tables(const OutputDirectory& directory) {
  const workload::Mesh& mesh = step_->mesh();
  OutputFile ranks(directory.file("ranks.csv"));
  ranks.print("rank,gpu,pp,tp,dp,step_s,kernels_s,bubble_s,host_s,optimizer_s");
  for (const TrafficClass c : classes()) ranks.print(",exposed_{}_s", name(c));
  for (const Dimension d : {Dimension::cp, Dimension::ep, Dimension::gtp})
    if (mesh.size(d) > 1) ranks.print(",{}", workload::kDimensionNames[static_cast<std::size_t>(d)]);
  ranks.print("\n");
  for (std::uint32_t r = 0; r < gpus_.size(); ++r) {
    const RankAccount& a = step_->account(r);
    std::uint32_t pp = mesh.coordinate(r, Dimension::pp), dp = mesh.coordinate(r, Dimension::dp);
    if (const std::uint32_t replicas = mesh.size(Dimension::dp) / spec().halves(); dp >= replicas) {
      dp -= replicas;  // the second half of a pipeline
      pp = 2 * spec().pp() - 1 - pp;
    }
    ranks.print("{},{},{},{},{},{:.15f},{:.15f},{:.15f},{:.15f},{:.15f}", r, machine_.gpu(gpus_[r]).name(), pp,
                mesh.coordinate(r, Dimension::tp), dp, step_s(), a.kernels_s() / steps(), a.bubble_s() / steps(),
                a.host_s() / steps(), a.optimizer_s() / steps());
    for (const TrafficClass c : classes()) ranks.print(",{:.15f}", a.exposed_s(c) / steps());
    for (const Dimension d : {Dimension::cp, Dimension::ep, Dimension::gtp})
      if (mesh.size(d) > 1) ranks.print(",{}", mesh.coordinate(r, d));
    ranks.print("\n");
  }
  memory_csv_.reset();
  write_memory_peak(directory.file("memory_peak.csv"), *memory_, *step_);
  if (divides_weights()) write_gtp_table(directory.file("gtp.csv"), *step_, scenario_.model.layers, steps());
  OutputFile slots(directory.file("schedule.csv"));
  slots.print("rank,position,kind,virtual_stage,micro_batch\n");
  for (std::uint32_t p = 0; p < schedule_.ranks(); ++p)
    for (std::size_t i = 0; i < schedule_.slots[p].size(); ++i) {
      const Slot& slot = schedule_.slots[p][i];
      slots.print("{},{},{},{},{}\n", p, i, name_of(slot.kind), slot.stage, slot.micro_batch);
    }
  // In the form that workload.schedule reads.
  write_file(directory.file("schedule.txt"), table_of(table_, schedule_text()));
}

RunKind training_run() { return run_kind<TrainingRun>(); }

}  // namespace railyard
