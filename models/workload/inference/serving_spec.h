// workload.kind: serving, typed and validated. Plain data; no SystemC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workload/host.h"
#include "workload/inference/cuda_graphs.h"
#include "workload/inference/request_source.h"
#include "workload/inference/scheduler.h"
#include "workload/inference/spec.h"

namespace railyard::workload::inference {

/// Memory for KV cache, of an instance.
struct KvMemory {
  double memory_limit_ratio = 0.9;  ///< of the memory that CUDA sees
  Bytes engine_reserved_bytes = 1'200'000'000;
  std::optional<std::uint32_t> kv_blocks;  ///< including the reserved block; none: what memory holds
};

struct InstanceSpec {
  std::string name;
  std::uint32_t group = 0;  ///< of the machine
  Mapping mapping;
  SchedulerSpec scheduler;
  std::string scheduler_preset;
};

/// Service level objectives; none: not measured.
struct Slo {
  std::optional<double> ttft_s, tpot_s;
};

struct ServingSpec {
  RequestSourceMaker requests;
  std::vector<InstanceSpec> instances;
  KvMemory memory;
  CudaGraphs cudagraph;
  Host host;
  PpSend pp_send = PpSend::shard;
  Slo slo;
};

}  // namespace railyard::workload::inference
