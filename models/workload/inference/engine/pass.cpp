#include "workload/inference/engine/pass.h"

#include <algorithm>

namespace railyard::workload::inference {

namespace {

/// What a step computes, by replica.
struct Step {
  transformer::LayerPass attention;          ///< of the replica that is longest in it
  std::uint64_t tokens = 0;                  ///< of the replica with most of them
  std::uint64_t all_tokens = 0;              ///< of all replicas
  std::uint32_t outputs = 0, sequences = 0;  ///< of the replicas with most of them
};

Step step_of(Grid& grid, const ScheduledBatch& batch) {
  Step step{batch.layer_pass(), batch.tokens(), batch.tokens(), batch.outputs(),
            static_cast<std::uint32_t>(batch.items.size())};
  if (grid.replicas() == 1) return step;
  step.tokens = step.all_tokens = step.outputs = step.sequences = 0;
  double longest = -1;
  for (std::uint32_t r = 0; r < grid.replicas(); ++r) {
    const ScheduledBatch own = batch.of_replica(r);
    if (own.items.empty()) continue;
    step.tokens = std::max<std::uint64_t>(step.tokens, own.tokens());
    step.all_tokens += grid.split().replica_tokens(own.tokens());
    step.outputs = std::max(step.outputs, own.outputs());
    step.sequences = std::max(step.sequences, static_cast<std::uint32_t>(own.items.size()));
    const transformer::LayerPass pass = own.layer_pass();
    const double seconds = grid.timer().attention_core(pass).seconds;
    if (seconds <= longest) continue;
    longest = seconds;
    step.attention = pass;
  }
  return step;
}

/// By kinds of layers.
std::vector<std::vector<Pass::Step>> plan_layers(Grid& grid, const Step& step, std::uint64_t padded_tokens,
                                                 bool pads_replicas, const transformer::LayerSplit& split) {
  transformer::LayerPass layer = step.attention;
  layer.padded_tokens = padded_tokens;
  if (grid.replicas() > 1) {
    layer.padded_tokens = padded_tokens != 0 ? padded_tokens : step.tokens;
    layer.group_tokens = pads_replicas ? split.group_tokens(layer.padded_tokens) : step.all_tokens;
  }
  std::vector<std::vector<Pass::Step>> layers(grid.model().kinds.size());
  for (layer.kind = 0; layer.kind < layers.size(); ++layer.kind)
    for (const transformer::LayerStep& s : plan_layer(grid.model(), grid.timer(), layer, split))
      layers[layer.kind].push_back(
          {s.part, s.kernels.chain(s.part), s.operation, s.bytes, s.group, false, s.beside_next});
  return layers;
}

}  // namespace

std::size_t kernels_of(const std::vector<Pass::Step>& steps) {
  std::size_t kernels = 0;
  for (const Pass::Step& step : steps)
    if (step.kernels) kernels += step.kernels->kernels.size();
  return kernels;
}

Pass plan_pass(Grid& grid, const ScheduledBatch& batch, const Host& host, std::uint64_t padded_tokens,
               bool pads_replicas) {
  transformer::LayerTimer& timer = grid.timer();
  const Step step = step_of(grid, batch);
  Pass pass;
  pass.tokens = padded_tokens != 0 ? padded_tokens : step.tokens;
  pass.embedding = timer.embedding(pass.tokens).chain(transformer::LayerPart::embedding);
  pass.layers = plan_layers(grid, step, padded_tokens, pads_replicas, grid.split());
  for (std::uint32_t l = 0; l < grid.model().layers; ++l)
    pass.layer_kernels += static_cast<double>(kernels_of(pass.layers[grid.model().kind(l)]));
  pass.layer_kernels /= grid.model().layers;
  if (step.outputs != 0) pass.head = timer.head(step.outputs).chain(transformer::LayerPart::head);
  pass.prepare = host.step(step.sequences);
  pass.host_is_async = host.async;
  return pass;
}

void plan_halves(Pass& pass, Grid& grid, const Halves& halves, transformer::MicroBatchTurns turns) {
  transformer::LayerSplit split = grid.split();
  split.turns = pass.turns = turns;
  pass.halves.resize(pass.layers.size());
  for (std::size_t half = 0; half < 2; ++half) {
    const std::vector<std::vector<Pass::Step>> layers =
        plan_layers(grid, step_of(grid, halves.batches[half]), halves.tokens[half], halves.pads, split);
    for (std::size_t kind = 0; kind < layers.size(); ++kind) pass.halves[kind][half] = layers[kind];
  }
  const transformer::ModelShape& model = grid.model();
  while (turns == transformer::MicroBatchTurns::in_stages && pass.whole_layers < model.layers &&
         !model.routes(model.kinds[model.kind(pass.whole_layers)]))
    ++pass.whole_layers;
}

}  // namespace railyard::workload::inference
