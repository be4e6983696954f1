#include "transformer/linears.h"

#include <iterator>

namespace railyard::transformer {

namespace {

// By Linear and Product.
constexpr const char* kKernelNames[][3]{{"qkv", "qkv_dgrad", "qkv_wgrad"},
                                        {"o_proj", "o_proj_dgrad", "o_proj_wgrad"},
                                        {"gate_up", "gate_up_dgrad", "gate_up_wgrad"},
                                        {"down", "down_dgrad", "down_wgrad"},
                                        {"gate_up", "gate_up_dgrad", "gate_up_wgrad"},
                                        {"down", "down_dgrad", "down_wgrad"},
                                        {"q_down", "q_down_dgrad", "q_down_wgrad"},
                                        {"q_up", "q_up_dgrad", "q_up_wgrad"},
                                        {"kv_down", "kv_down_dgrad", "kv_down_wgrad"},
                                        {"kv_up", "kv_up_dgrad", "kv_up_wgrad"},
                                        {"embedding", "embedding_dgrad", "embedding_wgrad"},
                                        {"lm_head", "lm_head_dgrad", "lm_head_wgrad"}};
static_assert(std::size(kKernelNames) == kLinearNames.size());

/// Whether a stage owns the matrix of the head. Tied embeddings are the head's matrix on the only stage.
bool owns_head(const ModelShape& model, const Stage& stage) {
  return stage.last && !(model.tied_embeddings && stage.first);
}

std::uint64_t elements(const ModelShape& model, const Stage& stage, std::uint32_t tp, std::uint32_t ep) {
  std::uint64_t sum = 0;
  for (const auto& [linear, kind] : linears_of(model, stage))
    if (linear != Linear::head || owns_head(model, stage)) sum += matrix_of(model, linear, tp, kind, ep).elements();
  return sum;
}

/// Width of the MLP that is not divided into routed experts.
std::uint64_t dense_width(const ModelShape& m, std::uint32_t kind) {
  if (m.experts == 0) return m.ffn;
  return m.routes(m.kinds[kind]) ? m.shared_ffn : m.dense_ffn;
}

}  // namespace

const char* kernel_name(const LinearUse& use) {
  return kKernelNames[static_cast<std::size_t>(use.linear)][static_cast<std::size_t>(use.product)];
}

Matrix matrix_of(const ModelShape& m, Linear linear, std::uint32_t tp, std::uint32_t kind, std::uint32_t ep) {
  const std::uint64_t heads = m.heads / tp, attended = heads * m.value_dim(), projections = m.gated_mlp ? 2 : 1;
  const std::uint64_t ffn = ceil_div(dense_width(m, kind), std::uint64_t(tp)), expert_ffn = ceil_div(m.ffn, tp);
  switch (linear) {
    case Linear::qkv: return {heads * m.head_dim + 2ull * rank_kv_heads(m, tp) * m.head_dim, m.hidden};
    case Linear::proj: return {m.hidden, attended};
    case Linear::fc1: return {projections * ffn, m.hidden};
    case Linear::fc2: return {m.hidden, ffn};
    case Linear::experts_fc1: return {projections * expert_ffn, m.hidden, m.experts / ep};
    case Linear::experts_fc2: return {m.hidden, expert_ffn, m.experts / ep};
    case Linear::q_down: return {m.latent->query_rank, m.hidden};
    case Linear::q_up: return {heads * m.head_dim, m.latent->query_rank > 0 ? m.latent->query_rank : m.hidden};
    case Linear::kv_down: return {m.latent->cached(), m.hidden};
    case Linear::kv_up: return {heads * (m.latent->nope_dim + m.latent->value_dim), m.latent->kv_rank};
    case Linear::embedding:
    case Linear::head: return {ceil_div(m.vocab, tp), m.hidden};
  }
  return {};
}

Matrix shard_of(const Matrix& matrix, std::uint32_t ranks, std::uint64_t rows) {
  return {ceil_div(ceil_div(matrix.rows, ranks), rows) * rows, matrix.columns, matrix.count};
}

std::vector<Linear> attention_linears(const ModelShape& model) {
  if (!model.latent) return {Linear::qkv, Linear::proj};
  std::vector<Linear> linears{Linear::q_up, Linear::kv_down, Linear::kv_up, Linear::proj};
  if (model.latent->query_rank > 0) linears.insert(linears.begin(), Linear::q_down);
  return linears;
}

std::vector<Linear> layer_linears(const ModelShape& model, std::uint32_t kind) {
  std::vector<Linear> linears = attention_linears(model);
  if (dense_width(model, kind) > 0) linears.insert(linears.end(), {Linear::fc1, Linear::fc2});
  if (model.routes(model.kinds[kind])) linears.insert(linears.end(), {Linear::experts_fc1, Linear::experts_fc2});
  return linears;
}

std::vector<StageLinear> linears_of(const ModelShape& model, const Stage& stage) {
  std::vector<StageLinear> linears;
  if (stage.first) linears.push_back({Linear::embedding});
  for (std::uint32_t l = stage.first_layer; l < stage.first_layer + stage.layers; ++l)
    for (const Linear linear : layer_linears(model, model.kind(l))) linears.push_back({linear, model.kind(l)});
  if (stage.last) linears.push_back({Linear::head});
  return linears;
}

DividedParameters divided_parameters(const ModelShape& model, const Stage& stage, std::uint32_t tp, std::uint32_t ep,
                                     const Division& division) {
  DividedParameters parameters;
  for (const auto& [linear, kind] : linears_of(model, stage)) {
    if (linear == Linear::head && !owns_head(model, stage)) continue;
    const Matrix shard = division.shard(matrix_of(model, linear, tp, kind, ep), linear);
    (is_of_experts(linear) ? parameters.experts : parameters.shards) += shard.elements();
  }
  // All that is no matrix. As in rank_parameters(), copies on tensor-parallel ranks are counted once over the group.
  parameters.whole = (rank_parameters(model, stage, 1, ep).total() - elements(model, stage, 1, ep)) / tp;
  return parameters;
}

std::uint64_t divided_projection_weights(const ModelShape& model, const Stage& stage, std::uint32_t tp,
                                         std::uint32_t ep, const Division& division) {
  const std::uint64_t all = rank_projection_weights(model, stage, tp, ep);
  std::uint64_t experts = 0;
  for (const auto& [linear, kind] : linears_of(model, stage))
    if (is_of_experts(linear)) experts += matrix_of(model, linear, tp, kind, ep).elements();
  return ceil_div(all - experts, std::uint64_t(division.ranks)) +
         ceil_div(experts, std::uint64_t(division.expert_ranks));
}

}  // namespace railyard::transformer
