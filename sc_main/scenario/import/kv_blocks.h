// KV cache of an instance by LLMServingSim's rule (serving/core/memory_model.py at 5daddb2), and the memory that a GPU
// needs for it.
#pragma once

#include <cstdint>

#include "sc_main/scenario/import/instance.h"
#include "transformer/model_shape.h"

namespace railyard::scenario {

/// (mem_size x mem_util - weights of a rank) / bytes of a block, rounded down. The weights are those of a stage with
/// embeddings and output head, whichever stage it is; activations do not count.
/// @throws InputError: no memory for two blocks
std::uint32_t kv_blocks(const PlacedInstance& instance, const transformer::ModelShape& model,
                        const Parallelism& parallel);

struct BatchLimits {
  std::uint32_t max_batched_tokens = 0, max_seqs = 0;
};

/// Most bytes of a rank: its weights, these blocks, and its activations.
double bytes_of_rank(const PlacedInstance& instance, const transformer::ModelShape& model, const Parallelism& parallel,
                     std::uint32_t blocks, const BatchLimits& limits);

}  // namespace railyard::scenario
