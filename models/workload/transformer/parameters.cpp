#include "workload/transformer/parameters.h"

#include <algorithm>

namespace railyard::workload {
namespace {

constexpr std::uint64_t kNormsPerLayer = 2;
constexpr double kFlopsPerWeight = 2;   // multiply and add
constexpr double kFlopsPerPair = 4;     // per query-key pair and head dimension: scores and values

std::uint64_t expert_parameters(const ModelShape& m) {
  const std::uint64_t matrices = m.gated_mlp ? 3 : 2;
  return matrices * m.hidden * m.ffn;
}

/// Weights of one layer that one token is multiplied with.
double multiplied_weights(const ModelShape& m) {
  const std::uint64_t heads = m.heads + 2ull * m.kv_heads;
  const std::uint64_t attention = (heads + m.heads) * m.head_dim * m.hidden;
  const std::uint64_t router = std::uint64_t(m.hidden) * m.experts;
  const std::uint64_t mlp = (m.experts == 0 ? 1 : m.experts_per_token) * expert_parameters(m) + router;
  return static_cast<double>(attention + mlp);
}


}  // namespace

LayerParameters layer_parameters(const ModelShape& m) {
  LayerParameters p;
  const std::uint64_t projected = (m.heads + 2ull * m.kv_heads) * m.head_dim;
  p.attention = m.hidden * projected + std::uint64_t(m.heads) * m.head_dim * m.hidden + (m.qkv_bias ? projected : 0);
  p.mlp = std::max<std::uint64_t>(1, m.experts) * expert_parameters(m);
  p.router = std::uint64_t(m.hidden) * m.experts;
  p.norms = kNormsPerLayer * m.hidden;
  return p;
}

std::uint64_t decoder_parameters(const ModelShape& m) { return m.layers * layer_parameters(m).total(); }
std::uint64_t embedding_parameters(const ModelShape& m) { return std::uint64_t(m.vocab) * m.hidden; }
std::uint64_t head_parameters(const ModelShape& m) { return m.tied_embeddings ? 0 : embedding_parameters(m); }

std::uint64_t total_parameters(const ModelShape& m) {
  return decoder_parameters(m) + embedding_parameters(m) + head_parameters(m) + m.hidden;
}

std::uint64_t active_parameters(const ModelShape& m) {
  const std::uint64_t idle = m.experts == 0 ? 0 : m.experts - m.experts_per_token;
  return total_parameters(m) - m.layers * idle * expert_parameters(m);
}

std::vector<Stage> stages_of(const std::vector<std::uint32_t>& stage_layers) {
  std::vector<Stage> stages;
  stages.reserve(stage_layers.size());
  for (const std::uint32_t layers : stage_layers) stages.push_back({layers, false, false});
  if (!stages.empty()) stages.front().first = stages.back().last = true;
  return stages;
}

std::vector<std::uint32_t> even_stage_layers(std::uint32_t layers, std::uint32_t pp) {
  std::vector<std::uint32_t> stage_layers(pp, layers / pp);
  for (std::uint32_t p = 0; p < layers % pp; ++p) ++stage_layers[p];
  return stage_layers;
}

std::uint64_t rank_parameters(const ModelShape& m, const Stage& stage, std::uint32_t tp) {
  std::uint64_t parameters = decoder_parameters(m) / m.layers * stage.layers / tp;
  if (stage.first) parameters += embedding_parameters(m) / tp;
  if (stage.last) {
    const bool copy = m.tied_embeddings && !stage.first;
    parameters += ((copy ? embedding_parameters(m) : head_parameters(m)) + m.hidden) / tp;
  }
  return parameters;
}

Bytes rank_weight_bytes(const ModelShape& m, const Stage& stage, std::uint32_t tp) {
  return stored_bytes(rank_parameters(m, stage, tp), m.dtype);
}

std::uint32_t rank_kv_heads(const ModelShape& m, std::uint32_t tp) {
  return static_cast<std::uint32_t>(ceil_div(m.kv_heads, tp));
}

Bytes kv_bytes_per_token_layer(const ModelShape& m, std::uint32_t tp) {
  return stored_bytes(2ull * rank_kv_heads(m, tp) * m.head_dim, m.kv_dtype);
}

Bytes kv_bytes_per_token(const ModelShape& m, const Stage& stage, std::uint32_t tp) {
  return stage.layers * kv_bytes_per_token_layer(m, tp);
}

Bytes hidden_bytes(const ModelShape& m, std::uint64_t tokens) { return stored_bytes(tokens * m.hidden, m.dtype); }

double prefill_flops(const ModelShape& m, std::uint64_t layers, std::uint64_t tokens, std::uint64_t kv_start) {
  const double t = static_cast<double>(tokens);
  const double pairs = t * static_cast<double>(kv_start) + t * (t + 1) / 2;
  return static_cast<double>(layers) *
         (kFlopsPerWeight * t * multiplied_weights(m) + kFlopsPerPair * pairs * m.heads * m.head_dim);
}

double decode_flops(const ModelShape& m, std::uint64_t layers, const std::vector<std::uint64_t>& context) {
  double pairs = 0;
  for (const std::uint64_t keys : context) pairs += static_cast<double>(keys);
  return static_cast<double>(layers) * (kFlopsPerWeight * static_cast<double>(context.size()) * multiplied_weights(m) +
                                        kFlopsPerPair * pairs * m.heads * m.head_dim);
}

double head_flops(const ModelShape& m, std::uint64_t rows) {
  return kFlopsPerWeight * static_cast<double>(rows) * static_cast<double>(embedding_parameters(m));
}

}  // namespace railyard::workload
