// The MLP of a mixture of experts on expert-parallel ranks: each of ep ranks has other tokens, and experts / ep of the
// experts. Tokens travel to their experts and back in all-to-alls of k copies of a token (Megatron-LM,
// MoEAlltoAllTokenDispatcher). Each expert gets an even share of the copies, or its own (routing.h).
//
//   forward    router, permute, all-to-all, [all-gather], products of the rank's experts, [reduce-scatter], all-to-all,
//              combine
//   backward   combine, all-to-all, [all-gather], products, [reduce-scatter], all-to-all, permute, router
//
// In brackets: tensor-parallel ranks, which need sequence parallelism here. Each of them routes its own tokens and has
// a part of the width of each expert; or whole experts (LayerSplit::whole_experts), and sends its tokens to the experts of
// all, without what is in brackets. With DeepEP (TokenDispatch) permutations are on the ranks with the experts:
//
//   forward    router, choices, numbers of tokens, dispatch, permute, products, combine rows, combine
//   backward   dispatch, combine rows, products, permute, combine, choices, router
//
// Shared experts run before the router, between a gather and a reduce-scatter of
// their own.
#pragma once

#include "transformer/step_list.h"

namespace railyard::transformer {

/// Of even routing: a rank's experts get as many tokens' copies.
std::uint64_t expert_tokens(const StepList& steps);
/// Router and permutation. If the host waits for the numbers of copies, the ranks tell them each other first.
void add_routing_steps(StepList& steps, LayerTimer& timer, const ModelShape& model, std::uint64_t tokens);
/// Between the norm and the next part. @param timer  null: only the collectives
void add_expert_steps(StepList& steps, LayerTimer* timer, const ModelShape& model, std::uint32_t kind);
void add_expert_steps_backward(StepList& steps, LayerTimer& timer, const ModelShape& model, Direction direction);

}  // namespace railyard::transformer
