// The shapes of five published models, as their HuggingFace config.json files give them.
#pragma once

#include "transformer/layer_kernels.h"
#include "transformer/model_shape.h"

namespace railyard::test {

inline transformer::ModelShape dense_model(const char* name, std::uint32_t layers, std::uint32_t hidden,
                                           std::uint32_t heads, std::uint32_t ffn, std::uint32_t vocab) {
  transformer::ModelShape m;
  m.name = name;
  m.layers = layers;
  m.hidden = hidden;
  m.heads = heads;
  m.kv_heads = 8;
  m.head_dim = 128;
  m.ffn = ffn;
  m.vocab = vocab;
  return m;
}

inline transformer::ModelShape llama_8b() { return dense_model("llama-3.1-8b", 32, 4096, 32, 14336, 128256); }
inline transformer::ModelShape llama_70b() { return dense_model("llama-3.1-70b", 80, 8192, 64, 28672, 128256); }
inline transformer::ModelShape llama_405b() { return dense_model("llama-3.1-405b", 126, 16384, 128, 53248, 128256); }
inline transformer::ModelShape qwen_72b() {
  transformer::ModelShape m = dense_model("qwen2.5-72b", 80, 8192, 64, 29568, 152064);
  m.qkv_bias = true;
  return m;
}
inline transformer::ModelShape mixtral_8x7b() {
  transformer::ModelShape m = dense_model("mixtral-8x7b", 32, 4096, 32, 14336, 32000);
  m.experts = 8;
  m.experts_per_token = 2;
  return m;
}

/// The kernels of one part of a layer, its norms included.
inline transformer::Segment part_of(transformer::LayerTimer& timer, transformer::LayerPart part,
                                    const transformer::LayerPass& pass) {
  transformer::Segment segment = timer.norm(part, pass.dense_tokens());
  segment.append(part == transformer::LayerPart::mlp ? timer.mlp_body(pass.dense_tokens(), pass.kind)
                                                     : timer.attention_body(pass));
  return segment;
}
inline transformer::Segment prefill_attention(transformer::LayerTimer& timer, std::uint64_t tokens,
                                              std::uint64_t kv_start) {
  return part_of(timer, transformer::LayerPart::attention, {{{tokens, kv_start}}, {}, 0});
}
inline transformer::Segment decode_attention(transformer::LayerTimer& timer,
                                             const std::vector<std::uint64_t>& context) {
  return part_of(timer, transformer::LayerPart::attention, {{}, gpu::one_token_each(context), 0});
}
inline transformer::Segment mlp(transformer::LayerTimer& timer, std::uint64_t tokens) {
  return part_of(timer, transformer::LayerPart::mlp, {{{tokens, 0}}, {}, 0});
}

}  // namespace railyard::test
