#include "sc_main/scenario/import/kv_blocks.h"

#include <algorithm>
#include <cmath>

#include "transformer/memory.h"
#include "workload/inference/engine/serving_rules.h"

namespace railyard::scenario {

using transformer::ModelShape;
using transformer::Stage;

namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

double weights_of_rank(const ModelShape& model, const Parallelism& parallel) {
  Stage with_head, embeddings;
  with_head.layers = model.layers / parallel.pp;
  with_head.last = true;
  embeddings.first = true;
  return static_cast<double>(transformer::rank_weight_bytes(model, with_head, parallel.tp) +
                             transformer::rank_weight_bytes(model, embeddings, parallel.tp));
}

}  // namespace

std::uint32_t kv_blocks(const PlacedInstance& instance, const ModelShape& model, const Parallelism& parallel) {
  Stage all;
  all.layers = model.layers;
  const double block =
      static_cast<double>(transformer::kv_bytes_per_token(model, all, 1) / parallel.gpus()) * instance.block_size;
  const double weights = weights_of_rank(model, parallel);
  const double bytes = std::floor(instance.npu_mem.mem_size * kGib * instance.npu_mem.mem_util);
  const double blocks = std::floor((bytes - weights) / block);
  const auto gib = [](double value) { return number_text(std::round(value / kGib * 100) / 100) + " GiB"; };
  constexpr double kFewestBlocks = 2, kMostBlocks = 1e9;
  const std::string key = "npu_mem.mem_size";
  if (blocks < kFewestBlocks)
    instance.refuse(key, number_text(instance.npu_mem.mem_size) + " GiB x mem_util " +
                             number_text(instance.npu_mem.mem_util) +
                             " leaves no memory for KV cache: " + gib(weights + kFewestBlocks * block - bytes) +
                             " are missing for " + gib(weights) + " of weights and two blocks");
  if (blocks > kMostBlocks)
    instance.refuse(key,
                    "has memory for " + number_text(blocks) + " blocks; accepted: up to " + number_text(kMostBlocks));
  return static_cast<std::uint32_t>(blocks);
}

double bytes_of_rank(const PlacedInstance& instance, const ModelShape& model, const Parallelism& parallel,
                     std::uint32_t blocks, const BatchLimits& limits) {
  double most = 0;
  for (const Stage& stage : transformer::stages_of(workload::inference::divided_layers(
           model.layers, parallel.pp, workload::inference::ExtraLayers::before_last))) {
    const Bytes fixed = transformer::rank_weight_bytes(model, stage, parallel.tp) +
                        transformer::activation_bytes(model, stage, parallel.tp, limits.max_batched_tokens,
                                                      std::min(limits.max_seqs, limits.max_batched_tokens));
    const Bytes block = transformer::kv_bytes_per_token(model, stage, parallel.tp) * instance.block_size;
    most = std::max(most, static_cast<double>(fixed) + static_cast<double>(block) * blocks);
  }
  return most;
}

}  // namespace railyard::scenario
