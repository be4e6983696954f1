#include "transformer/training_flops.h"

#include "gpu/kernels/attention.h"
#include "transformer/parameters.h"

namespace railyard::transformer {

double training_flops(const ModelShape& model, std::uint64_t sequences, std::uint64_t sequence_tokens, CountedKeys keys,
                      Recompute recompute) {
  constexpr double kFlopsPerWeight = 2;          // multiply and add
  constexpr double kForward = 1, kBackward = 2;  // products for each product of the forward pass
  double products = 0, attention = 0;
  for (std::uint32_t l = 0; l < model.layers; ++l) {
    const LayerShape& layer = model.layer(l);
    const gpu::AttentionHeads heads{model.heads,       model.kv_heads, model.head_dim, model.kv_dtype,
                                    model.value_dim(), false,          layer.window};
    products += kFlopsPerWeight * static_cast<double>(sequence_tokens) * multiplied_weights(model, layer);
    attention += gpu::attention_flops(heads, {sequence_tokens, 0}, keys == CountedKeys::causal);
  }
  double flops = (kForward + kBackward) * (products + attention + head_flops(model, sequence_tokens));
  if (recompute == Recompute::full) flops += products;
  if (recompute != Recompute::none) flops += attention;
  return static_cast<double>(sequences) * flops;
}

}  // namespace railyard::transformer
