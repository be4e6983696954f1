// The shapes of five published models, as their HuggingFace config.json files give them.
#pragma once

#include "workload/model_shape.h"

namespace railyard::test {

inline workload::ModelShape dense_model(const char* name, std::uint32_t layers, std::uint32_t hidden,
                                        std::uint32_t heads, std::uint32_t ffn, std::uint32_t vocab) {
  workload::ModelShape m;
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

inline workload::ModelShape llama_8b() { return dense_model("llama-3.1-8b", 32, 4096, 32, 14336, 128256); }
inline workload::ModelShape llama_70b() { return dense_model("llama-3.1-70b", 80, 8192, 64, 28672, 128256); }
inline workload::ModelShape llama_405b() { return dense_model("llama-3.1-405b", 126, 16384, 128, 53248, 128256); }
inline workload::ModelShape qwen_72b() {
  workload::ModelShape m = dense_model("qwen2.5-72b", 80, 8192, 64, 29568, 152064);
  m.qkv_bias = true;
  return m;
}
inline workload::ModelShape mixtral_8x7b() {
  workload::ModelShape m = dense_model("mixtral-8x7b", 32, 4096, 32, 14336, 32000);
  m.experts = 8;
  m.experts_per_token = 2;
  return m;
}

}  // namespace railyard::test
