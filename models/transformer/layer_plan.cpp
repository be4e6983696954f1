#include "transformer/layer_plan.h"

#include "transformer/context_steps.h"
#include "transformer/expert_steps.h"
#include "transformer/narrow_steps.h"
#include "transformer/parameters.h"
#include "transformer/replica_steps.h"
#include "transformer/step_list.h"

namespace railyard::transformer {

namespace {

/// The kernels that come before the product with a matrix.
Segment before(Linear linear, const Segment& segment) {
  Segment part;
  for (const NamedKernel& kernel : segment.kernels) {
    if (kernel.use == LinearUse{linear, Product::fprop}) break;
    part.add(kernel);
  }
  return part;
}

bool sends_to_experts(const StepList& steps, const ModelShape& model, const LayerPass& pass) {
  return steps.split().expert_ranks() > 1 && model.routes(model.kinds[pass.kind]);
}

/// The MLP of a layer whose ranks have all experts, or no layer with experts.
void add_mlp(StepList& steps, LayerTimer& timer, const ModelShape& model, std::uint32_t kind) {
  constexpr LayerPart mlp = LayerPart::mlp;
  if (!model.routes(model.kinds[kind]) || !timer.waits_for_counts())
    return steps.add(mlp, timer.mlp_body(steps.tokens(), kind));
  add_routing_steps(steps, timer, model, steps.tokens());
  steps.add(mlp, timer.local_experts(steps.tokens(), kind));
  steps.add(mlp, timer.combine(steps.tokens()));
  steps.add(mlp, timer.shared_experts(steps.tokens(), kind));
}

/// Without a timer only the collectives. @param stops_early  see plan_recompute()
void add_forward(StepList& steps, LayerTimer* timer, const ModelShape& model, const LayerPass& pass,
                 bool stops_early = false) {
  for (const LayerPart part : {LayerPart::attention, LayerPart::mlp}) {
    const bool shares_experts = steps.split().replicas > 1 && model.routes(model.kinds[pass.kind]);
    if (part == LayerPart::mlp && shares_experts) {
      add_replica_expert_steps(steps, timer, model, pass);
    } else if (part == LayerPart::mlp && sends_to_experts(steps, model, pass)) {
      if (timer != nullptr) steps.add(part, timer->norm(part, steps.divided_tokens()));
      add_expert_steps(steps, timer, model, pass.kind);
    } else {
      add_part_input(steps, timer, model, part, pass.kind);
      if (part == LayerPart::mlp && stops_early && !model.routes(model.kinds[pass.kind])) {
        steps.add(part, before(Linear::fc2, timer->mlp_body(steps.tokens(), pass.kind)));
        return;
      }
      if (part == LayerPart::attention && steps.split().cp > 1) {
        if (timer != nullptr) steps.add(part, timer->attention_input(pass));
        add_context_core(steps, timer, model, pass);
        if (timer != nullptr) steps.add(part, timer->attention_output(pass));
      } else if (timer != nullptr && part == LayerPart::mlp) {
        add_mlp(steps, *timer, model, pass.kind);
      } else if (timer != nullptr && shares_experts && steps.split().turns == MicroBatchTurns::in_stages) {
        steps.add(part, timer->attention_input(pass));
        steps.end_step();
        steps.add(part, timer->attention_core(pass));
        steps.add(part, timer->attention_output(pass));
      } else if (timer != nullptr) {
        steps.add(part, timer->attention_body(pass));
      }
      if (shares_experts && steps.split().scatters_tokens()) {
        steps.add(part, collective::Operation::reduce_scatter,
                  hidden_bytes(model, steps.split().replica_tokens(steps.tokens())));
      } else {
        steps.reduce(part);
      }
    }
    if (timer != nullptr) steps.add(part, timer->dropout(part, steps.divided_tokens()));
  }
}

void add_backward(StepList& steps, LayerTimer& timer, const ModelShape& model, const LayerPass& pass,
                  Direction direction) {
  for (const LayerPart part : {LayerPart::mlp, LayerPart::attention}) {
    steps.add(part, timer.dropout_backward(part, steps.divided_tokens(), direction));
    if (part == LayerPart::mlp && sends_to_experts(steps, model, pass)) {
      add_expert_steps_backward(steps, timer, model, direction);
    } else {
      if (has_dgrad(direction)) add_part_gradient(steps, timer, model, part, pass.kind);
      PartBackward kernels;
      if (part == LayerPart::mlp) {
        kernels = timer.mlp_backward(steps.tokens(), pass.kind, direction);
      } else if (steps.split().cp > 1 && has_dgrad(direction)) {
        steps.add(part, timer.attention_output_backward(pass, direction));
        add_context_core_backward(steps, timer, model, pass);
        kernels = timer.attention_input_backward(pass, direction);
      } else {
        kernels = timer.attention_backward(pass, direction);
      }
      add_input_transpose(kernels, steps, timer, model, part, pass.kind);
      const bool is_latent = part == LayerPart::attention && model.latent;
      const bool gathers_narrow = !is_latent && has_narrow_ends(model, part, pass.kind);
      steps.add_backward(part, kernels, timer.form(), direction, gathers_narrow);
      if (is_latent) steps.add(part, timer.attention_down_backward(steps.divided_tokens(), direction));
    }
    if (has_dgrad(direction)) steps.add(part, timer.norm_backward(part, steps.divided_tokens()));
  }
}

/// The forward steps of modules that run again, in their order.
void add_modules_again(StepList& steps, LayerTimer& timer, const ModelShape& model, const LayerPass& pass) {
  const auto again = [&](RecomputeModule module) { return timer.form().recomputes(module); };
  const auto norm = [&](LayerPart part) {
    if (!again(RecomputeModule::layernorm)) return;
    steps.add(part, timer.norm(part, steps.divided_tokens()));
    if (timer.form().keep_gathered) steps.gather(part);
  };
  norm(LayerPart::attention);
  if (again(RecomputeModule::core_attn)) {
    steps.split().cp > 1 ? add_context_core(steps, &timer, model, pass)
                         : steps.add(LayerPart::attention, timer.attention_core(pass));
  }
  constexpr LayerPart mlp = LayerPart::mlp;
  if (model.norms > 1) norm(mlp);
  const bool routes = model.routes(model.kinds[pass.kind]);
  if (!again(routes ? RecomputeModule::moe : RecomputeModule::mlp)) {
    if (routes && again(RecomputeModule::moe_act))
      steps.add(mlp, timer.expert_activation(expert_tokens(steps), steps.split().expert_ranks(),
                                             steps.split().load ? &*steps.split().load : nullptr));
  } else if (sends_to_experts(steps, model, pass)) {
    add_expert_steps(steps, &timer, model, pass.kind);
  } else {
    has_narrow_ends(model, mlp, pass.kind) ? steps.gather_narrow(mlp) : steps.gather(mlp);
    add_mlp(steps, timer, model, pass.kind);
    steps.reduce(mlp);
  }
}

}  // namespace

std::vector<LayerStep> plan_layer(const ModelShape& model, LayerTimer& timer, const LayerPass& pass,
                                  const LayerSplit& split, Direction direction) {
  StepList steps(model, pass.dense_tokens(), split, &timer);
  direction == Direction::forward ? add_forward(steps, &timer, model, pass)
                                  : add_backward(steps, timer, model, pass, direction);
  return steps.take();
}

std::vector<LayerStep> plan_recompute(const ModelShape& model, LayerTimer& timer, const LayerPass& pass,
                                      const LayerSplit& split, bool stops_early) {
  StepList steps(model, pass.dense_tokens(), split, &timer);
  switch (timer.form().recompute) {
    case Recompute::none: break;
    case Recompute::selective: add_modules_again(steps, timer, model, pass); break;
    case Recompute::full: add_forward(steps, &timer, model, pass, stops_early); break;
  }
  return steps.take();
}

std::vector<LayerStep> layer_collectives(const ModelShape& model, std::uint64_t tokens, const LayerSplit& split) {
  StepList steps(model, tokens, split, nullptr);
  LayerPass pass;
  pass.kind = model.kind(common_layer(model));
  pass.group_tokens = split.group_tokens(tokens);
  add_forward(steps, nullptr, model, pass);
  return steps.take();
}

}  // namespace railyard::transformer
