#include "transformer/parameters.h"

#include <algorithm>
#include <cmath>

#include "gpu/kernels/attention.h"
#include "transformer/linears.h"

namespace railyard::transformer {
namespace {

constexpr double kFlopsPerWeight = 2;  // multiply and add
constexpr double kFlopsPerPair = 2;    // per query-key pair, and number of a query or of a value

std::uint64_t projections(const ModelShape& m) { return m.gated_mlp ? 2 : 1; }

std::uint64_t mlp_weights(const ModelShape& m, std::uint64_t width) { return (projections(m) + 1) * m.hidden * width; }

std::uint64_t mlp_parameters(const ModelShape& m, std::uint64_t width) {
  return mlp_weights(m, width) + (m.mlp_bias && width > 0 ? projections(m) * width + m.hidden : 0);
}

std::uint64_t norm_parameters(const ModelShape& m) { return std::uint64_t(m.norm_vectors) * m.hidden; }

std::uint64_t qkv_width(const ModelShape& m) { return (m.heads + 2ull * m.kv_heads) * m.head_dim; }

std::uint64_t attention_weights(const ModelShape& m) {
  std::uint64_t weights = 0;
  for (const Linear linear : attention_linears(m)) weights += matrix_of(m, linear, 1).elements();
  return weights;
}

std::uint32_t dense_width(const ModelShape& m) { return m.experts == 0 ? m.ffn : m.dense_ffn; }

std::uint64_t router_weights(const ModelShape& m) {
  return std::uint64_t(m.hidden) * (m.experts + (m.shared_gate ? 1 : 0));
}

/// Bytes of a matrix that has a format of its own.
struct Formatted {
  std::uint64_t parameters = 0;
  double bytes = 0;
  void add(const std::optional<WeightFormat>& format, std::uint64_t weights) {
    if (!format) return;
    parameters += weights;
    bytes += static_cast<double>(weights) * format->bytes;
  }
};

void add_layer(Formatted& sum, const ModelShape& m, const LayerShape& layer) {
  sum.add(layer.attention, attention_weights(m));
  sum.add(layer.mlp, mlp_weights(m, m.routes(layer) ? m.shared_ffn : dense_width(m)));
  if (m.routes(layer)) sum.add(layer.experts, m.experts * mlp_weights(m, m.ffn));
}

}  // namespace

std::uint64_t undivided_weights(const ModelShape& m) {
  std::uint64_t weights = 0;
  for (const Linear linear : attention_linears(m))
    if (linear == Linear::q_down || linear == Linear::kv_down) weights += matrix_of(m, linear, 1).elements();
  return weights;
}

LayerParameters layer_parameters(const ModelShape& m, std::uint32_t kind) {
  const LayerShape& layer = m.kinds[kind];
  LayerParameters p;
  p.attention =
      attention_weights(m) + (m.qkv_bias ? qkv_width(m) : 0) + (m.output_bias ? m.hidden : 0) + (m.sinks ? m.heads : 0);
  if (m.routes(layer)) {
    p.mlp = m.experts * mlp_parameters(m, m.ffn) + mlp_parameters(m, m.shared_ffn);
    p.router = router_weights(m) + (m.router_bias ? m.experts : 0);
  } else {
    p.mlp = mlp_parameters(m, dense_width(m));
  }
  p.norms = m.norms * norm_parameters(m) + m.qk_norm;
  return p;
}

double multiplied_weights(const ModelShape& m, const LayerShape& layer) {
  const std::uint64_t mlp =
      m.routes(layer) ? m.experts_per_token * mlp_weights(m, m.ffn) + mlp_weights(m, m.shared_ffn) + router_weights(m)
                      : mlp_weights(m, dense_width(m));
  return static_cast<double>(attention_weights(m) + mlp);
}

std::uint64_t layers_parameters(const ModelShape& m, std::uint32_t first, std::uint32_t layers) {
  if (m.kind_of.empty()) return layers * layer_parameters(m).total();
  std::uint64_t sum = 0;
  for (std::uint32_t l = first; l < first + layers; ++l) sum += layer_parameters(m, m.kind(l)).total();
  return sum;
}

std::uint32_t common_layer(const ModelShape& m) {
  std::vector<std::uint32_t> layers(m.kinds.size(), 0);
  for (std::uint32_t l = 0; l < m.layers; ++l) ++layers[m.kind(l)];
  std::uint32_t common = m.layers - 1;
  for (std::uint32_t l = m.layers; l-- > 0;)
    if (layers[m.kind(l)] > layers[m.kind(common)]) common = l;
  return common;
}

std::uint64_t decoder_parameters(const ModelShape& m) { return layers_parameters(m, 0, m.layers); }
std::uint64_t embedding_parameters(const ModelShape& m) {
  return (std::uint64_t(m.vocab) + m.positions) * m.hidden + (m.embedding_norm ? norm_parameters(m) : 0);
}
std::uint64_t head_weights(const ModelShape& m) { return std::uint64_t(m.vocab) * m.hidden; }
std::uint64_t head_parameters(const ModelShape& m) {
  return (m.tied_embeddings ? 0 : head_weights(m)) + (m.head_bias ? m.vocab : 0);
}

std::uint64_t total_parameters(const ModelShape& m) {
  return decoder_parameters(m) + embedding_parameters(m) + head_parameters(m) + norm_parameters(m);
}

std::uint64_t active_parameters(const ModelShape& m) {
  const std::uint64_t idle = m.experts == 0 ? 0 : m.experts - m.experts_per_token;
  std::uint64_t routing = 0;
  for (std::uint32_t l = 0; l < m.layers; ++l) routing += m.routes(m.layer(l)) ? 1 : 0;
  return total_parameters(m) - routing * idle * mlp_parameters(m, m.ffn);
}

std::vector<Stage> stages_of(const std::vector<std::uint32_t>& stage_layers) {
  std::vector<Stage> stages;
  stages.reserve(stage_layers.size());
  std::uint32_t first = 0;
  for (const std::uint32_t layers : stage_layers) {
    stages.push_back({layers, false, false, first});
    first += layers;
  }
  if (!stages.empty()) stages.front().first = stages.back().last = true;
  return stages;
}

std::vector<std::uint32_t> even_stage_layers(std::uint32_t layers, std::uint32_t pp) {
  std::vector<std::uint32_t> stage_layers(pp, layers / pp);
  for (std::uint32_t p = 0; p < layers % pp; ++p) ++stage_layers[p];
  return stage_layers;
}

namespace {

/// As if all matrices were divided.
std::uint64_t even_parameters(const ModelShape& m, const Stage& stage, std::uint32_t tp) {
  std::uint64_t parameters = layers_parameters(m, stage.first_layer, stage.layers) / tp;
  if (stage.first) parameters += embedding_parameters(m) / tp;
  if (stage.last) {
    const bool copy = m.tied_embeddings && !stage.first;
    parameters += ((copy ? head_weights(m) : 0) + head_parameters(m) + norm_parameters(m)) / tp;
  }
  return parameters;
}

}  // namespace

std::uint64_t rank_parameters(const ModelShape& m, const Stage& stage, std::uint32_t tp) {
  return even_parameters(m, stage, tp) + stage.layers * (undivided_weights(m) - undivided_weights(m) / tp);
}

RankParameters rank_parameters(const ModelShape& m, const Stage& stage, std::uint32_t tp, std::uint32_t ep) {
  const std::uint64_t all = rank_parameters(m, stage, tp);
  if (ep == 1) return {all, 0};
  std::uint64_t experts = 0;
  for (std::uint32_t l = stage.first_layer; l < stage.first_layer + stage.layers; ++l)
    if (m.routes(m.layer(l))) experts += m.experts * mlp_parameters(m, m.ffn);
  return {all - experts / tp, experts / (tp * ep)};
}

std::uint64_t rank_projection_weights(const ModelShape& m, const Stage& stage, std::uint32_t tp, std::uint32_t ep) {
  std::uint64_t weights = 0;
  for (std::uint32_t l = stage.first_layer; l < stage.first_layer + stage.layers; ++l) {
    const LayerShape& layer = m.layer(l);
    weights += attention_weights(m);
    weights += m.routes(layer) ? m.experts / ep * mlp_weights(m, m.ffn) + mlp_weights(m, m.shared_ffn)
                               : mlp_weights(m, dense_width(m));
  }
  return weights / tp;
}

/// Matrices that every tensor-parallel rank holds, beyond their share of 1 / tp.
Bytes copied_weight_bytes(const ModelShape& m, const Stage& stage, std::uint32_t tp) {
  if (!m.latent) return 0;
  double bytes = 0;
  for (std::uint32_t l = stage.first_layer; l < stage.first_layer + stage.layers; ++l) {
    const std::optional<WeightFormat>& format = m.layer(l).attention;
    bytes += static_cast<double>(undivided_weights(m)) * (format ? format->bytes : bytes_of(m.dtype));
  }
  return static_cast<Bytes>(std::ceil(bytes * (tp - 1) / tp));
}

/// Shared experts that every rank holds, beyond its share of 1 / tp.
Bytes copied_shared_expert_bytes(const ModelShape& m, const Stage& stage, std::uint32_t tp) {
  Formatted shared;
  for (std::uint32_t l = stage.first_layer; l < stage.first_layer + stage.layers; ++l)
    if (m.routes(m.layer(l))) shared.add(m.layer(l).mlp, mlp_weights(m, m.shared_ffn));
  const std::uint64_t others = shared_expert_parameters(m, stage) - shared.parameters;
  const double bytes = static_cast<double>(others) * bytes_of(m.dtype) + shared.bytes;
  return static_cast<Bytes>(std::ceil(bytes * (tp - 1) / tp));
}

Bytes rank_weight_bytes(const ModelShape& m, const Stage& stage, std::uint32_t tp, std::uint32_t ep) {
  Formatted sum, of_experts;
  std::uint64_t experts = 0;
  for (std::uint32_t l = stage.first_layer; l < stage.first_layer + stage.layers; ++l) {
    const LayerShape& layer = m.layer(l);
    add_layer(sum, m, layer);
    if (ep == 1 || !m.routes(layer)) continue;
    experts += m.experts * mlp_parameters(m, m.ffn);
    of_experts.add(layer.experts, m.experts * mlp_weights(m, m.ffn));
  }
  if (stage.last && !m.tied_embeddings) sum.add(m.head, head_weights(m));
  const std::uint64_t parameters = even_parameters(m, stage, tp),
                      formatted = std::min(parameters, sum.parameters / tp);  // each rounded down
  const Bytes all = stored_bytes(parameters - formatted, m.dtype) + static_cast<Bytes>(std::ceil(sum.bytes / tp)) +
                    copied_weight_bytes(m, stage, tp);
  if (ep == 1) return all;
  const double bytes = static_cast<double>(experts - of_experts.parameters) * bytes_of(m.dtype) + of_experts.bytes;
  return all - static_cast<Bytes>(bytes / tp * (ep - 1) / ep) + copied_shared_expert_bytes(m, stage, tp);
}

std::uint64_t shared_expert_parameters(const ModelShape& m, const Stage& stage) {
  std::uint64_t parameters = 0;
  for (std::uint32_t l = stage.first_layer; l < stage.first_layer + stage.layers; ++l)
    if (m.routes(m.layer(l))) parameters += mlp_parameters(m, m.shared_ffn);
  return parameters;
}

Bytes expert_weight_bytes(const ModelShape& m, const Stage& stage) {
  Formatted of_expert;
  std::uint64_t parameters = 0;
  for (std::uint32_t l = stage.first_layer; l < stage.first_layer + stage.layers; ++l) {
    if (!m.routes(m.layer(l))) continue;
    parameters += mlp_parameters(m, m.ffn);
    of_expert.add(m.layer(l).experts, mlp_weights(m, m.ffn));
  }
  return stored_bytes(parameters - of_expert.parameters, m.dtype) + static_cast<Bytes>(std::ceil(of_expert.bytes));
}

std::uint32_t rank_kv_heads(const ModelShape& m, std::uint32_t tp) {
  return static_cast<std::uint32_t>(ceil_div(m.kv_heads, tp));
}

Bytes kv_head_bytes(const ModelShape& m) {
  return stored_bytes(m.latent ? m.latent->cached() : 2ull * m.head_dim, m.kv_dtype);
}

Bytes kv_bytes_per_token_layer(const ModelShape& m, std::uint32_t tp) {
  return rank_kv_heads(m, tp) * kv_head_bytes(m);
}

Bytes kv_bytes_per_token(const ModelShape& m, const Stage& stage, std::uint32_t tp) {
  return stage.layers * kv_bytes_per_token_layer(m, tp);
}

std::uint64_t kept_tokens(const LayerShape& layer, std::uint64_t tokens, std::uint64_t new_tokens) {
  return layer.window == 0 ? tokens : std::min<std::uint64_t>(tokens, layer.window - 1 + new_tokens);
}

Bytes kv_bytes(const ModelShape& m, const Stage& stage, std::uint32_t tp, std::uint64_t tokens,
               std::uint64_t new_tokens) {
  if (m.kind_of.empty())
    return stage.layers * kept_tokens(m.layer(0), tokens, new_tokens) * kv_bytes_per_token_layer(m, tp);
  std::uint64_t kept = 0;
  for (std::uint32_t l = stage.first_layer; l < stage.first_layer + stage.layers; ++l)
    kept += kept_tokens(m.layer(l), tokens, new_tokens);
  return kept * kv_bytes_per_token_layer(m, tp);
}

Bytes hidden_bytes(const ModelShape& m, std::uint64_t tokens) { return stored_bytes(tokens * m.hidden, m.dtype); }

double prefill_flops(const ModelShape& m, std::uint64_t layers, std::uint64_t tokens, std::uint64_t kv_start) {
  double sum = 0;
  for (std::uint32_t l = 0; l < layers; ++l) {
    const LayerShape& layer = m.layer(l);
    const double pairs = gpu::causal_pairs({tokens, kv_start}, layer.window);
    sum += kFlopsPerWeight * static_cast<double>(tokens) * multiplied_weights(m, layer) +
           kFlopsPerPair * pairs * m.heads * (m.head_dim + m.value_dim());
  }
  return sum;
}

double decode_flops(const ModelShape& m, std::uint64_t layers, const std::vector<std::uint64_t>& context) {
  double sum = 0;
  for (const std::uint64_t keys : context) sum += prefill_flops(m, layers, 1, keys - 1);
  return sum;
}

double head_flops(const ModelShape& m, std::uint64_t rows) {
  return kFlopsPerWeight * static_cast<double>(rows) * static_cast<double>(head_weights(m));
}

}  // namespace railyard::transformer
