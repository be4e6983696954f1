#include "sc_main/kinds/serving_metrics.h"

#include <fmt/format.h>
#include <algorithm>

#include "sc_main/kinds/instance_metrics.h"

namespace railyard {

using workload::inference::RankTimes;

namespace {

using F = ServingFigures;

/// Nothing, where a scheduler does not say for what requests wait.
Value ttft_parts(const F& f) {
  if (!f.is_paged) return {};
  Value parts = Value::empty_group();
  for (std::size_t part = 0; part < workload::inference::kTtftParts; ++part)
    parts[workload::inference::kTtftPartNames[part]] = f.ttft_part_s(part);
  return parts;
}

double whole(std::uint64_t count) { return static_cast<double>(count); }

Value of_drafts(const F& f, double value) { return f.has_speculation ? Value(value) : Value(); }

/// Mean of transfers; nothing, without one, or if KV cache is not paged.
Value of_disk(const F& f, double value) { return f.disk_blocks > 0 ? Value(value) : Value(); }
Value of_peers(const F& f, double value) { return f.has_kv_peers ? Value(value) : Value(); }
Value of_host(const F& f, double value) { return f.host_blocks > 0 ? Value(value) : Value(); }

Value of_transfers(const F& f, double sum) {
  return f.is_paged && f.kv_transfers > 0 ? Value(sum / whole(f.kv_transfers)) : Value();
}

/// Nothing, if no request arrives in or after the middle of the run, or it is too short to have one.
Value in_the_middle(const F& f, std::uint64_t ServedWork::*amount) {
  const WorkBins::Span span = f.middle();
  return span.seconds > 0 ? Value(whole(span.work.*amount) / span.seconds) : Value();
}

/// Nothing, if all requests arrive at once or some are not done.
Value of_growth(const F& f, Value (*figure)(const LoadGrowth&)) {
  const std::optional<LoadGrowth> growth = f.growth();
  return growth ? figure(*growth) : Value();
}

Value arrivals(const ServingPeriods::Period& period) { return static_cast<std::uint64_t>(period.ttft.count()); }
Value itl_p99(const ServingPeriods::Period& period) { return period.itl.percentile(0.99); }
/// Nothing, if no instance changes.
Value of_changes(const F& f, Value value) { return f.has_changes ? value : Value(); }

/// Largest / mean, over the instances that compute prompts; nothing, if there is one.
Value imbalance(const F& f, std::uint64_t F::Instance::*amount) {
  double most = 0, sum = 0, count = 0;
  for (const F::Instance& instance : f.instances) {
    if (!takes_prompts(instance.role)) continue;
    most = std::max(most, whole(instance.*amount));
    sum += whole(instance.*amount);
    ++count;
  }
  return count > 1 ? Value(share_of(most * count, sum)) : Value();
}

/// Nothing, without a handoff.
Value of_handoff(const F& f, double value) { return f.has_handoff() ? Value(value) : Value(); }
Value of_answers(const F& f, double RankTimes::*time) { return of_handoff(f, f.mean_times(true).*time); }

Value stage_utilisation(const F& f) {
  const F::Instance* prefill = f.prefiller();
  if (prefill == nullptr) return {};
  Value stages = Value::empty_group();
  for (std::size_t p = 0; p < prefill->ranks.size(); ++p)
    stages[fmt::format("stage{}", p)] = f.stage_utilisation(*prefill, p);
  return stages;
}

Metrics<F> request_metrics() {
  return {
      {"requests", "", "requests served", [](const F& f) -> Value { return f.requests; }},
      {"refused", "",
       "requests that exceed `max_model_len` or can never fit into the KV cache; they are refused when they arrive",
       [](const F& f) -> Value { return f.refused; }},
      {"aborted", "", "clients that leave: requests given up before the engine had finished them",
       [](const F& f) { return f.has_leaves ? Value(f.aborted) : Value(); }},
      {"request_rate_per_s", "1/s", "requests, from the first arrival to the last token",
       [](const F& f) -> Value { return f.rate(whole(f.requests)); }},
      {"prompt_tokens_per_s", "1/s", "prompt tokens, in the same time",
       [](const F& f) -> Value { return f.rate(whole(f.prompt_tokens)); }},
      {"output_tokens_per_s", "1/s", "output tokens, in the same time",
       [](const F& f) -> Value { return f.rate(whole(f.output_tokens)); }},
      {"total_tokens_per_s", "1/s", "both",
       [](const F& f) -> Value { return f.rate(whole(f.prompt_tokens + f.output_tokens)); }},
      {"middle.request_rate_per_s", "1/s", "requests that end in the second and third quarter of this time",
       [](const F& f) { return in_the_middle(f, &ServedWork::requests); }},
      {"middle.prompt_tokens_per_s", "1/s", "tokens of the prompts whose first token comes in these quarters",
       [](const F& f) { return in_the_middle(f, &ServedWork::prompt_tokens); }},
      {"middle.output_tokens_per_s", "1/s", "output tokens that come in these quarters",
       [](const F& f) { return in_the_middle(f, &ServedWork::output_tokens); }},
      {"growth.is_certain", "",
       "1: requests in the system grew in the second half of the arrivals' time, so the run has no steady state "
       "([the test](serving.md#what-a-load-run-is-worth)); else 0. None of `growth` if all requests arrive at once",
       [](const F& f) { return of_growth(f, [](const LoadGrowth& g) -> Value { return g.is_certain ? 1 : 0; }); }},
      {"growth.requests_per_s", "1/s", "requests that came in that half, less requests that ended, by its time",
       [](const F& f) { return of_growth(f, [](const LoadGrowth& g) -> Value { return g.per_s; }); }},
      {"growth.error_per_s", "1/s", "standard error of this",
       [](const F& f) { return of_growth(f, [](const LoadGrowth& g) -> Value { return g.error_per_s; }); }},
      {"ttft_s", "s", "from arrival to the first token at the client, mean of requests",
       [](const F& f) -> Value { return f.ttft.mean(); }},
      {"ttft_p50_s", "s", "median", [](const F& f) -> Value { return f.ttft.percentile(0.5); }},
      {"ttft_p90_s", "s", "90th percentile", [](const F& f) -> Value { return f.ttft.percentile(0.9); }},
      {"ttft_p95_s", "s", "95th percentile", [](const F& f) -> Value { return f.ttft.percentile(0.95); }},
      {"ttft_p99_s", "s", "99th percentile", [](const F& f) -> Value { return f.ttft.percentile(0.99); }},
      {"ttft_admitted_s", "s", "from admission (the first kernel of a request's first batch) to the first token, mean",
       [](const F& f) -> Value { return f.ttft_admitted.mean(); }},
      {"ttft_admitted_p50_s", "s", "median", [](const F& f) -> Value { return f.ttft_admitted.percentile(0.5); }},
      {"ttft_admitted_p90_s", "s", "90th percentile",
       [](const F& f) -> Value { return f.ttft_admitted.percentile(0.9); }},
      {"ttft_admitted_p99_s", "s", "99th percentile",
       [](const F& f) -> Value { return f.ttft_admitted.percentile(0.99); }},
      {"ttft_parts_s.[part]", "s", "where this time goes: parts that add up to `ttft_s`", ttft_parts},
      {"queueing_s", "s",
       "from the queue, which a request enters when the host has accepted it, to its first kernel; mean of requests",
       [](const F& f) -> Value { return share_of(f.queue_sum_s, whole(f.requests)); }},
      {"decode_start_s", "s",
       "an instance for answers: from arrival to the first batch there, mean of requests. All KV of the prompt has "
       "landed by then",
       [](const F& f) { return of_handoff(f, f.decode_start.mean()); }},
      {"decode_start_p50_s", "s", "median", [](const F& f) { return of_handoff(f, f.decode_start.percentile(0.5)); }},
      {"decode_start_p99_s", "s", "99th percentile",
       [](const F& f) { return of_handoff(f, f.decode_start.percentile(0.99)); }},
      {"tpot_s", "s", "(last token - first token) / (tokens - 1), mean of requests with two tokens or more",
       [](const F& f) -> Value { return f.tpot.mean(); }},
      {"tpot_p50_s", "s", "median", [](const F& f) -> Value { return f.tpot.percentile(0.5); }},
      {"tpot_p90_s", "s", "90th percentile", [](const F& f) -> Value { return f.tpot.percentile(0.9); }},
      {"tpot_p95_s", "s", "95th percentile", [](const F& f) -> Value { return f.tpot.percentile(0.95); }},
      {"tpot_p99_s", "s", "99th percentile", [](const F& f) -> Value { return f.tpot.percentile(0.99); }},
      {"itl_s", "s", "time between two tokens of a request, mean of all",
       [](const F& f) -> Value { return f.itl.mean(); }},
      {"itl_p50_s", "s", "median, within `0.05 %`", [](const F& f) -> Value { return f.itl.percentile(0.5); }},
      {"itl_p90_s", "s", "90th percentile, within `0.05 %`", [](const F& f) -> Value { return f.itl.percentile(0.9); }},
      {"itl_p95_s", "s", "95th percentile, within `0.05 %`",
       [](const F& f) -> Value { return f.itl.percentile(0.95); }},
      {"itl_p99_s", "s", "99th percentile, within `0.05 %`",
       [](const F& f) -> Value { return f.itl.percentile(0.99); }},
      {"e2e_s", "s", "from arrival to the last token, mean of requests",
       [](const F& f) -> Value { return f.e2e.mean(); }},
      {"e2e_p50_s", "s", "median", [](const F& f) -> Value { return f.e2e.percentile(0.5); }},
      {"e2e_p90_s", "s", "90th percentile", [](const F& f) -> Value { return f.e2e.percentile(0.9); }},
      {"e2e_p95_s", "s", "95th percentile", [](const F& f) -> Value { return f.e2e.percentile(0.95); }},
      {"e2e_p99_s", "s", "99th percentile", [](const F& f) -> Value { return f.e2e.percentile(0.99); }},
      {"goodput_per_s", "1/s", "requests that meet the objectives of `workload.slo`",
       [](const F& f) -> Value { return f.rate(whole(f.within_slo)); }},
      {"slo_attainment_ratio", "ratio", "share of the requests that meet them; 1 without objectives",
       [](const F& f) -> Value { return f.slo_attainment_ratio(); }},
      {"sessions.count", "", "requests that follow each other: sessions",
       [](const F& f) { return f.has_sessions ? Value(f.sessions.size()) : Value(); }},
      {"sessions.duration_s", "s", "from the first arrival of a session to its last token, mean",
       [](const F& f) { return f.has_sessions ? Value(f.session_times().mean()) : Value(); }},
      {"sessions.duration_p50_s", "s", "median",
       [](const F& f) { return f.has_sessions ? Value(f.session_times().percentile(0.5)) : Value(); }},
      {"sessions.duration_p99_s", "s", "99th percentile",
       [](const F& f) { return f.has_sessions ? Value(f.session_times().percentile(0.99)) : Value(); }},
      {"preemptions", "", "times that a running request gave up its KV blocks",
       [](const F& f) -> Value { return f.preemptions; }},
      {"recomputed_tokens", "", "tokens computed again after a preemption",
       [](const F& f) -> Value { return f.recomputed_tokens; }},
      {"speculation.drafted_tokens", "", "speculative decoding: drafts that steps have verified",
       [](const F& f) { return of_drafts(f, whole(f.drafted_tokens)); }},
      {"speculation.accepted_tokens", "", "drafts that were right, with those after the end of an answer",
       [](const F& f) { return of_drafts(f, whole(f.accepted_tokens)); }},
      {"speculation.acceptance", "ratio", "their share",
       [](const F& f) { return of_drafts(f, share_of(whole(f.accepted_tokens), whole(f.drafted_tokens))); }},
      {"speculation.tokens_per_step", "",
       "tokens that a step with drafts gives a request: the right ones and one more, mean",
       [](const F& f) { return of_drafts(f, f.tokens_per_step()); }},
      {"prefix_hit_ratio", "ratio", "share of the prompt tokens that were found in the prefix index",
       [](const F& f) -> Value { return f.prefix_hit_ratio(); }},
      {"kv_tiers.host.hit_ratio", "ratio", "share of the prompt tokens that were loaded from host memory",
       [](const F& f) { return of_host(f, f.host_hit_ratio()); }},
      {"kv_tiers.host.others_hit_ratio", "ratio",
       "kv_tiers.host.pool: server: of these, what another instance or replica had written there, as share of the "
       "prompt tokens",
       [](const F& f) { return f.shares_host ? of_host(f, f.others_hit_ratio()) : Value(); }},
      {"kv_tiers.host.blocks", "", "KV blocks that host memory holds, of all instances",
       [](const F& f) { return of_host(f, whole(f.host_blocks)); }},
      {"kv_tiers.host.loaded_bytes", "B", "KV from host memory to GPUs",
       [](const F& f) { return of_host(f, f.kv_loaded_bytes); }},
      {"kv_tiers.host.stored_bytes", "B", "KV from GPUs to host memory",
       [](const F& f) { return of_host(f, f.kv_stored_bytes); }},
      {"kv_tiers.disk.hit_ratio", "ratio", "share of the prompt tokens that were read from disks to host memory",
       [](const F& f) { return of_disk(f, f.disk_hit_ratio()); }},
      {"kv_tiers.disk.blocks", "", "KV blocks that disks hold, of all instances",
       [](const F& f) { return of_disk(f, whole(f.disk_blocks)); }},
      {"kv_tiers.disk.read_bytes", "B", "KV from disks to host memory",
       [](const F& f) { return of_disk(f, f.kv_read_bytes); }},
      {"kv_tiers.disk.written_bytes", "B", "KV from host memory to disks",
       [](const F& f) { return of_disk(f, f.kv_written_bytes); }},
      {"kv_tiers.peers.hit_ratio", "ratio", "share of the prompt tokens that were read from the host memory of peers",
       [](const F& f) { return of_peers(f, f.peer_hit_ratio()); }},
      {"kv_tiers.peers.read_bytes", "B", "KV from the host memory of peers to that of the request's instance",
       [](const F& f) { return of_peers(f, f.kv_peer_bytes); }},
      {"prefill_window_s", "s",
       "instances for prompts only: time in which the prompt of at least one request that they have admitted is not "
       "complete",
       [](const F& f) { return of_handoff(f, f.prefill_window_s); }},
      {"prefill_capacity_tokens_per_s", "1/s",
       "capacity, which does not depend on the load: tokens in batches of these instances / window",
       [](const F& f) { return of_handoff(f, f.prefill_tokens_per_s()); }},
      {"stage_utilisation.[stage]", "ratio",
       "one instance for prompts: share of the window in which a rank of the stage runs kernels, without collectives",
       stage_utilisation},
      {"bubble_fraction", "ratio",
       "share of rank time of these instances in the window that lies outside batches: 1 - sum over ranks of (from a "
       "batch's first job to its last, without waits for the host) / (ranks x window). With m equal chunks on p equal "
       "stages and free transfers, (p-1)/(m+p-1)",
       [](const F& f) { return of_handoff(f, f.bubble_fraction()); }},
      {"exposed_s.tp", "s",
       "time over the run that the compute stream spent in tensor-parallel collectives after the last peer had "
       "entered; "
       "mean over the ranks of instances that compute prompts",
       [](const F& f) -> Value { return f.mean_times(false).tp_s; }},
      {"exposed_s.pp", "s",
       "time that it waited for activations that the previous stage had already begun to send; mean of these ranks",
       [](const F& f) -> Value { return f.mean_times(false).pp_s; }},
      {"exposed_s.tp_sync", "s",
       "time that it spent in tensor-parallel collectives before the last peer had entered (the gate); mean of these "
       "ranks",
       [](const F& f) -> Value { return f.mean_times(false).tp_sync_s; }},
      {"exposed_s.host", "s",
       "time that it waited only for the host; mean of these ranks. The wait before a batch's first kernel is part of "
       "the bubble",
       [](const F& f) -> Value { return f.mean_times(false).host_s; }},
      {"decode.exposed_s.tp", "s", "as `exposed_s.tp`, mean over the ranks of instances that compute answers only",
       [](const F& f) { return of_answers(f, &RankTimes::tp_s); }},
      {"decode.exposed_s.pp", "s", "as `exposed_s.pp`, mean over these ranks",
       [](const F& f) { return of_answers(f, &RankTimes::pp_s); }},
      {"decode.exposed_s.tp_sync", "s", "as `exposed_s.tp_sync`, mean over these ranks",
       [](const F& f) { return of_answers(f, &RankTimes::tp_sync_s); }},
      {"decode.exposed_s.host", "s", "as `exposed_s.host`, mean over these ranks",
       [](const F& f) { return of_answers(f, &RankTimes::host_s); }},
      {"exposed_s.kv", "s",
       "two instances: from the end of the prompt to the arrival of the KV, mean of requests: the part of the handoff "
       "that is not hidden",
       [](const F& f) { return of_handoff(f, share_of(f.kv_wait_sum_s, whole(f.requests))); }},
      {"kept_prompts_ratio", "ratio",
       "conditional disaggregation: share of the requests whose prompt was left to the decode instance",
       [](const F& f) {
         return f.is_decider_asked ? Value(share_of(whole(f.kept_prompts), whole(f.requests))) : Value();
       }},
      {"kv_transfer.bytes", "B", "two instances: KV that a request moves, over all ranks, mean of transfers",
       [](const F& f) { return of_transfers(f, f.kv_bytes); }},
      {"kv_transfer.descriptors", "", "pieces of memory that are posted for it",
       [](const F& f) { return of_transfers(f, whole(f.kv_descriptors)); }},
      {"kv_transfer.handshake_s", "s",
       "time from the end of the prompt until the two instances have met; 0 if they had",
       [](const F& f) { return of_transfers(f, f.kv_handshake_s); }},
      {"kv_transfer.post_s", "s", "time until the pieces are posted, of the rank that posts longest",
       [](const F& f) { return of_transfers(f, f.kv_post_s); }},
      {"kv_transfer.staging_s", "s", "time of the kernels that gather it in a buffer, and bring it to its blocks",
       [](const F& f) { return of_transfers(f, f.kv_staging_s); }},
      {"kv_transfer.wire_s", "s", "time of the copy that arrives last, from its first byte",
       [](const F& f) { return of_transfers(f, f.kv_wire_s); }},
      {"kv_transfer.alone_s", "s", "the same without other traffic",
       [](const F& f) { return of_transfers(f, f.kv_alone_s); }},
      {"kv_transfer.contention_s", "s", "the difference: behind other messages",
       [](const F& f) { return of_transfers(f, f.kv_wire_s - f.kv_alone_s); }},
  };
}

Metrics<F> event_metrics() {
  return {
      {"by_period.requests.[period]", "",
       "`events`: requests that arrive before the first event, during (until the last one), and after",
       [](const F& f) { return by_period(f.periods, arrivals); }},
      {"by_period.ttft_p99_s.[period]", "s", "their time to first token, 99th percentile",
       [](const F& f) { return by_period(f.periods, period_ttft_p99); }},
      {"by_period.tpot_p99_s.[period]", "s", "their time per output token",
       [](const F& f) { return by_period(f.periods, period_tpot_p99); }},
      {"by_period.itl_p99_s.[period]", "s", "time between tokens, of tokens that come in the period",
       [](const F& f) { return by_period(f.periods, itl_p99); }},
      {"restarts.count", "", "instances that change: how often a request was lost with an instance and began again",
       [](const F& f) { return of_changes(f, f.restarts); }},
      {"restarts.lost_tokens", "", "tokens of these requests whose KV was lost",
       [](const F& f) { return of_changes(f, f.lost_tokens); }},
      {"restarts.recomputed_tokens", "", "of these, not found in the prefix index where the request began again",
       [](const F& f) { return of_changes(f, f.repeated_tokens); }},
      {"loaded_weight_bytes", "B", "weights that instances which joined have loaded, over all ranks",
       [](const F& f) { return of_changes(f, f.loaded_weight_bytes); }},
      {"imbalance.requests", "ratio",
       "several instances that compute prompts: requests of the instance with most / mean of these instances",
       [](const F& f) { return imbalance(f, &F::Instance::requests); }},
      {"imbalance.tokens", "ratio", "the same of the tokens in their batches",
       [](const F& f) { return imbalance(f, &F::Instance::tokens); }},
  };
}

}  // namespace

const Metrics<ServingFigures>& serving_metrics() {
  static const Metrics<F> metrics = [] {
    Metrics<F> all;
    for (const Metrics<F>& some :
         {request_metrics(), sole_instance_metrics(), event_metrics(), each_instance_metrics()})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }();
  return metrics;
}

}  // namespace railyard
