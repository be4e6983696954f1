// Parameters, KV cache and FLOPs of a decoder-only transformer, for the whole model and for one rank of a
// tensor-parallel (tp) by pipeline-parallel (pp) grid. Exact integer arithmetic, without devices and times.
//
// Symbols: L layers, h hidden, a query heads, g KV heads, d head dimension, f MLP width (of one expert), E experts, V
// vocabulary. Parameters of a layer: h(a + 2g)d for the query, key and value projections; a d h for the output
// projection (latent attention has other matrices: linears.h); 3 h f (gated) or 2 h f for the MLP; for a mixture of experts, E times the MLP, the shared experts, and h
// E for the router; and norm vectors of h (two in most models). Projections and MLP have biases in some models. The
// model adds V h for embeddings, rows of h for learned positions, V h for the output head unless it is tied, and the
// final norm.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "transformer/model_shape.h"

namespace railyard::transformer {

struct LayerParameters {
  std::uint64_t attention = 0;  ///< projections and their biases
  std::uint64_t mlp = 0;        ///< all experts, including shared experts
  std::uint64_t router = 0;
  std::uint64_t norms = 0;
  std::uint64_t total() const { return attention + mlp + router + norms; }
};

/// Parameters of a layer of one kind.
LayerParameters layer_parameters(const ModelShape& model, std::uint32_t kind = 0);
/// Weights of a layer by which the numbers of one token are multiplied: only the experts to which it is routed.
double multiplied_weights(const ModelShape& model, const LayerShape& layer);
/// Parameters of the layers [first, first + layers).
std::uint64_t layers_parameters(const ModelShape& model, std::uint32_t first, std::uint32_t layers);
/// The last layer of the most common kind; if kinds are equally common, of the kind of the last layer.
std::uint32_t common_layer(const ModelShape& model);
/// W: the parameters of all decoder layers.
std::uint64_t decoder_parameters(const ModelShape& model);
/// Embeddings of tokens and of learned positions.
std::uint64_t embedding_parameters(const ModelShape& model);
/// Parameters of the output head; 0 if it shares those of the embeddings.
std::uint64_t head_parameters(const ModelShape& model);
/// As published: layers, embeddings, head and norms.
std::uint64_t total_parameters(const ModelShape& model);
/// Parameters that one token uses: only the experts to which it is routed.
std::uint64_t active_parameters(const ModelShape& model);

/// One stage of a pipeline.
struct Stage {
  std::uint32_t layers = 0;
  bool first = false;  ///< holds the embeddings
  bool last = false;   ///< holds the final norm and the head (a copy of tied embeddings, unless it is also the first)
  std::uint32_t first_layer = 0;  ///< number of the first layer in the model
};

/// The stages of a pipeline from their layer counts.
std::vector<Stage> stages_of(const std::vector<std::uint32_t>& stage_layers);
/// Divides layers as evenly as possible; earlier stages take the remainder. @pre 1 <= pp <= layers
std::vector<std::uint32_t> even_stage_layers(std::uint32_t layers, std::uint32_t pp);

/// Parameters on one rank of a stage: those of its layers / tp, plus embeddings and head on the stages that hold them,
/// also sharded by tp, with integer division. Parameters that an implementation copies to every rank (norms, KV
/// projections if tp exceeds the KV heads) are counted once over the group.
std::uint64_t rank_parameters(const ModelShape& model, const Stage& stage, std::uint32_t tp);
/// Of a layer's attention: weights of matrices that tensor parallelism does not divide.
std::uint64_t undivided_weights(const ModelShape& model);
/// The same on expert-parallel ranks, by the ranks that hold the same parameters.
struct RankParameters {
  std::uint64_t common = 0;   ///< the same on all ep ranks
  std::uint64_t experts = 0;  ///< of the rank's share of the experts; 0 if ep = 1: all are common
  std::uint64_t total() const { return common + experts; }
};
RankParameters rank_parameters(const ModelShape& model, const Stage& stage, std::uint32_t tp, std::uint32_t ep);
/// Of the parameters of a rank: weights of qkv, output projections and MLPs. @pre ep divides the experts
std::uint64_t rank_projection_weights(const ModelShape& model, const Stage& stage, std::uint32_t tp, std::uint32_t ep);
/// With the whole of q_down and kv_down.
/// @param ep  attention replicas: whole experts are dealt to the ranks of all, and each rank has the shared experts whole
Bytes rank_weight_bytes(const ModelShape& model, const Stage& stage, std::uint32_t tp, std::uint32_t ep = 1);
/// Of the shared experts of all layers of the stage.
std::uint64_t shared_expert_parameters(const ModelShape& model, const Stage& stage);
/// Of one whole routed expert of each layer of the stage that has experts.
Bytes expert_weight_bytes(const ModelShape& model, const Stage& stage);

/// KV heads on one rank: its share, rounded up, and at least one (heads are replicated if tp exceeds their number).
std::uint32_t rank_kv_heads(const ModelShape& model, std::uint32_t tp);
/// What the cache keeps of a KV head (latent attention: of the vector for all heads) for one token in one layer.
Bytes kv_head_bytes(const ModelShape& model);
/// Keys and values of one token in one layer on one rank.
Bytes kv_bytes_per_token_layer(const ModelShape& model, std::uint32_t tp);
/// The same for all layers of a stage, as long as no window is full.
Bytes kv_bytes_per_token(const ModelShape& model, const Stage& stage, std::uint32_t tp);
/// Tokens of a sequence whose KV a layer keeps while the last `new_tokens` run in one pass: the window of the first new
/// token, and all tokens after it.
std::uint64_t kept_tokens(const LayerShape& layer, std::uint64_t tokens, std::uint64_t new_tokens);
/// KV of one sequence of `tokens` tokens for all layers of a stage on one rank.
Bytes kv_bytes(const ModelShape& model, const Stage& stage, std::uint32_t tp, std::uint64_t tokens,
               std::uint64_t new_tokens);

/// Activations of `tokens` tokens at a layer or stage boundary, complete (not sharded): the payload of a
/// tensor-parallel all-reduce.
Bytes hidden_bytes(const ModelShape& model, std::uint64_t tokens);

/// FLOPs of the first `layers` layers, over all tensor-parallel ranks, for a chunk of `tokens` tokens after `kv_start`
/// earlier tokens: two per token and multiplied parameter, plus the causal attention of the chunk (within the window,
/// if a layer has one). The FLOPs of all chunks of a prompt sum to those of the whole prompt.
double prefill_flops(const ModelShape& model, std::uint64_t layers, std::uint64_t tokens, std::uint64_t kv_start);
/// FLOPs of the first `layers` layers for one decode step: one token for each context length.
double decode_flops(const ModelShape& model, std::uint64_t layers, const std::vector<std::uint64_t>& context);
/// FLOPs of the output head for `rows` positions.
double head_flops(const ModelShape& model, std::uint64_t rows);

}  // namespace railyard::transformer
