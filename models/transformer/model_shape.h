// The shape of a decoder-only transformer, as a HuggingFace config.json gives it. Plain data; no SystemC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/data_type.h"

namespace railyard::transformer {

/// How the weights of some matrices are stored, and what they are multiplied in.
struct WeightFormat {
  std::string name;                 ///< for people: "int4, groups of 128"
  double bytes = 2;                 ///< of one weight in memory, with its share of scales and zero points
  DataType dtype = DataType::bf16;  ///< of both operands on the tensor cores
  bool dequantised = false;         ///< weights are widened to dtype inside the product
  bool dynamic = false;             ///< a kernel in front of the product finds the activations' scales and narrows them

  bool operator==(const WeightFormat& o) const {
    return name == o.name && bytes == o.bytes && dtype == o.dtype && dequantised == o.dequantised &&
           dynamic == o.dynamic;
  }
};

/// What may differ between the layers of one model. Formats: none where the model's dtype holds.
struct LayerShape {
  std::uint32_t window = 0;                             ///< keys that a query sees, its own included; 0: all before it
  bool dense = false;                                   ///< in a mixture of experts: a single MLP of dense_ffn instead
  std::optional<WeightFormat> attention, mlp, experts;  ///< mlp: of a dense layer, and of shared experts

  bool operator==(const LayerShape& o) const {
    return window == o.window && dense == o.dense && attention == o.attention && mlp == o.mlp && experts == o.experts;
  }
};

struct ModelShape {
  std::string name;  ///< file stem of the config
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t ffn = 0;      ///< per expert for a mixture of experts
  std::uint32_t experts = 0;  ///< 0: dense
  std::uint32_t experts_per_token = 0;
  std::uint32_t vocab = 0;
  std::uint32_t dense_ffn = 0;   ///< of the dense layers of a mixture of experts
  std::uint32_t shared_ffn = 0;  ///< of the experts that every token passes, together; 0: none
  bool shared_gate = false;      ///< Qwen2-MoE: a vector weighs the shared experts
  bool gated_mlp = true;         ///< SwiGLU, GeGLU: three matrices instead of two
  bool tied_embeddings = false;
  bool qkv_bias = false;     ///< query, key and value projections carry a bias
  bool output_bias = false;  ///< the attention's output projection does
  bool mlp_bias = false;     ///< the matrices of the MLP, or of each expert, do
  bool router_bias = false;
  bool head_bias = false;   ///< the output head does
  std::uint32_t norms = 2;  ///< of a layer: 1 where attention and MLP share one, 4 where both are normed behind as well
  std::uint32_t norm_vectors = 1;  ///< of each norm: 2 with LayerNorm's bias, 0 where nothing is learned
  std::uint32_t qk_norm = 0;       ///< weights of a layer's norms of queries and keys; 0: none
  std::uint32_t positions = 0;     ///< rows of learned position embeddings; 0: none
  bool rotary = true;
  bool embedding_norm = false;      ///< BLOOM: a norm behind the embeddings
  bool sinks = false;               ///< gpt-oss: a learned score for each query head
  DataType dtype = DataType::bf16;  ///< of activations, and of weights that have no format of their own
  DataType kv_dtype = DataType::bf16;
  std::optional<WeightFormat> head;             ///< of the output head; none: dtype
  std::vector<LayerShape> kinds{LayerShape()};  ///< of layers; most models have one
  std::vector<std::uint8_t> kind_of;            ///< by layer; empty: all of the first kind

  std::uint32_t kind(std::uint32_t layer) const { return kind_of.empty() ? 0 : kind_of[layer]; }
  const LayerShape& layer(std::uint32_t number) const { return kinds[kind(number)]; }
  bool routes(const LayerShape& kind) const { return experts > 0 && !kind.dense; }
};

}  // namespace railyard::transformer
