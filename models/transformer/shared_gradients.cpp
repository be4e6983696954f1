#include "transformer/shared_gradients.h"

#include "base/units.h"

namespace railyard::transformer {

std::uint64_t shared_gradients(const ModelShape& m, const Stage& stage, bool sequence_parallel) {
  // Norms of compressed vectors see all tokens, and gradients that have been summed.
  if (!sequence_parallel) return m.latent ? 0 : stage.layers * m.qk_norm;
  std::uint64_t parameters = stage.last ? std::uint64_t(m.norm_vectors) * m.hidden : 0;
  for (std::uint32_t l = stage.first_layer; l < stage.first_layer + stage.layers; ++l) {
    const LayerParameters layer = layer_parameters(m, m.kind(l));
    const bool has_dense_bias = m.mlp_bias && !m.routes(m.layer(l));
    parameters += layer.norms + layer.router + undivided_weights(m) +
                  ((m.output_bias ? 1 : 0) + (has_dense_bias ? 1 : 0)) * m.hidden;
  }
  return parameters;
}

std::uint64_t tied_gradients(const ModelShape& m, std::uint32_t tp) {
  return ceil_div(std::uint64_t(m.vocab) * m.hidden, std::uint64_t(tp));
}

}  // namespace railyard::transformer
