#include "workload/inference/engine/drafter.h"

namespace railyard::workload::inference {

Drafter::Drafter(const Speculation& speculation, std::uint32_t tokens, const gpu::GpuDatasheet& gpu,
                 const collective::Engine& engine, const transformer::LayerSplit& split)
    : speculation_(speculation), tokens_(tokens), kernels_(gpu), timer_(speculation_.model, speculation_.tp, kernels_) {
  timer_.set_libraries(engine.attention, engine.block_scaled_products);
  split_.tp = speculation_.tp;
  if (speculation_.method != DraftMethod::mtp || speculation_.tp != split.tp) return;
  split_ = split;
  timer_.set_expert_ranks(split.experts);
}

void Drafter::add(Pass& pass, const ScheduledBatch& whole, const CudaGraphs& graphs, const Host& host) {
  const ScheduledBatch batch = whole.fullest_replica();
  transformer::LayerPass all, one;
  const std::uint32_t more = speculation_.method == DraftMethod::draft ? 1 : 0;
  for (const ScheduledBatch::Item& item : batch.items) {
    (item.is_decode ? all.decodes : all.prefills).push_back({item.tokens + more, item.start});
    one.decodes.push_back({1, item.start + item.tokens + more - 1});
  }
  pass.drafts.push_back(plan(all, batch.items.size(), graphs));
  while (pass.drafts.size() < tokens_) {
    for (gpu::AttentionSequence& sequence : one.decodes) ++sequence.kv_start;
    pass.drafts.push_back(plan(one, batch.items.size(), graphs));
  }
  const bool is_graph = speculation_.draft_graphs && graphs.mode != GraphMode::none;
  if (is_graph) return;
  const std::vector<Pass::Step>& draft = pass.drafts.front();  // embedding, layers, head
  const std::size_t kernels = kernels_of({draft.begin() + 1, draft.end() - 1});
  pass.draft_launch =
      host.layer(graphs.launch(false, batch.items.size()), static_cast<double>(kernels) / speculation_.model.layers);
}

std::vector<Pass::Step> Drafter::plan(transformer::LayerPass layer, std::uint64_t rows, const CudaGraphs& graphs) {
  using transformer::LayerPart;
  const transformer::ModelShape& model = speculation_.model;
  if (const std::uint64_t padded = graphs.padded(false, layer.tokens()); padded != layer.tokens())
    layer.padded_tokens = padded;
  if (split_.replicas > 1) layer.group_tokens = split_.group_tokens(layer.dense_tokens());
  std::vector<Pass::Step> steps;
  transformer::Segment input = timer_.embedding(layer.dense_tokens());
  if (speculation_.joins_hidden_state) {
    gpu::GemmShape joined;
    joined.m = layer.dense_tokens();
    joined.n = model.hidden;
    joined.k = 2ull * model.hidden;
    joined.dtype = model.dtype;
    input.add("join", kernels_.gemm(joined));
  }
  steps.push_back({LayerPart::embedding, input.chain(LayerPart::embedding), {}, 0});
  std::vector<std::vector<Pass::Step>> kinds(model.kinds.size());
  for (layer.kind = 0; layer.kind < kinds.size(); ++layer.kind)
    for (const transformer::LayerStep& step : plan_layer(model, timer_, layer, split_))
      kinds[layer.kind].push_back({step.part, step.kernels.chain(step.part), step.operation, step.bytes, step.group});
  for (std::uint32_t l = 0; l < model.layers; ++l) {
    const std::vector<Pass::Step>& of_layer = kinds[model.kind(l)];
    steps.insert(steps.end(), of_layer.begin(), of_layer.end());
    steps[steps.size() - of_layer.size()].begins_layer = true;
  }
  steps.push_back({LayerPart::head, timer_.head(rows).chain(LayerPart::head), {}, 0});
  return steps;
}

}  // namespace railyard::workload::inference
