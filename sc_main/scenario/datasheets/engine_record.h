// The table of keys of a serving engine's datasheet (platforms/datasheets/engines): all in which engines differ, in one file. A
// sheet may name another one as its `base:`, and has then only what differs. The scenario's keys are read over a sheet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collective/engine.h"
#include "gpu/datasheet.h"
#include "sc_main/scenario/table/record.h"
#include "workload/host.h"
#include "workload/inference/engine/cuda_graphs.h"
#include "workload/inference/engine/serving_rules.h"
#include "workload/inference/scheduler/scheduler_spec.h"

namespace railyard::scenario {

constexpr double kLongestHostUs = 60e6;

/// Limits of a batch on some GPUs.
struct GpuLimits {
  double memory_from_gib = 0;       ///< visible to CUDA
  std::vector<std::string> except;  ///< beginnings of names of GPUs
  std::uint32_t max_batched_tokens = 0, max_seqs = 0;

  bool apply_to(const gpu::GpuDatasheet& gpu) const;
  /// Whether they apply wherever `others` do.
  bool cover(const GpuLimits& others) const;
};

struct SchedulerSheet : workload::inference::SchedulerSpec {
  std::vector<GpuLimits> limits;  ///< the first that apply count

  /// The defaults on a GPU.
  workload::inference::SchedulerSpec on(const gpu::GpuDatasheet& gpu) const;
};

struct HostSheet : workload::Host {
  double stream_us = 0;  ///< of a step, for each sequence whose token the engine hands to a client
  std::vector<collective::EagerCall> eager_layer;

  /// @param streams  clients get each token when it is made
  workload::Host on(Cpu cpu, bool streams) const;
};

struct GraphSheet : workload::inference::CudaGraphs {
  Bytes reserved_bytes = 0;  ///< memory of the graphs, unless there are none
};

struct EngineSheet : collective::Engine {
  /// None: a library of collectives, which serves no requests.
  std::optional<SchedulerSheet> scheduler;
  std::optional<HostSheet> host;
  GraphSheet cudagraph;
  workload::inference::ServingRules rules;
};

/// Rules of a scheduler that an engine's sheet sets and a scenario may change.
template <class Spec>
void add_scheduler_rules(Record<Spec>& r) {
  using S = workload::inference::SchedulerSpec;
  r.choice("policy", &S::policy, {"fcfs", "priority"},
           "order of the queue: by arrival, or by the requests' priority and then by arrival");
  r.add("long_prefill_threshold_tokens", &S::long_prefill_threshold_tokens,
        "most tokens of one prompt in a batch; 0: only the budget limits them")
      .range(0, 1 << 20);
  r.add("chunked_prefill", &S::chunked_prefill, "a prompt may be split over batches");
  r.choice("mix", &S::mix, {"mixed", "prefill_first"},
           "mixed: prompts and decodes share a batch; prefill_first: decodes wait while a prompt can run");
  r.choice(
      "reserve", &S::reserve, {"chunk", "sequence", "expected_output", "full_output"},
      "a request starts if KV blocks are free for: chunk: its first chunk; sequence: its prompt; expected_output: its "
      "prompt and what SGLang estimates of all remaining output; full_output: its prompt and the longest output of "
      "each running request");
  r.choice("preemption", &S::preemption, {"recompute", "never"},
           "recompute: when blocks run out, the latest request gives up its blocks and starts again");
  r.add("watermark_ratio", &S::watermark_ratio, "share of the blocks that stays free when a request starts")
      .range(0, 1);
  r.add("prefix_caching", &S::prefix_caching, "blocks with the same tokens before them are shared");
  r.add("block_tokens", &S::block_tokens, "tokens of a KV block").range(1, 4096);
}

/// Times of a host that do not depend on the CPU.
template <class Host>
void add_host_times(Record<Host>& r) {
  using H = workload::Host;
  r.add("async", &H::async,
        "the host prepares a step while the previous step runs: a step takes the longer of host and GPU time, else "
        "their sum");
  r.add("step_us", &H::step_us, "time to prepare a step: scheduler, inputs, sampling").range(0, kLongestHostUs);
  r.add("sequence_us", &H::sequence_us, "additional time of a step, per sequence: inputs, and handing out its token")
      .range(0, kLongestHostUs);
  r.add(
       "layer_us", &H::layer_us,
       "time to launch a layer of which all but attention is compiled or captured: batches with prompts, and above the "
       "largest captured size")
      .range(0, kLongestHostUs);
  r.add("request_us", &H::request_us,
        "time of the API server for a request, one after the other, until it is queued: HTTP, tokenizer")
      .range(0, kLongestHostUs);
  r.add("token_us", &H::token_us, "time from the end of a step until the client has the token: detokenizer, streaming")
      .range(0, kLongestHostUs);
}

template <class Graphs>
void add_graphs(Record<Graphs>& r) {
  using G = GraphSheet;
  r.choice(
      "mode", &G::mode, words_of(workload::kGraphModeNames),
      "full: a batch of decodes is one graph, other batches as with piecewise; piecewise: everything but attention "
      "is captured, and the host launches attention in each layer; decode: a batch of decodes is one graph, and "
      "the host launches all kernels of other batches; none: the host launches all kernels");
  r.add("max_tokens", &G::max_tokens, "tokens of the largest captured batch").range(1, 1 << 20);
  r.add("reserved_bytes", &G::reserved_bytes,
        "memory of the graphs, unless mode is none. vLLM sets it aside before it counts KV blocks since v0.21; before, "
        "it captures into memory that it leaves free")
      .range(0, 1e12);
}

/// @param doc  of the time
Record<collective::EagerCall> eager_call_record(const char* doc);
Record<EngineSheet> engine_record();
/// Refuses an entry of a list that never counts, because an earlier one applies wherever it does.
/// @throws InputError at the entry. @param root  of the sheet, for positions
void check_reachable(const EngineSheet& sheet, const NodePtr& root);

}  // namespace railyard::scenario
