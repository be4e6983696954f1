// The shape of a decoder-only transformer, as in a HuggingFace config.json. Plain data; no SystemC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/data_type.h"

namespace railyard::transformer {

/// Storage of the weights of some matrices, and the data type of their products.
struct WeightFormat {
  std::string name;                 ///< for people: "int4, groups of 128"
  double bytes = 2;                 ///< bytes per weight in memory, including its share of scales and zero points
  DataType dtype = DataType::bf16;  ///< type of both operands on the tensor cores
  bool dequantised = false;         ///< weights are widened to dtype inside the product
  bool dynamic = false;             ///< a kernel before the product finds the scales of activations and narrows them
  bool blocks_of_128 = false;       ///< a scale for each block of 128 x 128 weights

  bool operator==(const WeightFormat& o) const {
    return name == o.name && bytes == o.bytes && dtype == o.dtype && dequantised == o.dequantised &&
           dynamic == o.dynamic && blocks_of_128 == o.blocks_of_128;
  }
};

/// Properties that may differ between the layers of a model. Without a format, weights have the model's dtype.
struct LayerShape {
  std::uint32_t window = 0;  ///< keys that a query sees, including its own; 0: all earlier keys
  bool dense = false;        ///< mixture of experts: this layer has one MLP of dense_ffn
  std::optional<WeightFormat> attention, mlp, experts;  ///< mlp: dense layers and shared experts

  bool operator==(const LayerShape& o) const {
    return window == o.window && dense == o.dense && attention == o.attention && mlp == o.mlp && experts == o.experts;
  }
};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values of all heads come from one short vector
/// for each token, which is what the KV cache keeps, beside a key part with rotary positions that all heads share.
struct LatentAttention {
  std::uint32_t query_rank = 0;  ///< width of the compressed queries; 0: queries are not compressed
  std::uint32_t kv_rank = 0;     ///< width of the compressed keys and values
  std::uint32_t nope_dim = 0;    ///< of a head's queries and keys, without positions
  std::uint32_t rope_dim = 0;    ///< of a head's queries and keys, with rotary positions
  std::uint32_t value_dim = 0;   ///< of a head's values

  std::uint32_t query_dim() const { return nope_dim + rope_dim; }
  /// Numbers of a token in the KV cache of a layer, one copy for all heads.
  std::uint32_t cached() const { return kv_rank + rope_dim; }
};

/// How the router of a mixture scores and chooses experts.
struct RouterForm {
  bool sigmoid = false;  ///< scores are sigmoids, divided by their sum; otherwise softmax
  bool bias = false;     ///< of each expert, added for the choice (DeepSeek-V3, topk_method noaux_tc)
  // Of sigmoid scores.
  bool scaled = false;       ///< weights are multiplied by a factor
  std::uint32_t groups = 1;  ///< of experts, some of which are chosen first
};

struct ModelShape {
  std::string name;  ///< in outputs; by default the file stem of the config
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;  ///< of queries and keys
  /// With it, kv_heads is 1: a tensor-parallel rank has all that the cache keeps. head_dim is its query_dim().
  std::optional<LatentAttention> latent;
  std::uint32_t ffn = 0;      ///< per expert for a mixture of experts
  std::uint32_t experts = 0;  ///< 0: dense
  std::uint32_t experts_per_token = 0;
  std::uint32_t vocab = 0;
  std::uint32_t dense_ffn = 0;   ///< width of the dense layers of a mixture of experts
  std::uint32_t shared_ffn = 0;  ///< total width of the shared experts, which every token passes; 0: none
  bool shared_gate = false;      ///< Qwen2-MoE: a vector weighs the shared experts
  bool gated_mlp = true;         ///< SwiGLU, GeGLU: three matrices instead of two
  bool tied_embeddings = false;
  bool qkv_bias = false;     ///< bias of the query, key and value projections
  bool output_bias = false;  ///< bias of the attention's output projection
  bool mlp_bias = false;     ///< bias of the matrices of the MLP, or of each expert
  bool router_bias = false;
  RouterForm router;
  bool head_bias = false;   ///< bias of the output head
  std::uint32_t norms = 2;  ///< per layer: 1 if attention and MLP share a norm, 4 if both also have a norm after them
  std::uint32_t norm_vectors = 1;  ///< per norm: 2 with LayerNorm's bias, 0 if nothing is learned
  std::uint32_t qk_norm = 0;       ///< number of weights in a layer's norms of queries and keys (latent: of their
                                   ///< compressed vectors); 0: none
  std::uint32_t positions = 0;     ///< rows of learned position embeddings; 0: none
  bool rotary = true;
  bool embedding_norm = false;      ///< BLOOM: a norm after the embeddings
  bool sinks = false;               ///< gpt-oss: a learned score for each query head
  DataType dtype = DataType::bf16;  ///< activations, and weights without a format
  DataType kv_dtype = DataType::bf16;
  std::optional<WeightFormat> head;             ///< format of the output head; none: dtype
  std::vector<LayerShape> kinds{LayerShape()};  ///< kinds of layers; most models have one
  std::vector<std::uint8_t> kind_of;            ///< by layer; empty: all layers have the first kind

  std::uint32_t kind(std::uint32_t layer) const { return kind_of.empty() ? 0 : kind_of[layer]; }
  const LayerShape& layer(std::uint32_t number) const { return kinds[kind(number)]; }
  bool routes(const LayerShape& kind) const { return experts > 0 && !kind.dense; }
  /// Width of a head's values.
  std::uint32_t value_dim() const { return latent ? latent->value_dim : head_dim; }
};

}  // namespace railyard::transformer
