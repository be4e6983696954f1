#include "transformer/training_flops.h"

#include "gpu/kernels/attention.h"
#include "transformer/parameters.h"

namespace railyard::transformer {

double training_flops(const ModelShape& model, std::uint64_t sequences, std::uint64_t sequence_tokens, CountedKeys keys,
                      Recompute recompute, const Adapters* adapters) {
  constexpr double kFlopsPerWeight = 2;          // multiply and add
  constexpr double kForward = 1, kBackward = 2;  // products for each product of the forward pass
  constexpr double kInputs = 1;                  // of the backward ones: gradients of inputs
  double products = 0, attention = 0;
  for (std::uint32_t l = 0; l < model.layers; ++l) {
    const LayerShape& layer = model.layer(l);
    const gpu::AttentionHeads heads{model.heads,       model.kv_heads, model.head_dim, model.kv_dtype,
                                    model.value_dim(), false,          layer.window};
    products += kFlopsPerWeight * static_cast<double>(sequence_tokens) * multiplied_weights(model, layer);
    attention += gpu::attention_flops(heads, {sequence_tokens, 0}, keys == CountedKeys::causal);
  }
  const double of_weights = kForward + (adapters != nullptr ? kInputs : kBackward);
  double flops = (kForward + kBackward) * attention + of_weights * (products + head_flops(model, sequence_tokens));
  if (adapters != nullptr)
    flops += (kForward + kBackward) * kFlopsPerWeight * static_cast<double>(sequence_tokens) *
             static_cast<double>(adapter_parameters(model, {model.layers, false, false, 0}, *adapters, 1));
  if (recompute == Recompute::full) flops += products;
  if (recompute != Recompute::none) flops += attention;
  return static_cast<double>(sequences) * flops;
}

}  // namespace railyard::transformer
