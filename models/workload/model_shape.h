// The shape of a decoder-only transformer, as a HuggingFace config.json gives it. Plain data; no SystemC.
#pragma once

#include <cstdint>
#include <string>

#include "base/data_type.h"

namespace railyard::workload {

struct ModelShape {
  std::string name;             ///< file stem of the config
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t ffn = 0;        ///< per expert for a mixture of experts
  std::uint32_t experts = 0;    ///< 0: dense
  std::uint32_t experts_per_token = 0;
  std::uint32_t vocab = 0;
  bool gated_mlp = true;        ///< SwiGLU: three matrices instead of two
  bool tied_embeddings = false;
  bool qkv_bias = false;        ///< Qwen2: query, key and value projections carry a bias
  DataType dtype = DataType::bf16;     ///< weights and activations
  DataType kv_dtype = DataType::bf16;
};

}  // namespace railyard::workload
