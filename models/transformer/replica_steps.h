// Experts that attention replicas share (data-parallel attention in serving). Each replica has its own tokens, routes them and
// runs the shared experts; whole experts are dealt to the ranks of all replicas. With T tokens of a replica, k experts of a token:
//
//   allgather_reducescatter  every rank gets the tokens of all replicas and the scores of the router, and the results are added
//                            on the way back (vLLM, all2all_backend allgather_reducescatter, its default)
//   all_to_all               a message of T k tokens, equally many to each rank, and the same back (NCCL)
//   deepep_low_latency       the same bytes by token and expert: 16 bytes and, of experts with scales of 128, 8-bit numbers with
//                            their scales; 16-bit results (deepseek-ai/DeepEP, csrc/kernels/internode_ll.cu). Its SMs are not taken
//
// With skewed routing the last two last as long as those of the fullest rank.
#pragma once

#include "transformer/step_list.h"

namespace railyard::transformer {

/// Bytes of a replica's tokens to all ranks, as nccl-tests counts. @param tokens  of a replica
Bytes dispatch_bytes(const ModelShape& model, std::uint32_t kind, ExpertExchange exchange, std::uint64_t tokens);
Bytes combine_bytes(const ModelShape& model, std::uint64_t tokens);

/// @param timer  null: only the collectives  @pre the kind of layer routes; tp is 1
void add_replica_expert_steps(StepList& steps, LayerTimer* timer, const ModelShape& model, const LayerPass& pass);

}  // namespace railyard::transformer
