#include "transformer/linears.h"

#include <algorithm>

namespace railyard::transformer {

namespace {

struct KernelName {
  std::string_view kernel;
  Linear linear;
};
constexpr std::array<KernelName, 6> kKernels{{{"qkv", Linear::qkv},
                                              {"o_proj", Linear::proj},
                                              {"gate_up", Linear::fc1},
                                              {"down", Linear::fc2},
                                              {"embedding", Linear::embedding},
                                              {"lm_head", Linear::head}}};

/// Whether a stage owns the matrix of the head. Tied embeddings are the head's matrix on the only stage.
bool owns_head(const ModelShape& model, const Stage& stage) {
  return stage.last && !(model.tied_embeddings && stage.first);
}

std::uint64_t elements(const ModelShape& model, const Stage& stage, std::uint32_t tp) {
  std::uint64_t sum = 0;
  for (const Linear linear : linears_of(stage))
    if (linear != Linear::head || owns_head(model, stage)) sum += matrix_of(model, linear, tp).elements();
  return sum;
}

}  // namespace

std::optional<LinearUse> linear_use(std::string_view kernel) {
  for (const KernelName& name : kKernels) {
    if (kernel.substr(0, name.kernel.size()) != name.kernel) continue;
    const std::string_view rest = kernel.substr(name.kernel.size());
    if (rest.empty()) return LinearUse{name.linear, Product::fprop};
    if (rest == "_dgrad") return LinearUse{name.linear, Product::dgrad};
    if (rest == "_wgrad") return LinearUse{name.linear, Product::wgrad};
  }
  return {};
}

Matrix matrix_of(const ModelShape& m, Linear linear, std::uint32_t tp) {
  const std::uint64_t attended = std::uint64_t(m.heads / tp) * m.head_dim, ffn = ceil_div(m.ffn, tp);
  switch (linear) {
    case Linear::qkv: return {attended + 2ull * rank_kv_heads(m, tp) * m.head_dim, m.hidden};
    case Linear::proj: return {m.hidden, attended};
    case Linear::fc1: return {(m.gated_mlp ? 2 : 1) * ffn, m.hidden};
    case Linear::fc2: return {m.hidden, ffn};
    case Linear::embedding:
    case Linear::head: return {ceil_div(m.vocab, tp), m.hidden};
  }
  return {};
}

Matrix shard_of(const Matrix& matrix, std::uint32_t ranks, std::uint64_t rows) {
  return {ceil_div(ceil_div(matrix.rows, ranks), rows) * rows, matrix.columns};
}

std::vector<Linear> linears_of(const Stage& stage) {
  std::vector<Linear> linears;
  if (stage.first) linears.push_back(Linear::embedding);
  for (std::uint32_t l = 0; l < stage.layers; ++l)
    linears.insert(linears.end(), kLayerLinears.begin(), kLayerLinears.end());
  if (stage.last) linears.push_back(Linear::head);
  return linears;
}

DividedParameters divided_parameters(const ModelShape& model, const Stage& stage, std::uint32_t tp, std::uint32_t ranks,
                                     std::uint64_t rows) {
  DividedParameters parameters;
  for (const Linear linear : linears_of(stage))
    if (linear != Linear::head || owns_head(model, stage))
      parameters.shards += shard_of(matrix_of(model, linear, tp), ranks, rows).elements();
  // All that is no matrix. As in rank_parameters(), copies on tensor-parallel ranks are counted once over the group.
  parameters.whole = (rank_parameters(model, stage, 1) - elements(model, stage, 1)) / tp;
  return parameters;
}

Bytes held_bytes(const std::vector<GatheredMatrix>& chain, std::uint32_t ahead) {
  std::vector<std::pair<GatheredMatrix, std::uint64_t>> buffers;  // most that are held together
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const auto begin = chain.begin() + static_cast<std::ptrdiff_t>(i);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min<std::size_t>(ahead + 1, chain.size() - i));
    const auto together = static_cast<std::uint64_t>(std::count(begin, end, chain[i]));
    const auto same =
        std::find_if(buffers.begin(), buffers.end(), [&](const auto& buffer) { return buffer.first == chain[i]; });
    if (same == buffers.end())
      buffers.emplace_back(chain[i], together);
    else
      same->second = std::max(same->second, together);
  }
  Bytes sum = 0;
  for (const auto& [gathered, count] : buffers) sum += count * stored_bytes(gathered.matrix.elements(), gathered.type);
  return sum;
}

}  // namespace railyard::transformer
