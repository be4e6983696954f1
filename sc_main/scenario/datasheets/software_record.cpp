#include "sc_main/scenario/datasheets/software_record.h"

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/datasheets/engine_record.h"
#include "sc_main/scenario/datasheets/mixture_keys.h"

namespace railyard::scenario {

using namespace workload::training;

namespace {

constexpr double kMostBucket = 1e13, kMostBucketPerRank = 1e9, kMostReserved = 1e12, kMostLossChunks = 4096;

}  // namespace

Record<Software> software_record() {
  Record<Software> r;
  r.choice("attention", &Software::attention, words_of(transformer::kAttentionFormNames),
           "kernels of the attention core. flash: one; unfused: products, softmax and dropout")
      .required();
  r.number_or(
       "flash_attention", "auto", &Software::flash_attention,
       "version of FlashAttention; auto: the kernels of the GPU's datasheet, version 3 on Hopper, 2 on Ampere and Ada")
      .range(1, 3)
      .required();
  r.add("cudnn_on_blackwell", &Software::cudnn_on_blackwell,
        "attention on Blackwell is cuDNN's, the kernels of the GPU's datasheet, in place of FlashAttention")
      .required();
  const auto fused = [](auto member) { return within(&Software::fused, member); };
  r.add("bias_activation_fused", fused(&transformer::FusedKernels::activation),
        "bias, activation and product of a gated MLP are one kernel")
      .required();
  r.add("bias_dropout_fused", fused(&transformer::FusedKernels::dropout), "bias, dropout and residual are one kernel")
      .required();
  r.add("residual_norm_fused", fused(&transformer::FusedKernels::residual),
        "the residual's sum and the norm after it are one kernel; backward sum of gradients and norm")
      .required();
  r.add("norm_fused", fused(&transformer::FusedKernels::norm), "a norm is one kernel").required();
  r.add("rotary_fused", fused(&transformer::FusedKernels::rotary), "rotary embedding is one kernel").required();
  r.add("projections_fused", fused(&transformer::FusedKernels::projections),
        "queries, keys and values are one product, and gate and up; otherwise each matrix has its own products")
      .required();
  const auto routed = [](auto member) { return within(&Software::routed, member); };
  add_mixture_keys(r, routed, [](Field& field) { field.required(); });
  r.add("expert_weights_sent", routed(&transformer::RoutedForm::sends_weights),
        "the router's weight of each copy goes to its expert, in an all-to-all of its own")
      .required();
  r.add(
       "sequence_first", &Software::sequence_first,
       "activations are [sequence, batch, hidden]; otherwise [batch, sequence, hidden], and a kernel copies all tokens "
       "after a gather and before a reduce-scatter of sequence parallelism")
      .required();
  r.add("dropout", &Software::dropout, "dropout after attention and MLP, and of the softmax if attention is unfused")
      .required();
  r.add("recompute_stops_early", &Software::recompute_stops_early,
        "full recomputation of a layer without experts leaves out its last product, whose result nothing needs")
      .required();
  r.choice("selective_recompute", &Software::selective_recompute, words_of(kSelectiveRecomputeNames),
           "what recompute: selective computes again. attention: the core of attention; operators: all but the core of "
           "attention and every second matrix product")
      .required();
  r.choice("loss", &Software::loss, words_of(kLossKernelsNames),
           "kernels of the loss. in_place: on one fp32 copy of the logits; operators: those of PyTorch, each with a "
           "result of its own; fused: on the logits in 16 bits")
      .required();
  r.add("loss_chunks", &Software::loss_chunks, "parts of the tokens whose logits are in memory one after the other")
      .range(1, kMostLossChunks)
      .required();
  r.add("reduce_beside_wgrad", &Software::reduce_beside_wgrad,
        "tensor-parallel sums of input gradients run beside the products for weight gradients")
      .required();
  r.choice("tp_overlap", &Software::tp_overlap, words_of(kOverlapWordNames),
           "with sequence_parallel: how products overlap with their tensor-parallel collectives")
      .required();
  r.choice("launch", &Software::launch, words_of(kLaunchNames),
           "eager: the host launches each kernel; graph: the GPU runs a captured graph")
      .required();
  r.add("host_us", &Software::host_us, "host time of each eager launch").range(0, kLongestHostUs).required();
  r.list(
       "expert_call", &Software::expert_call, eager_call_record("time of a call"),
       "launch: eager. Host time of each call in a layer with experts, beside its launches, by CPU; the first one that "
       "fits applies")
      .required();
  r.add("slot_host_us", &Software::slot_host_us,
        "launch: eager. Host time of each forward slot besides launches: the batch, masks, the loss")
      .range(0, kLongestHostUs)
      .required();
  r.add("slots_synchronize", &Software::slots_synchronize, "launch: eager. The host waits for the GPU before each slot")
      .required();
  r.choice("pp_overlap", &Software::pp_overlap, words_of(kPipelineOverlapNames),
           "schedules whose sends and receives between pipeline stages run beside kernels")
      .required();
  r.choice("pp_send", &Software::pp_send, words_of(kPipelineSendNames),
           "activations that a tensor-parallel rank sends. full: all; shard: 1/tp, and the receivers gather")
      .required();
  r.add("dp_overlap", &Software::dp_overlap, "gradients are reduced beside kernels").required();
  r.add("param_gather_overlap", &Software::param_gather_overlap,
        "zero_stage 1 and 2: the weights of a step are gathered beside its forward slots; otherwise the optimizer of "
        "the step before ends with their gathers")
      .required();
  r.add("bucket_parameters", &Software::bucket_parameters,
        "zero_stage 0 and 1: least number of parameters whose gradients are reduced together; 0: all of a rank")
      .none_or(1, kMostBucket)
      .required();
  r.add("bucket_parameters_per_rank", &Software::bucket_parameters_per_rank,
        "least number of parameters of a bucket, for each data-parallel rank")
      .range(0, kMostBucketPerRank)
      .required();
  r.choice("gradients", &Software::gradients, words_of(kGradientFormatNames),
           "number format in which gradients are accumulated and reduced")
      .required();
  r.choice(
       "gradient_sum", &Software::gradient_sum, words_of(transformer::kGradientSumNames),
       "zero_stage 0 and 1: what adds gradients of micro-batches. product: the product that computes them; kernel: a "
       "kernel after it; after_reduce: ranks add shards after a reduce-scatter, as with zero_stage 2 and 3 and gtp")
      .required();
  r.add("zero_stages", &Software::zero_stages, "accepted values of zero_stage").range(0, 3).required();
  r.add("nvls", &Software::nvls, "NCCL may use NVLink SHARP").required();
  r.choice(
       "comm_priority", &Software::comm_priority, words_of(gpu::kCommPriorityNames),
       "when collectives get SMs that kernels hold. high: at the end of a wave of thread blocks; normal: behind all "
       "thread blocks of kernels that began before")
      .required();
  r.number_or("nccl_ctas", "auto", &Software::nccl_ctas,
              "limit for the thread blocks of a collective; auto: NCCL's own choice")
      .range(1, 64)
      .required();
  r.add("reserved_bytes", &Software::reserved_bytes, "memory of CUDA context, NCCL buffers and workspaces")
      .range(0, kMostReserved)
      .required();
  return r;
}

}  // namespace railyard::scenario
