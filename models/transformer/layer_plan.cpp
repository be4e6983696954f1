#include "transformer/layer_plan.h"

#include "transformer/parameters.h"

namespace railyard::transformer {

namespace {

using collective::Operation;

/// Collects steps; without a timer only the collectives.
class Plan {
 public:
  Plan(const ModelShape& model, std::uint64_t tokens, const LayerSplit& split)
      : model_(model), tokens_(tokens), split_(split), vector_(hidden_bytes(model, tokens)) {}

  void forward(LayerTimer* timer, const LayerPass& pass) {
    for (const LayerPart part : {LayerPart::attention, LayerPart::mlp}) {
      if (timer != nullptr) add(part, timer->norm(part, normed_tokens()));
      gather(part);
      if (timer != nullptr)
        add(part, part == LayerPart::mlp ? timer->mlp_body(tokens_, pass.kind) : timer->attention_body(pass));
      reduce(part);
    }
  }
  void backward(LayerTimer& timer, const LayerPass& pass, Direction direction) {
    for (const LayerPart part : {LayerPart::mlp, LayerPart::attention}) {
      if (has_dgrad(direction)) gather(part);
      if (part == LayerPart::attention) {
        add_backward(part, timer.attention_backward(pass, direction), !timer.form().keep_gathered);
      } else {
        const bool routes = model_.routes(model_.kinds[pass.kind]);
        add_backward(part, timer.mlp_backward(tokens_, pass.kind, direction), !timer.form().keep_gathered && !routes);
      }
      if (!has_dgrad(direction)) continue;
      reduce(part);
      add(part, timer.norm_backward(part, normed_tokens()));
    }
  }
  std::vector<LayerStep> steps() { return std::move(steps_); }

 private:
  std::uint64_t normed_tokens() const { return split_.sequence_parallel ? tokens_ / split_.tp : tokens_; }

  void add(LayerPart part, const Segment& kernels) {
    if (kernels.kernels.empty()) return;
    if (steps_.empty() || steps_.back().is_collective() || steps_.back().part != part) steps_.push_back({part, {}});
    steps_.back().kernels.append(kernels);
  }
  void add_backward(LayerPart part, const PartBackward& kernels, bool gathers_again) {
    const bool gathers = gathers_again && split_.sequence_parallel && !kernels.input_wgrad.kernels.empty();
    if (!gathers) {
      for (const Segment* segment : {&kernels.body, &kernels.input_dgrad, &kernels.input_wgrad}) add(part, *segment);
      return;
    }
    const bool has_dgrad = !kernels.input_dgrad.kernels.empty();
    if (has_dgrad) add(part, kernels.body);
    gather(part);
    steps_.back().beside_next = true;
    add(part, has_dgrad ? kernels.input_dgrad : kernels.body);
    steps_.push_back({part, kernels.input_wgrad});
  }
  void add(LayerPart part, Operation operation) {
    if (split_.tp > 1) steps_.push_back({part, {}, operation, vector_});
  }
  /// Before a part that needs all tokens.
  void gather(LayerPart part) {
    if (split_.sequence_parallel) add(part, Operation::all_gather);
  }
  /// After a part that leaves partial sums of all tokens.
  void reduce(LayerPart part) {
    add(part, split_.sequence_parallel ? Operation::reduce_scatter : Operation::all_reduce);
  }

  const ModelShape& model_;
  const std::uint64_t tokens_;
  const LayerSplit split_;
  const Bytes vector_;
  std::vector<LayerStep> steps_;
};

}  // namespace

std::vector<LayerStep> plan_layer(const ModelShape& model, LayerTimer& timer, const LayerPass& pass,
                                  const LayerSplit& split, Direction direction) {
  Plan plan(model, pass.dense_tokens(), split);
  direction == Direction::forward ? plan.forward(&timer, pass) : plan.backward(timer, pass, direction);
  return plan.steps();
}

std::vector<LayerStep> layer_collectives(const ModelShape& model, std::uint64_t tokens, const LayerSplit& split) {
  Plan plan(model, tokens, split);
  plan.forward(nullptr, {});
  return plan.steps();
}

}  // namespace railyard::transformer
