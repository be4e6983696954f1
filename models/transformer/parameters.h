// What a decoder-only transformer holds: parameters, KV cache and FLOPs, for the whole model and for one rank of a
// tensor-parallel (tp) by pipeline-parallel (pp) grid. Exact integer arithmetic; no device and no time in here.
//
// Symbols: L layers, h hidden, a query heads, g KV heads, d head dimension, f MLP width (of one expert), E experts, V
// vocabulary. A layer holds h(a + 2g)d for the query, key and value projections, a d h for the output projection, 3 h f
// (gated) or 2 h f for the MLP, E times that, the shared experts' and h E for the router of a mixture of experts, and its
// norms' vectors of h (two for most models). Projections and MLP have biases where the model says so. The model adds V h of
// embeddings, the learned positions' rows of h, V h of output head unless tied, and the final norm.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "transformer/model_shape.h"

namespace railyard::transformer {

struct LayerParameters {
  std::uint64_t attention = 0;  ///< projections and their biases
  std::uint64_t mlp = 0;        ///< all experts, and those that every token passes
  std::uint64_t router = 0;
  std::uint64_t norms = 0;
  std::uint64_t total() const { return attention + mlp + router + norms; }
};

/// Of a layer of one of the model's kinds.
LayerParameters layer_parameters(const ModelShape& model, std::uint32_t kind = 0);
/// Of the layers [first, first + layers).
std::uint64_t layers_parameters(const ModelShape& model, std::uint32_t first, std::uint32_t layers);
/// The last layer of the kind that most layers are of; of equally common kinds, the last layer's.
std::uint32_t common_layer(const ModelShape& model);
/// W: the parameters of all decoder layers.
std::uint64_t decoder_parameters(const ModelShape& model);
/// Of tokens and, where they are learned, positions.
std::uint64_t embedding_parameters(const ModelShape& model);
/// The output head's own parameters: 0 where it shares the embeddings'.
std::uint64_t head_parameters(const ModelShape& model);
/// As published: layers, embeddings, head and norms.
std::uint64_t total_parameters(const ModelShape& model);
/// Those that one token touches: the experts it is routed to instead of all.
std::uint64_t active_parameters(const ModelShape& model);

/// One stage of a pipeline.
struct Stage {
  std::uint32_t layers = 0;
  bool first = false;  ///< holds the embeddings
  bool last = false;   ///< holds the final norm and the head (a copy of tied embeddings, unless it is also the first)
  std::uint32_t first_layer = 0;  ///< its number in the model
};

/// The stages of a pipeline from their layer counts.
std::vector<Stage> stages_of(const std::vector<std::uint32_t>& stage_layers);
/// Contiguous and as even as possible; the earlier stages take the remainder. @pre 1 <= pp <= layers
std::vector<std::uint32_t> even_stage_layers(std::uint32_t layers, std::uint32_t pp);

/// Parameters on one rank of a stage: its layers' / tp, plus the embeddings and the head of the stages that hold them,
/// each sharded by tp, in integer division. Copies that a tensor-parallel implementation keeps on every rank (norms, KV
/// projections beyond the KV heads) are counted once over the group.
std::uint64_t rank_parameters(const ModelShape& model, const Stage& stage, std::uint32_t tp);
Bytes rank_weight_bytes(const ModelShape& model, const Stage& stage, std::uint32_t tp);

/// KV heads that one rank holds: its share, rounded up, and never less than one (heads are replicated when tp exceeds
/// them).
std::uint32_t rank_kv_heads(const ModelShape& model, std::uint32_t tp);
/// Keys and values of one token in one layer on one rank.
Bytes kv_bytes_per_token_layer(const ModelShape& model, std::uint32_t tp);
/// The same over a stage's layers, as long as no window is full.
Bytes kv_bytes_per_token(const ModelShape& model, const Stage& stage, std::uint32_t tp);
/// Tokens of a sequence whose KV a layer keeps while its last `new_tokens` run in one pass: the first of them sees its window,
/// the others are behind it.
std::uint64_t kept_tokens(const LayerShape& layer, std::uint64_t tokens, std::uint64_t new_tokens);
/// KV of one sequence of `tokens` over a stage's layers on one rank.
Bytes kv_bytes(const ModelShape& model, const Stage& stage, std::uint32_t tp, std::uint64_t tokens,
               std::uint64_t new_tokens);

/// Activations of `tokens` tokens as they cross a layer or stage boundary, whole (not sharded): the payload of a
/// tensor-parallel all-reduce.
Bytes hidden_bytes(const ModelShape& model, std::uint64_t tokens);

/// FLOPs of the first `layers` layers, over all tensor-parallel ranks, for a chunk of `tokens` after `kv_start` earlier ones:
/// two per parameter multiplied and token, and the causal attention of the chunk against everything before it, or what a
/// layer's window holds of that. Sums over the chunks of a prompt to the whole prompt's.
double prefill_flops(const ModelShape& model, std::uint64_t layers, std::uint64_t tokens, std::uint64_t kv_start);
/// FLOPs of the first `layers` layers for one decode step: a token each for requests with these context lengths.
double decode_flops(const ModelShape& model, std::uint64_t layers, const std::vector<std::uint64_t>& context);
/// FLOPs of the output head for `rows` positions.
double head_flops(const ModelShape& model, std::uint64_t rows);

}  // namespace railyard::transformer
