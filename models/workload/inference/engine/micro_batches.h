// A step as two micro-batches. Each attention replica divides its own batch; all of them do, or none, because they meet in the
// exchanges. The rules of two engines, by turns (transformer/replica_steps.h):
//
//   at_exchanges  vLLM, --enable-dbo (v1/worker/dp_utils.py, v1/worker/ubatch_utils.py): each replica has at least
//                 decode_tokens (dbo_decode_token_threshold, 32), or prompt_tokens (dbo_prefill_token_threshold, 512) in a
//                 batch with prompts. All are padded to the same number, half of which is the first micro-batch; a prompt
//                 across this place is in both. None is divided if the second one would be empty in one replica, as in one
//                 without requests
//   in_stages     SGLang, --enable-two-batch-overlap (batch_overlap/two_batch_overlap.py): batches of decodes; half of the
//                 sequences, rounded down, are the first micro-batch. Graphs have even sizes. With DeepEP's low-latency kernels
//                 prompts are not divided (TboDPAttentionPreparer). Here neither are single sequences
//
// Embedding, head and draft passes run once; so do, with in_stages, the layers before the first one with experts.
#pragma once

#include <array>
#include <optional>

#include "workload/inference/engine/cuda_graphs.h"
#include "workload/inference/engine/micro_batch_rules.h"
#include "workload/inference/scheduler/scheduled_batch.h"

namespace railyard::workload::inference {

struct Pass;

struct Halves {
  std::array<ScheduledBatch, 2> batches;
  /// Of the replica with most of them: for which everything but attention runs.
  std::array<std::uint64_t, 2> tokens{};
  bool pads = false;  ///< all replicas run as many
};

/// None: the step runs as one. @param padded_tokens  of a replica, in a CUDA graph; none: no graph
std::optional<Halves> divide(const ScheduledBatch& batch, std::uint32_t replicas, const MicroBatchRules& rules,
                             std::optional<std::uint64_t> padded_tokens, const CudaGraphs& graphs);

/// What a rank runs next of a divided pass: a step of a micro-batch, or of both as one.
struct Turn {
  std::uint32_t half = 0, layer = 0;
  std::uint32_t step = 0;     ///< of the layer
  bool begins_layer = false;  ///< of the micro-batch
  bool beside = false;        ///< it does not wait for the exchange before it
  bool has_all_kv = false;    ///< after it, both micro-batches have their KV of the layer
};

/// All layers. @param kinds  of the layers
std::vector<Turn> turns_of(const Pass& pass, const std::vector<std::uint32_t>& kinds);

}  // namespace railyard::workload::inference
