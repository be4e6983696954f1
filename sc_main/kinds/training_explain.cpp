// --explain of workload.kind: training: parameters, FLOPs and kernels of the stages, memory, what a rank sends to its
// groups, and the schedule.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "sc_main/kinds/training_run.h"
#include "transformer/parameters.h"
#include "workload/bench/collective_bench.h"
#include "workload/training/schedule/gantt.h"
#include "workload/training/schedule/slots.h"

namespace railyard {

using transformer::RankGroup;
using workload::training::GradientBucket;
using workload::training::PeakMemory;
using workload::training::Slot;
using workload::training::SlotKind;
using workload::training::SlotPlan;
using workload::training::SlotStep;

namespace {

constexpr std::array kSlotKinds{SlotKind::forward, SlotKind::backward, SlotKind::backward_inputs,
                                SlotKind::backward_weights};

/// Bytes that each of n ranks sends in a collective, if each byte is sent once to each rank that needs it.
double sent(collective::Operation operation, Bytes bytes, std::uint32_t n) {
  if (operation == collective::Operation::send_recv) return static_cast<double>(bytes);
  return static_cast<double>(bytes) * workload::collective_bench::busbw_factor(operation, n);
}

/// Matrix products of a rank that are not one with a collective.
double products_s(const SlotPlan& plan) {
  double seconds = 0;
  for (const SlotStep& step : plan.steps)
    if (step.kernels != nullptr)
      for (const gpu::KernelTime& kernel : step.kernels->kernels)
        if (kernel.tile_m > 0) seconds += kernel.seconds;
  return seconds;
}

}  // namespace

Value TrainingRun::memory_terms() const {
  Value all = Value::empty_list();
  for (std::uint32_t p = 0; p < spec().pp(); ++p) {
    const double limit = gpu_of(p).hbm.visible_bytes();
    const PeakMemory& peak = memory_->peak(p);
    Value terms{{"pipeline_rank", p},
                {"weights_bytes", peak.state.weights + peak.narrow_weights},
                {"gradients_bytes", peak.state.gradients},
                {"optimizer_bytes", peak.optimizer()},
                {"gathered_bytes", peak.gathered},
                {"activations_bytes", peak.activations},
                {"recomputed_bytes", peak.buffers},
                {"software_bytes", peak.reserved},
                {"total_bytes", peak.total()},
                {"capacity_bytes", limit},
                {"fits", static_cast<double>(peak.total()) <= limit},
                {"micro_batches", peak.micro_batches}};
    if (spec().offload.has_any()) {
      terms["host_activations_bytes"] = peak.host_activations;
      terms["host_state_bytes"] = peak.host_state;
    }
    all.push_back(std::move(terms));
  }
  return all;
}

Value TrainingRun::sent_by_group() const {
  Value all = Value::empty_list();
  const auto add = [&](const char* group, std::uint32_t ranks, const std::string& formula,
                       const std::vector<double>& bytes) {
    all.push_back({{"group", group},
                   {"ranks", ranks},
                   {"bytes_per_rank", *std::max_element(bytes.begin(), bytes.end())},
                   {"formula", formula}});
  };
  // By pipeline rank.
  const auto of_layers = [&](RankGroup group, std::uint32_t ranks) {
    std::vector<double> bytes(spec().pp());
    for (std::uint32_t p = 0; p < spec().pp(); ++p)
      for (const Slot& slot : schedule_.slots[p])
        for (const SlotStep& step : plans_->plan(slot.kind, slot.stage).steps)
          if (step.kernels == nullptr && step.group == group) bytes[p] += sent(step.operation, step.bytes, ranks);
    return bytes;
  };
  constexpr const char* kOfCollectives =
      "micro-batches x layers x (2 (n-1)/n of what is all-reduced + (n-1)/n of what is gathered, scattered or "
      "exchanged)";
  if (spec().tp() > 1) add("tp", spec().tp(), kOfCollectives, of_layers(RankGroup::tp, spec().tp()));
  if (spec().cp() > 1) add("cp", spec().cp(), kOfCollectives, of_layers(RankGroup::cp, spec().cp()));
  if (const std::uint32_t ranks = spec().expert_ranks(); ranks > 1)
    add("ep", ranks, kOfCollectives, of_layers(RankGroup::ep, ranks));
  if (spec().pp() > 1) {
    std::vector<double> bytes(spec().pp());
    for (std::uint32_t p = 0; p < spec().pp(); ++p)
      for (const Slot& slot : schedule_.slots[p])
        if (destination_of(slot, schedule_) != workload::training::kNoStage)
          bytes[p] += static_cast<double>(pipeline_bytes(scenario_.model, spec()));
    add("pp", spec().pp(), "micro-batches x (activations to the next stage + their gradients to the stage before)",
        bytes);
  }
  const std::uint32_t n_gtp = spec().gtp();
  if (n_gtp > 1) {
    for (const bool experts : {false, true}) {
      const std::uint32_t n = experts ? spec().gtp_shards.experts_size : n_gtp;
      if (n == 1) continue;
      std::vector<double> bytes(spec().pp());
      for (std::uint32_t p = 0; p < spec().pp(); ++p) bytes[p] = step_->divided_weight_bytes(p, experts) * (n - 1) / n;
      add(experts ? "gtp experts" : "gtp", n,
          "micro-batches x (n-1)/n x (matrices gathered in each pass + their gradients scattered), rows padded", bytes);
    }
  }
  if (spec().form.divide_inputs) {
    const std::uint32_t n = spec().tp();
    std::vector<double> bytes(spec().pp());
    for (std::uint32_t p = 0; p < spec().pp(); ++p) bytes[p] = step_->divided_input_bytes(p) * (n - 1) / n;
    add("gtp inputs", n, "micro-batches x (n-1)/n x saved inputs gathered before gradients of matrices", bytes);
  }
  if (spec().replicas() * n_gtp == 1) return all;
  const double gradient = bytes_of(spec().gradients), weight = bytes_of(scenario_.model.dtype);
  const double gathers = spec().reshard_after_forward ? 2 : 1;
  const double groups = static_cast<double>(spec().replicas()) / spec().state_shards();  // that divide state (hsdp)
  std::vector<double> bytes(spec().pp());
  for (std::uint32_t p = 0; p < spec().pp(); ++p)
    for (const GradientBucket& bucket : step_->buckets(p)) {
      const double n = bucket.experts ? spec().expert_replicas() : spec().state_shards() * (bucket.whole ? n_gtp : 1);
      double each = 2 * gradient;
      const double gathered = static_cast<double>(step_->weight_bytes(bucket)) / static_cast<double>(bucket.parameters);
      if (spec().zero_stage == 1) each = gradient + gathered;
      if (spec().zero_stage == 2) each = gradient * spec().micro_batches() + gathered;
      if (spec().zero_stage == 3) each = (gradient + gathers * weight) * spec().micro_batches();
      bytes[p] += each * static_cast<double>(bucket.parameters) * (n - 1) / n;
      const double times = spec().zero_stage >= 2 ? spec().micro_batches() : 1;
      bytes[p] += 2 * times * gradient * static_cast<double>(bucket.parameters) / n * (groups - 1) / groups;
    }
  constexpr std::array<const char*, 4> kOfReplicas{
      "2 (n-1)/n x gradients, all-reduced", "(n-1)/n x (gradients scattered + weights gathered)",
      "(n-1)/n x (micro-batches x gradients scattered + weights gathered)",
      "(n-1)/n x micro-batches x (gradients scattered + weights gathered in each pass)"};
  const std::string formula = kOfReplicas[spec().zero_stage];
  if (groups > 1)
    add("dp", spec().replicas(),
        formula +
            fmt::format(", n = {}, + 2 ({}-1)/{} x gradients / n, all-reduced", spec().state_shards(), groups, groups),
        bytes);
  else if (n_gtp == 1)
    add("dp", spec().replicas(), formula, bytes);
  else if (spec().replicas() == 1)
    add("dp", n_gtp, formula + ", of norms and biases", bytes);
  else
    add("dp", spec().replicas(),
        formula + fmt::format("; n = {} for norms and biases", n_gtp * spec().replicas()) +
            (scenario_.model.experts > 0 ? fmt::format(", {} for experts", spec().expert_replicas()) : ""),
        bytes);
  return all;
}

/// Of the busiest expert-parallel rank of each layer, over the even share.
Value TrainingRun::hottest_shares() const {
  double sum = 0, largest = 0, layers = 0;
  for (std::uint32_t l = 0; l < scenario_.model.layers; ++l) {
    double hottest = 0;
    for (std::uint32_t place = 0; place < plans_->places(); ++place)
      if (const auto load = spec().load(scenario_.model, l, place))
        hottest = std::max(
            hottest, static_cast<double>(load->of(transformer::RankLoad::kWhole)) / transformer::RankLoad::kWhole);
    if (hottest == 0) continue;  // without experts
    sum += hottest;
    layers += 1;
    largest = std::max(largest, hottest);
  }
  return {{"mean", sum / layers}, {"largest", largest}};
}

Value TrainingRun::explain() {
  Value e;
  e["title"] = title();
  e["micro_batches"] = spec().micro_batches();
  e["model_flops"] = model_flops();
  e["stages"] = Value::empty_list();
  for (std::uint32_t s = 0; s < plans_->stages(); ++s) {
    Value stage = {{"rank", schedule_.rank_of[s]},
                   {"layers", plans_->stage(s).layers},
                   {"parameters_per_rank",
                    transformer::rank_parameters(scenario_.model, plans_->stage(s), spec().tp(), spec().ep()).total()}};
    for (const SlotKind kind : kSlotKinds) {
      const SlotPlan& plan = plans_->slowest(kind, s);
      stage[fmt::format("{}_flops", name_of(kind))] = plan.flops;
      stage[fmt::format("{}_kernels_s", name_of(kind))] = plan.kernels_s;
    }
    stage["forward_products_s"] = products_s(plans_->slowest(SlotKind::forward, s));
    e["stages"].push_back(stage);
  }
  if (plans_->places() > 1) e["hottest_ep_shares"] = hottest_shares();
  e["memory"] = memory_terms();
  e["checkpoint"] = Value::empty_list();
  for (std::uint32_t p = 0; p < spec().pp(); ++p)
    e["checkpoint"].push_back({{"pipeline_rank", p},
                               {"weights_bytes", memory_->saved(p).weights},
                               {"optimizer_bytes", memory_->saved(p).optimizer}});
  e["sent"] = sent_by_group();
  return e;
}

std::string TrainingRun::explain_text(const Value& e) const {
  std::string text = e["title"].text() + "\n\n";
  text += fmt::format("{:>5} {:>5} {:>7} {:>16} {:>12} {:>12} {:>14} {:>15}\n", "stage", "rank", "layers",
                      "parameters/rank", "forward", "backward", "forward TFLOP", "backward TFLOP");
  std::uint32_t s = 0;
  for (const Value& stage : e["stages"].items())
    text +=
        fmt::format("{:>5} {:>5} {:>7} {:>16} {:>12} {:>12} {:>14.2f} {:>15.2f}\n", s++, stage["rank"].integer(),
                    stage["layers"].integer(), stage["parameters_per_rank"].integer(),
                    duration_text(stage["forward_kernels_s"].real()), duration_text(stage["backward_kernels_s"].real()),
                    stage["forward_flops"].real() * 1e-12, stage["backward_flops"].real() * 1e-12);
  text += "times and FLOPs of a rank and a micro-batch, kernels only\n";
  if (plans_->places() > 1) {
    const Value& shares = e["hottest_ep_shares"];
    text += fmt::format(
        "routing: the busiest expert-parallel rank of a layer gets {:.2f} times its even share of the "
        "tokens on average, {:.2f} times in the worst layer; the times are those of the slowest rank\n",
        shares["mean"].real(), shares["largest"].real());
  }
  text += "\nmemory of a rank at its peak\n";
  for (std::uint32_t p = 0; p < spec().pp(); ++p)
    text += fmt::format("  pipeline rank {}: {}; activations of {:.2f} micro-batches\n", p, sum_text(memory_->peak(p)),
                        memory_->peak(p).micro_batches);
  if (spec().offload.has_any()) {
    const HostUse use = host_use(*memory_);
    text += fmt::format(
        "  memory of the fullest CPU socket, {} ranks: activations {:.2f} GB + optimizer {:.2f} GB, of {:.2f} GB\n",
        use.ranks, static_cast<double>(use.activations) * 1e-9, static_cast<double>(use.state) * 1e-9,
        scenario_.machine.host_memory.bytes * 1e-9);
  }
  const std::uint32_t rank = tightest(*memory_).pipeline_rank;
  const double left = left_bytes(*memory_, rank);
  text += fmt::format("  {} has {:.2f} GB: {:.2f} GB {}\n", gpu_of(rank).name, gpu_of(rank).hbm.visible_bytes() * 1e-9,
                      std::abs(left) * 1e-9,
                      left < 0 ? "too little, " + what_fits() : "are left on pipeline rank " + std::to_string(rank));
  if (!e["sent"].items().empty()) text += "\na rank sends in a step, on the pipeline rank that sends most\n";
  for (const Value& group : e["sent"].items())
    text += fmt::format("  {} of {} ranks: {:.3f} GB = {}\n", group["group"].text(), group["ranks"].integer(),
                        group["bytes_per_rank"].real() * 1e-9, group["formula"].text());
  return text + "\n" + gantt_of(schedule_, run_schedule(schedule_, stage_times_));
}

}  // namespace railyard
