#include "workload/training/plan/slot_plan.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "transformer/context_steps.h"
#include "transformer/end_plan.h"

namespace railyard::workload::training {

using transformer::Direction;
using transformer::LayerStep;
using transformer::Linear;

namespace {

/// Divides kernels so that each product with a matrix is a step of its own. Kernels beside a collective have one product
/// at the most and stay together.
std::vector<LayerStep> with_products_apart(const std::vector<LayerStep>& steps, WgradOrder order) {
  std::vector<LayerStep> divided;
  std::optional<transformer::LinearUse> last;  // of the last step of `divided`, where the next one may go before it
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const LayerStep& step = steps[i];
    if (step.is_collective() || (i > 0 && steps[i - 1].beside_next)) {
      divided.push_back(step);
      last.reset();
      continue;
    }
    bool begins = true, has_cast = false;
    for (const transformer::NamedKernel& kernel : step.kernels.kernels) {
      const auto& use = kernel.use;
      // A product's own kernels that narrow its weights need them, too.
      const bool casts = kernel.role == transformer::KernelRole::weight_cast;
      if ((use || casts || begins) && !has_cast) divided.push_back({step.part, {}});
      has_cast = casts;
      divided.back().kernels.add(kernel);
      if (order == WgradOrder::before_dgrad && use && last && use->linear == last->linear &&
          last->product == transformer::Product::dgrad)
        std::swap(divided[divided.size() - 2], divided.back());
      last = use;
      begins = use.has_value();
    }
    divided.back().host_waits = step.host_waits;
  }
  return divided;
}

std::optional<transformer::LinearUse> use_of(const LayerStep& step) {
  for (const transformer::NamedKernel& kernel : step.kernels.kernels)
    if (kernel.use) return kernel.use;
  return {};
}

/// Steps of a layer or an end, with their kernels as chains. Slots of equal layers share the chains.
struct Planned {
  /// @param kind  of the layer
  /// @param keeps_input  see coupled_steps()
  Planned(const std::vector<LayerStep>& plan, std::uint32_t kind, bool keeps_input, const TrainingSpec& spec,
          transformer::LayerTimer& timer)
      : steps(coupled_steps(spec.gtp() > 1 ? with_products_apart(plan, spec.gtp_shards.wgrad_order) : plan, kind,
                            keeps_input, spec, timer)) {
    for (CoupledStep& step : steps) {
      chains.push_back(step.layer.kernels.chain(step.layer.part));
      if (spec.gtp() > 1 && step.coupled == nullptr) step.use = use_of(step.layer);
    }
  }
  std::vector<CoupledStep> steps;
  std::vector<gpu::SharedChain> chains;
};

/// Calls of the framework beside launches. DeepEP's first kernel is launched in the call of the numbers before it, or of flags.
std::uint32_t calls_of(const LayerStep& step) {
  using Leg = collective::TokenExchange::Leg;
  const bool goes_on = step.tokens.leg == Leg::dispatch || step.tokens.leg == Leg::combine;
  return goes_on ? 0 : std::max(1u, step.kernels.calls());
}

/// @param routes  the layer has experts
void append(SlotPlan& plan, const Planned& planned, std::uint32_t layer, bool routes) {
  for (std::size_t i = 0; i < planned.steps.size(); ++i) {
    const CoupledStep& coupled = planned.steps[i];
    const LayerStep& step = coupled.layer;
    plan.steps.push_back({planned.chains[i], step.operation, step.bytes, layer, step.part, step.beside_next,
                          step.kernels.launches(), step.group, coupled.use, coupled.coupled, coupled.comm_sms,
                          step.shares, routes ? calls_of(step) : 0, step.host_waits, step.tokens});
    plan.kernels_s += step.kernels.seconds + (coupled.coupled != nullptr ? coupled.coupled->kernels_s() : 0);
    plan.flops += step.kernels.flops + coupled.flops;
  }
}

gpu::KernelTime part_of(const gpu::KernelTime& kernel, double share) {
  gpu::KernelTime part = kernel.taking(kernel.seconds * share);
  part.flops *= share;
  part.tensor_j *= share;
  part.bytes *= share;
  part.l2_bytes *= share;
  return part;
}

/// What runs again where the results of some operators are kept (SelectiveRecompute::operators): all of a layer but the
/// core of attention, reduce-scatters, and the products whose results are kept. Narrow products run again.
std::vector<LayerStep> plan_operators_again(const transformer::ModelShape& model, const transformer::LayerTimer& timer,
                                            const transformer::LayerPass& pass, const transformer::LayerSplit& split,
                                            const TrainingSpec& spec) {
  transformer::LayerTimer whole = timer;
  transformer::TrainingForm form = spec.form;
  form.recompute = transformer::Recompute::full;
  whole.set_training(form);
  const double queries = model.heads / split.tp, keys = rank_kv_heads(model, split.tp);
  const double of_qkv = keys / (queries + 2 * keys), of_gate_up = model.gated_mlp ? 0.5 : 0;  // keys; up
  std::vector<LayerStep> again;
  for (LayerStep& step : plan_recompute(model, whole, pass, split, spec.software.recompute_stops_early)) {
    if (step.is_collective()) {
      if (step.operation != collective::Operation::reduce_scatter) again.push_back(std::move(step));
      continue;
    }
    transformer::Segment kernels;
    for (transformer::NamedKernel& kernel : step.kernels.kernels) {
      double share = kernel.role == transformer::KernelRole::attention ? 0 : 1;
      if (kernel.use && !form.narrow) {
        if (kernel.use->linear == Linear::qkv) share = of_qkv;
        if (kernel.use->linear == Linear::fc1) share = of_gate_up;
        if (kernel.use->linear == Linear::fc2) share = 0;
      }
      if (share == 0) continue;
      if (share < 1) kernel.time = part_of(kernel.time, share);
      kernels.add(kernel);
    }
    step.kernels = std::move(kernels);
    if (!step.is_collective()) again.push_back(std::move(step));
  }
  return again;
}

// Maxima of a projection: input, weight and result; gradients of result and input (TransformerEngine, fp8.py).
constexpr Bytes kProjections = 4, kForwardMaxima = 3, kBackwardMaxima = 2, kFp32Bytes = 4;

constexpr std::array<Direction, 4> kDirections{Direction::forward, Direction::backward, Direction::dgrad,
                                               Direction::wgrad};

/// By virtual stage and SlotKind, on an expert-parallel rank.
std::vector<std::array<SlotPlan, 4>> stage_plans(const transformer::ModelShape& model, const TrainingSpec& spec,
                                                 const std::vector<transformer::Stage>& stages, std::uint32_t place,
                                                 std::vector<transformer::LayerTimer>& timers) {
  std::vector<std::array<SlotPlan, 4>> plans(stages.size());
  transformer::LayerSplit split = spec.split();
  transformer::LayerPass pass;
  std::uint32_t group = 0;  // of the stage
  for (std::uint32_t sequence = 0; sequence < spec.micro_batch; ++sequence)
    for (const gpu::AttentionSequence& part : transformer::context_part(spec.seq_tokens, spec.cp(), 0))
      pass.prefills.push_back(part);
  for (std::size_t kind = 0; kind < kDirections.size(); ++kind) {
    const Direction direction = kDirections[kind];
    // By group, by kind of layer, by layer if each routes in its own way, and by whether gathered inputs are kept.
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, bool>, Planned> layers, again;
    const auto key_of = [&](std::uint32_t number, bool keeps_input) {
      pass.kind = model.kind(number);
      split.load = spec.load(model, number, place);
      return std::tuple{group, pass.kind, split.load ? number : 0, keeps_input};
    };
    const auto layer = [&](SlotPlan& plan, std::uint32_t number, bool runs_again) {
      const bool keeps_input = spec.form.keep_gathered && !runs_again;
      const auto key = key_of(number, keeps_input);
      auto found = layers.find(key);
      if (found == layers.end())
        found = layers
                    .emplace(key, Planned(plan_layer(model, timers[group], pass, split, direction), pass.kind,
                                          keeps_input, spec, timers[group]))
                    .first;
      append(plan, found->second, number, model.routes(model.layer(number)));
    };
    const auto recompute = [&](SlotPlan& plan, std::uint32_t number) {
      const auto key = key_of(number, spec.form.keep_gathered);
      auto found = again.find(key);
      if (found == again.end()) {
        const std::vector<LayerStep> steps =
            spec.recomputes_operators()
                ? plan_operators_again(model, timers[group], pass, split, spec)
                : plan_recompute(model, timers[group], pass, split, spec.software.recompute_stops_early);
        found = again.emplace(key, Planned(steps, pass.kind, spec.form.keep_gathered, spec, timers[group])).first;
      }
      append(plan, found->second, number, model.routes(model.layer(number)));
    };
    const auto end = [&](SlotPlan& plan, bool head) {
      transformer::LayerTimer& timer = timers[group];
      const std::uint64_t tokens = spec.rank_tokens();
      const bool defers = head && direction == Direction::backward && spec.defer_embedding_wgrad;
      append(plan,
             Planned(head ? plan_head(model, timer, tokens, split, defers ? Direction::dgrad : direction)
                          : plan_embedding(model, timer, tokens, split, direction),
                     0, false, spec, timer),
             SlotStep::kEnds, false);
    };
    // A rank receives its share of the activations; the slot begins with the gather of all of them.
    const bool is_sharded =
        spec.pp() > 1 && spec.tp() > 1 && !spec.sequence_parallel && spec.software.pp_send == PipelineSend::shard;
    const auto gather = [&](SlotPlan& plan) {
      SlotStep step;
      step.operation = collective::Operation::all_gather;
      step.bytes = transformer::hidden_bytes(model, spec.rank_tokens());
      plan.steps.push_back(step);
    };
    // Delayed scales: a slot ends with the maxima of its tensors, of all ranks of the tensor-parallel group.
    const auto reduce_maxima = [&](SlotPlan& plan, std::uint32_t layers) {
      if (!spec.form.narrow || spec.form.narrow->recipe != transformer::ScalingRecipe::delayed || spec.tp() == 1)
        return;
      SlotStep step;
      step.operation = collective::Operation::all_reduce;
      step.bytes = Bytes{layers} * kProjections * kFp32Bytes *
                   (direction == Direction::forward ? kForwardMaxima : kBackwardMaxima);
      plan.steps.push_back(step);
    };
    for (std::uint32_t s = 0; s < stages.size(); ++s) {
      const transformer::Stage& stage = stages[s];
      group = spec.group_of(s);
      const std::uint32_t last = stage.first_layer + stage.layers;
      SlotPlan& plan = plans[s][kind];
      if (direction == Direction::forward) {
        if (is_sharded && !stage.first) gather(plan);
        if (stage.first) end(plan, false);
        for (std::uint32_t l = stage.first_layer; l < last; ++l)
          layer(plan, l, spec.form.recompute == transformer::Recompute::full && spec.recomputed_with(stage, l).end > 0);
        if (stage.last) end(plan, true);
        reduce_maxima(plan, stage.layers);
      } else {
        if (is_sharded && !stage.last && transformer::has_dgrad(direction)) gather(plan);
        if (stage.last) end(plan, true);
        if (stage.last && direction == Direction::wgrad && spec.defer_embedding_wgrad) continue;
        for (std::uint32_t l = last; l-- > stage.first_layer;) {
          // A group of layers runs again from its input, before the backward pass of its last layer.
          const LayerRange group = spec.recomputed_with(stage, l);
          if (transformer::has_dgrad(direction) && l + 1 == group.end)
            for (std::uint32_t g = group.begin; g < group.end; ++g) recompute(plan, g);
          layer(plan, l, false);
        }
        if (stage.first) end(plan, false);
        if (transformer::has_dgrad(direction)) reduce_maxima(plan, stage.layers);
      }
    }
  }
  return plans;
}

}  // namespace

SlotPlans::SlotPlans(const transformer::ModelShape& model, const TrainingSpec& spec,
                     std::vector<transformer::LayerTimer>& timers)
    : stages_(transformer::stages_of(spec.stage_layers)) {
  for (std::uint32_t place = 0; place < (spec.routing ? spec.ep() : 1); ++place)
    plans_.push_back(stage_plans(model, spec, stages_, place, timers));
}

const SlotPlan& SlotPlans::slowest(SlotKind kind, std::uint32_t stage) const {
  std::uint32_t slowest = 0;
  for (std::uint32_t place = 1; place < places(); ++place)
    if (plan(kind, stage, place).kernels_s > plan(kind, stage, slowest).kernels_s) slowest = place;
  return plan(kind, stage, slowest);
}

}  // namespace railyard::workload::training
