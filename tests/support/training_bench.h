// A training step whose slots take given times, without tensor and data parallelism: one GPU for each pipeline rank, and
// links with a rate and a latency only. Its rows give the times of slots and of transfers between ranks.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/job_bench.h"
#include "workload/training/run/training_step.h"
#include "workload/training/schedule/slots.h"
#include "workload/training/schedule/spec.h"
#include "workload/training/schedule/times.h"

namespace railyard::test {

/// Six layers of hidden size 1024 on one server; `sets` adapt the scenario to a test.
inline Scenario training_scenario(const std::vector<std::string>& sets = {}, const std::string& platform = "plx_box") {
  return Scratch().load("model: {config: " + kTinyModel +
                            "}\n"
                            "machine: {groups: {node: {servers: 1}}}\n"
                            "workload:\n"
                            "  kind: training\n"
                            "  seq_tokens: 512\n"
                            "  global_batch: 8\n"
                            "  launch: graph\n",
                        sets, platform);
}

/// One server whose links have only a rate and a latency, and whose memory is so fast that messages delay no kernel.
inline Scenario training_machine() {
  Scenario scenario = training_scenario();
  idealise(scenario.machine);
  platforms::GroupSpec& group = scenario.machine.groups.front();
  group.gpu_pcie.latency_ns = 1000;
  group.gpu.hbm.gb_per_s = group.gpu.l2.bytes_per_sm_clock = 1e6;
  return scenario;
}

struct TrainingBench : JobBench {
  using Slot = workload::training::Slot;
  using SlotKind = workload::training::SlotKind;
  using StageTimes = workload::training::StageTimes;
  using TrainingStep = workload::training::TrainingStep;

  /// Three steps of a forward slot. The host waits for the first one after it has launched the second one.
  struct AwaitedStep {
    double host_us;
    std::array<std::uint32_t, 3> launches;
    std::array<Time, 3> kernels;
  };

  /// @param times  of each virtual stage; their transfers are not used
  /// @param awaited  steps of all forward slots in place of one, launched eagerly
  TrainingBench(workload::training::Schedule its_schedule, const std::vector<StageTimes>& times, bool pp_overlap,
                workload::training::GradientNorm grad_norm = workload::training::GradientNorm::none,
                std::uint32_t steps = 1, const std::optional<AwaitedStep>& awaited = {})
      : JobBench(training_machine(), its_schedule.ranks(), TrainingStep::kStreams),
        schedule(std::move(its_schedule)),
        stage_times(times),
        kernels{gpu::KernelTimer(scenario.machine.groups.front().gpu)} {
    scenario.model.layers = schedule.stages();
    spec.seq_tokens = 8;
    spec.global_batch = schedule.micro_batches;
    spec.sizes = {1, 1, 1, 1, schedule.ranks(), 1};
    spec.stage_layers.assign(schedule.stages(), 1);
    spec.grad_norm = grad_norm;
    spec.steps = steps;
    spec.pp_overlap = pp_overlap;
    std::vector<std::array<workload::training::SlotPlan, 4>> slots;
    for (const StageTimes& stage : times) {
      auto& of_stage = slots.emplace_back();
      for (std::size_t kind = 0; kind < of_stage.size(); ++kind) {
        workload::training::SlotStep step;
        step.kernels = kernel_of(stage.of(static_cast<SlotKind>(kind)), kSms);
        step.layer = static_cast<std::uint32_t>(slots.size() - 1);
        of_stage[kind].steps.push_back(step);
      }
    }
    if (awaited) {
      spec.software.launch = workload::training::Launch::eager;
      spec.software.host_us = awaited->host_us;
      for (auto& of_stage : slots) {
        workload::training::SlotPlan& forward = of_stage[static_cast<std::size_t>(SlotKind::forward)];
        forward.steps.resize(awaited->kernels.size(), forward.steps.front());
        for (std::size_t i = 0; i < forward.steps.size(); ++i) {
          forward.steps[i].kernels = kernel_of(awaited->kernels[i], kSms);
          forward.steps[i].launches = awaited->launches[i];
        }
        forward.steps.front().host_waits = transformer::HostWait::after_next;
      }
    }
    plans = std::make_unique<workload::training::SlotPlans>(transformer::stages_of(spec.stage_layers), slots);
    memory = std::make_unique<workload::training::MemoryPlan>(scenario.model, spec, schedule);
    step = std::make_unique<TrainingStep>(spec, scenario.model, schedule, *plans, *memory, kernels, ranks, executor);
    later_on(Time(), [this] { step->start(); });
    run();
    BOOST_TEST_REQUIRE(step->done());
  }

  const JobRow& row(std::uint32_t rank, const Slot& slot) const {
    const char letter = slot.kind == SlotKind::backward_inputs ? 'B' : workload::training::letter_of(slot.kind);
    return records.named(fmt::format("{}_PP[{}]_TP[0]_{}", letter, rank, unit(slot.stage, slot.micro_batch)));
  }
  /// The transfer of what a slot of the virtual stage before or after computed. @pre they are on different ranks
  const JobRow& transfer(const Slot& from, const Slot& to) const {
    return records.named(fmt::format("PP_{}_FromP[{}]_ToP[{}]_TP[0]_{}", to.kind == SlotKind::forward ? "Act" : "Grad",
                                     schedule.rank_of[from.stage], schedule.rank_of[to.stage],
                                     unit(from.stage, from.micro_batch)));
  }
  /// The slot of another rank whose result this slot needs.
  std::optional<Slot> source(const Slot& slot) const {
    for (const Slot& need : workload::training::Needs(slot, schedule.stages()))
      if (schedule.rank_of[need.stage] != schedule.rank_of[slot.stage]) return need;
    return {};
  }
  /// Whether another rank needs the result of the slot.
  bool is_sent(const Slot& slot) const {
    if (slot.kind == SlotKind::backward_weights) return false;
    const bool forward = slot.kind == SlotKind::forward;
    if (slot.stage == (forward ? schedule.stages() - 1 : 0)) return false;
    return schedule.rank_of[forward ? slot.stage + 1 : slot.stage - 1] != schedule.rank_of[slot.stage];
  }
  /// The slot that takes the result. @pre is_sent()
  Slot destination(const Slot& slot) const {
    return {slot.kind, slot.kind == SlotKind::forward ? slot.stage + 1 : slot.stage - 1, slot.micro_batch};
  }
  /// The last end of a slot on any rank. The first slot begins at once.
  Time makespan() const {
    Time last;
    for (std::uint32_t r = 0; r < schedule.ranks(); ++r) last = later(last, row(r, schedule.slots[r].back()).end);
    return last;
  }

  workload::training::Schedule schedule;
  std::vector<StageTimes> stage_times;
  workload::training::TrainingSpec spec;
  std::vector<gpu::KernelTimer> kernels;
  std::unique_ptr<workload::training::SlotPlans> plans;
  std::unique_ptr<workload::training::MemoryPlan> memory;
  std::unique_ptr<TrainingStep> step;

 private:
  std::string unit(std::uint32_t stage, std::uint32_t micro_batch) const {
    const bool interleaved = schedule.stages() > schedule.ranks();
    return fmt::format("MB[{}]", micro_batch) + (interleaved ? fmt::format("_V[{}]", stage / schedule.ranks()) : "");
  }
};

}  // namespace railyard::test
