#include "workload/inference/engine/pass.h"

namespace railyard::workload::inference {

Pass plan_pass(Grid& grid, const ScheduledBatch& batch, const Host& host, std::uint64_t padded_tokens) {
  transformer::LayerTimer& timer = grid.timer();
  Pass pass;
  pass.tokens = padded_tokens != 0 ? padded_tokens : batch.tokens();
  pass.embedding = timer.embedding(pass.tokens).chain(transformer::LayerPart::embedding);
  transformer::LayerPass layer = batch.layer_pass();
  layer.padded_tokens = padded_tokens;
  pass.layers.resize(grid.model().kinds.size());
  for (layer.kind = 0; layer.kind < pass.layers.size(); ++layer.kind)
    for (const transformer::LayerStep& step : plan_layer(grid.model(), timer, layer, grid.split()))
      pass.layers[layer.kind].push_back({step.part, step.kernels.chain(step.part), step.operation, step.bytes});
  if (batch.outputs() != 0) pass.head = timer.head(batch.outputs()).chain(transformer::LayerPart::head);
  pass.prepare = host.step(batch.items.size());
  pass.host_is_async = host.async;
  return pass;
}

}  // namespace railyard::workload::inference
