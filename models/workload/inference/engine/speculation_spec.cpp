#include "workload/inference/engine/speculation_spec.h"

#include "transformer/parameters.h"

namespace railyard::workload::inference {

using transformer::ModelShape;

DraftMemory draft_memory(const Speculation& speculation, std::uint32_t replicas) {
  const ModelShape& model = speculation.model;
  const bool has_ends = !speculation.joins_hidden_state;
  const transformer::Stage all{model.layers, has_ends, has_ends, 0};
  const std::uint32_t ep = speculation.method == DraftMethod::mtp ? replicas : 1;
  DraftMemory memory{rank_weight_bytes(model, all, speculation.tp, ep), kv_bytes_per_token(model, all, speculation.tp)};
  if (speculation.joins_hidden_state) memory.weights += 2 * hidden_bytes(model, model.hidden);
  if (speculation.has_own_head) memory.weights += hidden_bytes(model, model.vocab) / speculation.tp;
  return memory;
}

ModelShape eagle_model(const ModelShape& model) {
  ModelShape layer = model;
  layer.layers = 1;
  layer.kinds = {transformer::LayerShape()};
  layer.kind_of.clear();
  if (model.experts == 0) return layer;
  layer.ffn = model.dense_ffn > 0 ? model.dense_ffn : model.experts_per_token * model.ffn + model.shared_ffn;
  layer.experts = layer.experts_per_token = layer.dense_ffn = layer.shared_ffn = 0;
  layer.shared_gate = layer.router_bias = false;
  return layer;
}

ModelShape mtp_model(const ModelShape& model) {
  ModelShape layer = model;
  layer.layers = 1;
  layer.kinds = {model.layer(common_layer(model))};
  layer.kind_of.clear();
  return layer;
}

}  // namespace railyard::workload::inference
