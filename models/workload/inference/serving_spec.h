// What a service runs: workload.kind: serving, typed and validated, or a preset of it. Plain data; no SystemC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/input_error.h"
#include "collective/engine.h"
#include "workload/host.h"
#include "workload/inference/cuda_graphs.h"
#include "workload/inference/request_list.h"
#include "workload/inference/scheduler.h"
#include "workload/inference/serving_rules.h"
#include "workload/inference/spec.h"

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
  RequestPart part = RequestPart::all;
  std::uint32_t group = 0;  ///< of the machine
  Mapping mapping;
  std::optional<KvBlocks> kv_blocks;  ///< none: what memory holds
  SchedulerSpec scheduler;
  ServingRules rules;
  std::string scheduler_preset;
  collective::Engine engine;
};

/// Service level objectives; none: not measured.
struct Slo {
  std::optional<double> ttft_s, tpot_s;
};

/// The longest request, or its prompt.
struct Longest {
  std::uint64_t tokens = 0;
  Origin where;
};

struct ServingSpec {
  RequestSourceMaker requests;
  std::optional<Longest> longest;  ///< by the sum of prompt and answer; none: the distribution of lengths has no bound
  std::vector<InstanceSpec> instances;  ///< one for all parts of requests, or one for prompts and one for answers
  KvMemory memory;
  CudaGraphs cudagraph;
  Host host;
  /// Of the load generator, for each request before the API server has it; in the client's latencies.
  double client_us = 0;
  PpSend pp_send = PpSend::shard;
  HandoffGrain handoff = HandoffGrain::fetched;  ///< of two instances
  FirstToken first_token = FirstToken::prefill;  ///< of two instances
  Slo slo;
  bool names_requests = true;    ///< in names of jobs
  RequestList::Requests listed;  ///< all requests, for the estimate of traffic; null: not known
};

/// One instance for prompts and one for answers, with memory for a request reserved on both before its prompt.
ServingSpec as_serving(const PrefillSpec& spec);

}  // namespace railyard::workload::inference
