// TrainingRun: its metrics, and the sums behind them.
#include "sc_main/kinds/training_run.h"

#include <algorithm>

#include "transformer/training_flops.h"
#include "workload/training/schedule/ideal.h"

namespace railyard {

using workload::Dimension;
using workload::training::RankAccount;
using workload::training::ScheduleSpec;
using workload::training::SlotKind;

double TrainingRun::model_flops() const {
  return transformer::training_flops(scenario_.model, spec().global_batch, spec().seq_tokens,
                                     transformer::CountedKeys::causal, transformer::Recompute::none,
                                     spec().form.adapters ? &*spec().form.adapters : nullptr);
}

double TrainingRun::hardware_flops() const {
  double flops = 0;
  for (std::uint32_t s = 0; s < plans_->stages(); ++s)
    for (const SlotKind kind : {SlotKind::forward, SlotKind::backward})
      for (std::uint32_t place = 0; place < plans_->places(); ++place)
        flops += plans_->plan(kind, s, place).flops * spec().tp() / plans_->places();
  return flops * spec().micro_batches() * spec().replicas() * spec().gtp();
}

double TrainingRun::peak_flops() const {
  const auto& narrow = spec().form.narrow;
  const DataType products = narrow ? narrow->dtype : scenario_.model.dtype;
  std::vector<double> ranks(scenario_.machine.groups.size());  // whole numbers
  for (std::uint32_t p = 0; p < spec().pp(); ++p) ranks[spec().group_of(p)] += spec().ranks() / spec().pp();
  double sum = 0;
  for (std::size_t g = 0; g < ranks.size(); ++g) {
    const gpu::GpuDatasheet& gpu = scenario_.machine.groups[g].gpu;
    sum += gpu.sm.flop_per_clock[static_cast<std::size_t>(products)] * gpu.sm.count * gpu.clock_hz() * ranks[g];
  }
  return sum;
}

double TrainingRun::mean_of(const std::function<double(const RankAccount&)>& part) const {
  double sum = 0, ranks = 0;
  for (std::uint32_t r = 0; r < gpus_.size(); ++r) {
    const double alike = step_->mesh().stands_for(r);
    sum += alike * part(step_->account(r));
    ranks += alike;
  }
  return sum / ranks / steps();
}

double TrainingRun::mean(double (RankAccount::*part)() const) const {
  return mean_of([&](const RankAccount& account) { return (account.*part)(); });
}

double TrainingRun::mean(double (RankAccount::*part)(TrafficClass) const, TrafficClass c) const {
  return mean_of([&](const RankAccount& account) { return (account.*part)(c); });
}

WorkDone TrainingRun::work_done() const {
  if (!done()) return {};
  WorkDone work;
  work.steps = steps();
  work.tokens = steps() * static_cast<double>(spec().global_batch) * static_cast<double>(spec().seq_tokens);
  return work;
}

const workload::training::HeldMemory& TrainingRun::largest_held() const {
  std::uint32_t rank = 0;
  while (step_->mesh().coordinate(rank, Dimension::pp) != memory_->largest().pipeline_rank) ++rank;
  return step_->memory().peak(rank);
}

const Metrics<TrainingRun>& TrainingRun::declared_metrics() {
  using Run = TrainingRun;
  static const Metrics<Run> metrics{
      {"step_s", "s",
       "time of a step; with several steps their mean. This and what follows from it: nothing if the run was "
       "interrupted",
       [](const Run& r) { return r.of_a_step(r.step_s()); }},
      {"tokens_per_s", "1/s", "tokens of all sequences / `step_s`",
       [](const Run& r) {
         return r.of_a_step(static_cast<double>(r.spec().global_batch) * static_cast<double>(r.spec().seq_tokens) /
                            r.step_s());
       }},
      {"tokens_per_s_per_gpu", "1/s", "the same / ranks",
       [](const Run& r) {
         return r.of_a_step(static_cast<double>(r.spec().global_batch) * static_cast<double>(r.spec().seq_tokens) /
                            r.step_s() / static_cast<double>(r.spec().ranks()));
       }},
      {"model_tflops_per_gpu", "TFLOP/s",
       "FLOPs of the model (6 for each multiplied parameter and token, and causal attention) / (`step_s` x ranks)",
       [](const Run& r) {
         return r.of_a_step(r.model_flops() / r.step_s() / static_cast<double>(r.spec().ranks()) * 1e-12);
       }},
      {"mfu", "", "FLOPs of the model / what the tensor cores could do in `step_s` in the type of the products",
       [](const Run& r) { return r.of_a_step(r.model_flops() / r.step_s() / r.peak_flops()); }},
      {"hfu", "", "the same with the FLOPs that the GPUs run, also those of recomputation",
       [](const Run& r) { return r.of_a_step(r.hardware_flops() / r.step_s() / r.peak_flops()); }},
      {"sm_clock_mhz", "MHz", "clock of the first rank's SMs, by the power that waits for collectives leave to kernels",
       [](const Run& r) -> Value { return r.kernels_[r.spec().group_of(0)].gpu().sm.clock_mhz; }},
      {"kernels_s", "s", "kernels of a step except the optimizer's, mean of all ranks",
       [](const Run& r) -> Value { return r.mean(&RankAccount::kernels_s); }},
      {"optimizer_s", "s", "kernels of gradient norm and optimizer, mean of all ranks",
       [](const Run& r) -> Value { return r.mean(&RankAccount::optimizer_s); }},
      {"host_s", "s", "the compute stream waits for the host, mean of all ranks",
       [](const Run& r) -> Value { return r.mean(&RankAccount::host_s); }},
      {"sm_wait_s", "s", "collectives wait for SMs that kernels or other collectives hold, mean of all ranks",
       [](const Run& r) -> Value {
         double sum = 0;
         for (const GpuId gpu : r.gpus_) sum += r.machine_.gpu(gpu).sms().claim_wait_seconds();
         return sum / static_cast<double>(r.gpus_.size()) / r.steps();
       }},
      {"bubble_s", "s", "the compute stream waits for other stages, mean of all ranks",
       [](const Run& r) -> Value { return r.mean(&RankAccount::bubble_s); }},
      {"bubble_fraction", "", "`bubble_s` / `step_s`",
       [](const Run& r) { return r.of_a_step(r.mean(&RankAccount::bubble_s) / r.step_s()); }},
      {"bubble_planned_fraction", "",
       "of the longest time of a rank from its first to its last slot, by the schedule: equal stages, with the planned "
       "times of slots and transfers",
       [](const Run& r) -> Value {
         if (r.spec().table) return {};
         return planned_bubble_fraction(r.schedule_spec(), r.mean_stage_times());
       }},
      {"bubble_ideal_fraction", "", "the same by the schedule's formula, without transfers",
       [](const Run& r) -> Value {
         if (r.spec().table) return {};
         return ideal_bubble_fraction(r.schedule_spec(), r.mean_stage_times());
       }},
      {"memory.peak_bytes", "B", "memory of the rank that needs most, at its peak",
       [](const Run& r) -> Value { return r.memory_->largest().total(); }},
      {"memory.peak_at_s", "s", "when it holds so much for the first time; without activations: 0",
       [](const Run& r) -> Value { return r.largest_held().at.seconds(); }},
      {"memory.weights_peak_bytes", "B", "of it: weights, with narrow copies of them",
       [](const Run& r) -> Value { return r.memory_->largest().state.weights + r.memory_->largest().narrow_weights; }},
      {"memory.gradients_peak_bytes", "B", "of it: gradients",
       [](const Run& r) -> Value { return r.memory_->largest().state.gradients; }},
      {"memory.optimizer_peak_bytes", "B", "of it: state of the optimizer",
       [](const Run& r) -> Value { return r.memory_->largest().optimizer(); }},
      {"memory.activations_peak_bytes", "B", "of it: activations kept for backward slots",
       [](const Run& r) -> Value { return r.memory_->largest().activations; }},
      {"memory.gathered_peak_bytes", "B", "of it: gathered weights",
       [](const Run& r) -> Value { return r.memory_->largest().gathered; }},
      {"memory.buffers_peak_bytes", "B", "of it: recomputed activations, and what the software keeps for itself",
       [](const Run& r) -> Value { return r.memory_->largest().buffers + r.memory_->largest().reserved; }},
      {"memory.host_peak_bytes", "B",
       "with offload: what ranks keep in the memory of the fullest CPU socket, at its peak",
       [](const Run& r) -> Value {
         if (!r.spec().offload.has_any()) return {};
         return r.host_use(*r.memory_).total();
       }},
      {"offload.activation_bytes", "B", "of a step: activations that go to host memory and come back, sum of all ranks",
       [](const Run& r) -> Value {
         if (r.step_->activation_offload() == nullptr) return {};
         return static_cast<double>(r.step_->activation_offload()->loaded()) / r.steps();
       }},
      {"gtp.bytes_per_element", "B",
       "with gtp: sent by a rank for each element of its layers' matrices and micro-batch, over (size - 1) / size, "
       "without padding",
       [](const Run& r) -> Value {
         if (!r.divides_weights()) return {};
         return r.step_->divided_weights()->bytes_per_element();
       }},
      {"gtp.gather_hidden_ratio", "", "share of the gathers of matrices that runs beside other jobs",
       [](const Run& r) -> Value {
         if (!r.divides_weights()) return {};
         return 1 - r.gtp().gather_exposed_s / r.gtp().gathers_s;
       }},
      {"gtp.scatter_hidden_ratio", "", "the same of the scatters of gradients",
       [](const Run& r) -> Value {
         if (!r.divides_weights()) return {};
         return 1 - r.gtp().scatter_exposed_s / r.gtp().scatters_s;
       }},
      {"gtp.gather_exposed_s", "s", "the compute stream waits for gathers of matrices, mean of all ranks",
       [](const Run& r) -> Value {
         if (!r.divides_weights()) return {};
         return r.gtp().gather_exposed_s;
       }},
      {"gtp.scatter_exposed_s", "s", "the same for scatters of gradients",
       [](const Run& r) -> Value {
         if (!r.divides_weights()) return {};
         return r.gtp().scatter_exposed_s;
       }},
      {"gtp.cache_peak_bytes", "B", "buffers of gathered matrices, as gathers took them, and of whole gradients",
       [](const Run& r) -> Value {
         if (!r.divides_weights()) return {};
         Bytes most = 0;
         for (std::uint32_t rank = 0; rank < r.step_->mesh().size(); ++rank)
           most = std::max(most, r.step_->divided_weights()->cache_bytes(rank) +
                                     r.memory_->peak(r.step_->mesh().coordinate(rank, Dimension::pp)).whole_gradients);
         return most;
       }},
      {"stage_s.[stage]", "s", "kernels and exposed tensor-parallel transfers, mean of the pipeline rank's ranks",
       [](const Run& r) {
         Value all = Value::empty_group();
         const workload::Mesh& mesh = r.step_->mesh();
         std::vector<double> sums(mesh.size(Dimension::pp));
         double ranks = 0;
         for (std::uint32_t rank = 0; rank < mesh.size(); ++rank) {
           const RankAccount& a = r.step_->account(rank);
           const double alike = mesh.stands_for(rank);
           sums[mesh.coordinate(rank, Dimension::pp)] += alike * (a.kernels_s() + a.exposed_s(TrafficClass::tp));
           ranks += alike;
         }
         for (std::size_t p = 0; p < sums.size(); ++p)
           all[std::to_string(p)] = sums[p] * static_cast<double>(sums.size()) / ranks / r.steps();
         return all;
       }},
      {"exposed_s.[class]", "s",
       "the compute stream runs or waits for transfers of a class of traffic, mean of all ranks",
       [](const Run& r) {
         Value all = Value::empty_group();
         for (const TrafficClass c : r.classes()) all[name(c)] = r.mean(&RankAccount::exposed_s, c);
         return all;
       }},
      {"hidden_ratio.[class]", "", "share of the transfers of a class during which kernels or bubbles go on",
       [](const Run& r) {
         Value all = Value::empty_group();
         for (const TrafficClass c : r.classes()) {
           const double transfers = r.mean(&RankAccount::transfers_s, c);
           if (transfers > 0) all[name(c)] = 1 - r.mean(&RankAccount::exposed_s, c) / transfers;
         }
         return all;
       }},
  };
  return metrics;
}

}  // namespace railyard
