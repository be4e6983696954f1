// What an instance of a serving engine runs, typed and validated. Plain data; no SystemC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/input_error.h"
#include "collective/engine.h"
#include "transformer/model_shape.h"
#include "workload/host.h"
#include "workload/inference/engine/cuda_graphs.h"
#include "workload/inference/engine/mapping.h"
#include "workload/inference/engine/serving_rules.h"
#include "workload/inference/requests/request.h"
#include "workload/inference/scheduler/scheduler_spec.h"

namespace railyard::workload::inference {

/// Memory for KV cache, of an instance.
struct KvMemory {
  double memory_limit_ratio = 0.9;  ///< of the memory that CUDA sees
  /// Fitted to the block counts of seven vLLM servers (tests/workload/inference_kv_memory.cpp), all within 1.2 %. Their
  /// versions count blocks before they capture CUDA graphs, so the default does not include these.
  Bytes engine_reserved_bytes = 810'000'000;
};

/// Blocks of KV cache that the scenario sets.
struct KvBlocks {
  std::uint32_t count = 0;  ///< of a rank, including the reserved block
  std::string key;
  Origin where;
};

struct InstanceSpec {
  std::string name;
  std::string key;  ///< of its mapping in the scenario, and its place, for errors
  Origin where;
  InstanceRole role = InstanceRole::colocated;
  std::uint32_t group = 0;           ///< of the machine
  std::optional<DataType> kv_dtype;  ///< of its KV cache; none: that of the model
  Mapping mapping;
  KvMemory memory;
  std::optional<KvBlocks> kv_blocks;  ///< none: what memory holds
  SchedulerSpec scheduler;
  std::optional<WholeSequencesSpec> whole;  ///< instead: an engine before paged KV cache
  ServingRules rules;
  std::optional<Speculation> speculation;
  collective::Engine engine;
  Host host;
  CudaGraphs cudagraph;

  /// Whether a rank has the same heads and layers of a block as the rank of another instance, in the same format.
  bool has_layout_of(const InstanceSpec& other) const {
    return mapping.tp == other.mapping.tp && mapping.stage_layers == other.mapping.stage_layers &&
           kv_dtype == other.kv_dtype && scheduler.block_tokens == other.scheduler.block_tokens;
  }
};

/// The model with the KV cache of an instance.
inline transformer::ModelShape model_of(transformer::ModelShape model, const InstanceSpec& instance) {
  model.kv_dtype = instance.kv_dtype.value_or(model.kv_dtype);
  return model;
}

}  // namespace railyard::workload::inference
