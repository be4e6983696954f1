#include "workload/inference/engine/batch.h"

namespace railyard::workload::inference {

std::uint64_t Batch::tokens() const {
  std::uint64_t tokens = contexts.size();
  for (const Chunk& chunk : chunks) tokens += chunk.tokens;
  return tokens;
}

std::uint64_t Batch::outputs() const {
  std::uint64_t outputs = contexts.size();
  for (const Chunk& chunk : chunks) outputs += chunk.last ? 1 : 0;
  return outputs;
}

Pass plan_pass(Grid& grid, const Batch& batch, const Host& host, std::uint64_t padded_tokens) {
  transformer::LayerTimer& timer = grid.timer();
  Pass pass;
  pass.tokens = padded_tokens != 0 ? padded_tokens : batch.tokens();
  pass.embedding = timer.embedding(pass.tokens).chain(transformer::LayerPart::embedding);
  transformer::LayerPass layer{{}, gpu::one_token_each(batch.contexts), 0, padded_tokens};
  for (const Batch::Chunk& chunk : batch.chunks) layer.prefills.push_back({chunk.tokens, chunk.start});
  pass.layers.resize(grid.model().kinds.size());
  for (layer.kind = 0; layer.kind < pass.layers.size(); ++layer.kind)
    for (const transformer::LayerStep& step : plan_layer(grid.model(), timer, layer, grid.split()))
      pass.layers[layer.kind].push_back({step.part, step.kernels.chain(step.part), step.operation, step.bytes});
  if (batch.outputs() != 0) pass.head = timer.head(batch.outputs()).chain(transformer::LayerPart::head);
  pass.prepare = host.step(batch.sequences());
  pass.host_is_async = host.async;
  return pass;
}

}  // namespace railyard::workload::inference
