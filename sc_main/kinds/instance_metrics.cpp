#include "sc_main/kinds/instance_metrics.h"

#include <fmt/format.h>
#include <functional>

namespace railyard {

using workload::inference::StageTimes;

namespace {

using Figures = ServingFigures;

/// A value for each stage: {stage0: ...}.
Value by_stage(const Figures::Instance& instance, const std::function<Value(const Figures::Stage&)>& value) {
  Value all = Value::empty_group();
  for (std::size_t p = 0; p < instance.stages.size(); ++p) all[fmt::format("stage{}", p)] = value(instance.stages[p]);
  return all;
}

Value busy(const Figures::Instance& instance) {
  return by_stage(instance, [](const Figures::Stage& stage) { return stage.seconds[StageTimes::kBusy]; });
}

Value utilisation(const Figures& f, const Figures::Instance& instance) {
  return by_stage(instance, [&](const Figures::Stage& stage) {
    return f.end_s > 0 ? stage.seconds[StageTimes::kBusy] / f.end_s : 0.0;
  });
}

Value bubbles(const Figures::Instance& instance) {
  return by_stage(instance, [](const Figures::Stage& stage) {
    Value causes = Value::empty_group();
    for (std::size_t use = StageTimes::kBusy + 1; use < StageTimes::kUses; ++use)
      causes[StageTimes::kNames[use]] = stage.seconds[use];
    return causes;
  });
}

using FigureOf = Value (*)(const Figures::Instance&);

/// Nothing, if several instances compute answers.
Value of_decoder(const Figures& f, FigureOf figure) { return f.decoder() != nullptr ? figure(*f.decoder()) : Value(); }
/// Nothing, if one instance computes all parts of requests, or several compute prompts.
Value of_prefill(const Figures& f, FigureOf figure) {
  return f.prefiller() != nullptr ? figure(*f.prefiller()) : Value();
}
/// Nothing, if there is one instance.
Value of_each(const Figures& f, FigureOf figure) {
  if (f.instances.size() == 1) return {};
  Value all = Value::empty_group();
  for (const Figures::Instance& instance : f.instances) all[instance.name] = figure(instance);
  return all;
}

Value iterations(const Figures::Instance& i) { return i.iterations; }
Value mean_batch(const Figures::Instance& i) { return i.mean(i.batch_sum); }
Value tokens(const Figures::Instance& i) { return i.tokens; }
Value mean_tokens(const Figures::Instance& i) { return i.mean(static_cast<double>(i.tokens)); }
Value mean_s(const Figures::Instance& i) { return i.mean(i.batches_s); }
Value tokens_per_s(const Figures::Instance& i) { return i.tokens_per_s(); }
/// Nothing, if KV cache is not paged.
Value total_blocks(const Figures::Instance& i) { return i.kv_blocks > 0 ? Value(i.kv_blocks) : Value(); }
Value peak_blocks(const Figures::Instance& i) { return i.kv_blocks > 0 ? Value(i.peak_blocks) : Value(); }
Value padded_ratio(const Figures::Instance& i) { return i.padded_ratio(); }
/// Nothing, if KV cache is not paged.
Value prefix_hits(const Figures::Instance& i) { return i.kv_blocks > 0 ? Value(i.prefix_hit_ratio()) : Value(); }

}  // namespace

Value by_period(const ServingPeriods& periods, Value (*figure)(const ServingPeriods::Period&)) {
  if (!periods.has_events()) return {};
  Value all = Value::empty_group();
  for (std::size_t i = 0; i < ServingPeriods::kPeriods; ++i)
    if (const ServingPeriods::Period& period = periods.all()[i]; period.ttft.count() > 0)
      all[ServingPeriods::kNames[i]] = figure(period);
  return all;
}

Value period_ttft_p99(const ServingPeriods::Period& period) { return period.ttft.percentile(0.99); }

Value period_tpot_p99(const ServingPeriods::Period& period) { return period.tpot.percentile(0.99); }

Metrics<Figures> sole_instance_metrics() {
  return {
      {"kv_blocks.total", "", "KV blocks of a rank of the instance that decodes, one of them reserved",
       [](const Figures& f) { return of_decoder(f, total_blocks); }},
      {"kv_blocks.peak", "", "most of these blocks that requests held at once",
       [](const Figures& f) { return of_decoder(f, peak_blocks); }},
      {"iterations.count", "", "batches of this instance", [](const Figures& f) { return of_decoder(f, iterations); }},
      {"iterations.mean_batch", "", "requests in a batch", [](const Figures& f) { return of_decoder(f, mean_batch); }},
      {"iterations.mean_tokens", "", "tokens in a batch", [](const Figures& f) { return of_decoder(f, mean_tokens); }},
      {"iterations.tokens", "", "tokens in all of them", [](const Figures& f) { return of_decoder(f, tokens); }},
      {"iterations.mean_s", "s",
       "time of a batch: from the later of two instants (the batch is composed; the one before ends) to its tokens",
       [](const Figures& f) { return of_decoder(f, mean_s); }},
      {"iterations.tokens_per_s", "1/s", "capacity at the batches of the run: tokens / time of batches",
       [](const Figures& f) { return of_decoder(f, tokens_per_s); }},
      {"iterations.padded_ratio", "ratio", "share of the tokens that only fill up a CUDA graph",
       [](const Figures& f) { return of_decoder(f, padded_ratio); }},
      {"stage_busy_s.[stage]", "s", "time in which a pipeline stage of this instance runs a batch",
       [](const Figures& f) { return of_decoder(f, busy); }},
      {"stage_busy_ratio.[stage]", "ratio", "the same as a share of the run",
       [](const Figures& f) { return f.decoder() != nullptr ? utilisation(f, *f.decoder()) : Value(); }},
      {"stage_bubble_s.[stage].[cause]", "s",
       "the rest of the run, by the [cause](serving.md) of the stage's idle time",
       [](const Figures& f) { return of_decoder(f, bubbles); }},
      {"prefill.kv_blocks.total", "", "two instances: the same figures of the instance that prefills",
       [](const Figures& f) { return of_prefill(f, total_blocks); }},
      {"prefill.kv_blocks.peak", "", "most blocks held at once",
       [](const Figures& f) { return of_prefill(f, peak_blocks); }},
      {"prefill.iterations.count", "", "batches", [](const Figures& f) { return of_prefill(f, iterations); }},
      {"prefill.iterations.mean_batch", "", "requests in a batch",
       [](const Figures& f) { return of_prefill(f, mean_batch); }},
      {"prefill.iterations.mean_tokens", "", "tokens in a batch",
       [](const Figures& f) { return of_prefill(f, mean_tokens); }},
      {"prefill.iterations.mean_s", "s", "time of a batch", [](const Figures& f) { return of_prefill(f, mean_s); }},
      {"prefill.stage_busy_s.[stage]", "s", "busy time of its stages",
       [](const Figures& f) { return of_prefill(f, busy); }},
      {"prefill.stage_bubble_s.[stage].[cause]", "s", "idle time of its stages",
       [](const Figures& f) { return of_prefill(f, bubbles); }},
  };
}

Metrics<Figures> each_instance_metrics() {
  return {
      {"instances.[instance].requests", "", "several instances: requests that have visited the instance, by its name",
       [](const Figures& f) { return of_each(f, [](const Figures::Instance& i) -> Value { return i.requests; }); }},
      {"instances.[instance].ttft_s", "s", "their time to first token, mean",
       [](const Figures& f) { return of_each(f, [](const Figures::Instance& i) -> Value { return i.ttft.mean(); }); }},
      {"instances.[instance].tpot_s", "s", "their time per output token, mean",
       [](const Figures& f) { return of_each(f, [](const Figures::Instance& i) -> Value { return i.tpot.mean(); }); }},
      {"instances.[instance].by_period.ttft_p99_s.[period]", "s", "as `by_period`, of the requests that visited it",
       [](const Figures& f) {
         return !f.periods.has_events() ? Value() : of_each(f, [](const Figures::Instance& i) -> Value {
           return by_period(i.periods, period_ttft_p99);
         });
       }},
      {"instances.[instance].by_period.tpot_p99_s.[period]", "s", "the same of their time per output token",
       [](const Figures& f) {
         return !f.periods.has_events() ? Value() : of_each(f, [](const Figures::Instance& i) -> Value {
           return by_period(i.periods, period_tpot_p99);
         });
       }},
      {"instances.[instance].prefix_hit_ratio", "ratio",
       "share of the tokens of prompts that started there which the prefix index had",
       [](const Figures& f) { return of_each(f, prefix_hits); }},
      {"instances.[instance].kv_blocks.total", "", "KV blocks of one of its ranks, one of them reserved",
       [](const Figures& f) { return of_each(f, total_blocks); }},
      {"instances.[instance].kv_blocks.peak", "", "most blocks held at once",
       [](const Figures& f) { return of_each(f, peak_blocks); }},
      {"instances.[instance].iterations.count", "", "batches", [](const Figures& f) { return of_each(f, iterations); }},
      {"instances.[instance].iterations.mean_batch", "", "requests in a batch",
       [](const Figures& f) { return of_each(f, mean_batch); }},
      {"instances.[instance].iterations.mean_tokens", "", "tokens in a batch",
       [](const Figures& f) { return of_each(f, mean_tokens); }},
      {"instances.[instance].iterations.tokens", "", "tokens in all of them",
       [](const Figures& f) { return of_each(f, tokens); }},
      {"instances.[instance].iterations.mean_s", "s", "time of a batch",
       [](const Figures& f) { return of_each(f, mean_s); }},
      {"instances.[instance].iterations.tokens_per_s", "1/s", "tokens / time of batches",
       [](const Figures& f) { return of_each(f, tokens_per_s); }},
      {"instances.[instance].iterations.padded_ratio", "ratio", "share of the tokens that only fill up a CUDA graph",
       [](const Figures& f) { return of_each(f, padded_ratio); }},
      {"instances.[instance].stage_busy_s.[stage]", "s", "busy time of its stages",
       [](const Figures& f) { return of_each(f, busy); }},
      {"instances.[instance].stage_bubble_s.[stage].[cause]", "s", "idle time of its stages",
       [](const Figures& f) { return of_each(f, bubbles); }},
  };
}

}  // namespace railyard
