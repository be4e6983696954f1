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
//
// The tp ranks of a replica share its attention. Each of them then routes ceil(T / tp) of the tokens, which stand for T above,
// and has the shared experts whole; an all-gather over the replica follows, which brings all tokens to the next attention:
//
//   all_reduce      attention, all-reduce, norm of T tokens, router ... experts, combine, all-gather
//                   (vLLM, use_sequence_parallel_moe: model_executor/models/deepseek_v2.py, config/parallel.py)
//   reduce_scatter  attention, reduce-scatter, norm of ceil(T / tp) tokens, and so on
//                   (SGLang, layers/communicator.py, _scatter_hidden_states_and_residual, and layers/dp_attention.py)
//
// Two micro-batches of a pass take turns on the SMs, while the messages of an exchange of the other one are under way. Shared
// experts are then beside an exchange:
//
//   at_exchanges  attention, norm, router | dispatch; experts | combine beside shared experts. The other micro-batch has its
//                 turn at each bar (vLLM, --enable-dbo: model_executor/layers/fused_moe/modular_kernel.py, dbo_yield() after
//                 prepare_async() and after finalize_async() with the shared experts; v1/worker/ubatching.py)
//   in_stages     products before attention | attention, norm, router | dispatch beside shared experts | experts; combine |
//                 end of combine | of which the first micro-batch is two stages ahead (SGLang, --enable-two-batch-overlap:
//                 batch_overlap/operations_strategy.py, _compute_moe_deepseek_blog_decode, tbo_delta_stages 2)
#pragma once

#include "transformer/step_list.h"

namespace railyard::transformer {

/// Bytes of a rank's tokens to all ranks, as nccl-tests counts. @param tokens  that the rank routes
Bytes dispatch_bytes(const ModelShape& model, std::uint32_t kind, ExpertExchange exchange, std::uint64_t tokens);
Bytes combine_bytes(const ModelShape& model, std::uint64_t tokens);

/// From the norm on. @param timer  null: only the collectives  @pre the kind of layer routes
void add_replica_expert_steps(StepList& steps, LayerTimer* timer, const ModelShape& model, const LayerPass& pass);

}  // namespace railyard::transformer
