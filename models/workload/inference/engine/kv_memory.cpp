#include "workload/inference/engine/kv_memory.h"

#include <algorithm>

#include "transformer/memory.h"

namespace railyard::workload::inference {

std::uint32_t StageMemory::blocks() const {
  return left < static_cast<double>(block) ? 0 : static_cast<std::uint32_t>(left / static_cast<double>(block));
}

std::vector<StageMemory> stage_memory(const transformer::ModelShape& of_all, const InstanceSpec& instance,
                                      const KvMemory& memory, double visible_bytes) {
  const transformer::ModelShape model = model_of(of_all, instance);
  const std::uint32_t tp = instance.mapping.tp;
  const SchedulerSpec& scheduler = instance.scheduler;
  std::vector<StageMemory> all;
  for (const transformer::Stage& stage : transformer::stages_of(instance.mapping.stage_layers)) {
    StageMemory m;
    m.weights = weight_bytes(model, stage, instance.mapping);
    m.activations = transformer::activation_bytes(model, stage, tp, scheduler.max_batched_tokens,
                                                  std::min(scheduler.max_seqs, scheduler.max_batched_tokens));
    m.block = transformer::kv_bytes_per_token(model, stage, tp) * scheduler.block_tokens;
    m.left = visible_bytes * memory.memory_limit_ratio -
             static_cast<double>(m.weights + m.activations + memory.engine_reserved_bytes);
    if (instance.speculation && stage.last) {
      const DraftMemory drafts = draft_memory(*instance.speculation, instance.mapping.dp);
      m.weights += drafts.weights;
      m.block += drafts.kv_per_token * scheduler.block_tokens;
      m.left -= static_cast<double>(drafts.weights);
    }
    all.push_back(m);
  }
  return all;
}

}  // namespace railyard::workload::inference
