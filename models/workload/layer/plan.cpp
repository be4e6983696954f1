#include "workload/layer/plan.h"

#include "workload/transformer/parameters.h"

namespace railyard::workload::layer {

namespace {

using collective::Operation;

class Plan {
 public:
  Plan(const ModelShape& model, const LayerSpec& spec, LayerTimer& timer)
      : spec_(spec), timer_(timer), vector_(hidden_bytes(model, spec.all_tokens())) {
    pass_.sequences.assign(spec.batch, {spec.tokens, spec.context_tokens});
    pass_.decode = spec.phase == Phase::decode;
    pass_.kind = model.kind(common_layer(model));
  }

  std::vector<LayerStep> steps() {
    const bool trains = spec_.phase == Phase::training;
    forward(trains ? "forward." : "");
    if (trains) backward();
    return std::move(steps_);
  }

 private:
  std::uint64_t normed_tokens() const {
    return spec_.sequence_parallel ? spec_.all_tokens() / spec_.tp : spec_.all_tokens();
  }

  void add(const std::string& part, const Segment& segment) {
    for (const NamedKernel& kernel : segment.kernels) steps_.push_back({part + kernel.name, false, kernel.time, {}, 0});
  }
  void add(const std::string& part, Operation operation) {
    if (spec_.tp > 1)
      steps_.push_back(
          {part + collective::kOperationNames[static_cast<std::size_t>(operation)], true, {}, operation, vector_});
  }
  /// In front of what needs every token, and behind what leaves partial sums of every token.
  void gather(const std::string& part) {
    if (spec_.sequence_parallel) add(part, Operation::all_gather);
  }
  void reduce(const std::string& part) {
    add(part, spec_.sequence_parallel ? Operation::reduce_scatter : Operation::all_reduce);
  }

  void forward(const std::string& prefix) {
    for (const bool is_mlp : {false, true}) {
      const std::string part = prefix + (is_mlp ? "mlp." : "attention.");
      add(part, timer_.norm(is_mlp ? LayerPart::mlp : LayerPart::attention, normed_tokens()));
      gather(part);
      add(part, is_mlp ? timer_.mlp_body(spec_.all_tokens(), pass_.kind) : timer_.attention_body(pass_));
      reduce(part);
    }
  }
  void backward() {
    for (const bool is_mlp : {true, false}) {
      const std::string part = is_mlp ? "backward.mlp." : "backward.attention.";
      gather(part);
      add(part, is_mlp ? timer_.mlp_backward(spec_.all_tokens(), pass_.kind) : timer_.attention_backward(pass_));
      reduce(part);
      add(part, timer_.norm_backward(is_mlp ? LayerPart::mlp : LayerPart::attention, normed_tokens()));
    }
  }

  const LayerSpec& spec_;
  LayerTimer& timer_;
  LayerPass pass_;
  Bytes vector_;
  std::vector<LayerStep> steps_;
};

}  // namespace

std::vector<LayerStep> plan_layer(const ModelShape& model, const LayerSpec& spec, LayerTimer& timer) {
  return Plan(model, spec, timer).steps();
}

}  // namespace railyard::workload::layer
