#include "sc_main/kinds/serving_metrics.h"

#include <algorithm>

namespace railyard {

using workload::inference::Iteration;
using workload::inference::Served;
using workload::inference::StageTimes;

void ServingFigures::on_served(std::uint32_t, const Served& served) {
  const workload::inference::RequestTimes& t = served.times;
  const Time arrival = served.request.arrival;
  const std::uint32_t output = served.request.output_tokens;
  const double first = (t.first_token - arrival).seconds();
  const double per_token = output > 1 ? (t.last_token - t.first_token).seconds() / (output - 1.0) : 0;
  ++requests;
  ttft.add(first);
  if (output > 1) tpot.add(per_token);
  e2e.add((t.last_token - arrival).seconds());
  for (std::size_t i = 1; i < t.tokens.size(); ++i) itl.add((t.tokens[i] - t.tokens[i - 1]).seconds());
  first_arrival = sooner(first_arrival, arrival);
  last_token = later(last_token, t.last_token);
  prompt_tokens += served.request.prompt_tokens;
  output_tokens += output;
  cached_tokens += served.counts.cached_tokens;
  recomputed_tokens += served.counts.recomputed_tokens;
  preemptions += served.counts.preemptions;
  if (first <= slo.ttft_s.value_or(first) && per_token <= slo.tpot_s.value_or(per_token)) ++within_slo;
}

void ServingFigures::on_iteration(std::uint32_t, const Iteration& iteration, Time) {
  const std::uint32_t tokens = iteration.batch.tokens();
  ++iterations;
  batch_sum += static_cast<double>(iteration.batch.items.size());
  tokens_sum += tokens;
  padding_sum += static_cast<double>(iteration.padded_tokens - tokens);
  peak_blocks = std::max(peak_blocks, iteration.blocks_held);
}

void ServingFigures::close(workload::inference::Engine& engine, Time now) {
  const StageTimes& times = engine.stages();
  stages.assign(times.stages(), {});
  for (std::uint32_t p = 0; p < times.stages(); ++p)
    for (std::size_t use = 0; use < StageTimes::kUses; ++use)
      stages[p].seconds[use] = times.time(p, static_cast<StageTimes::Use>(use)).seconds();
  end_s = now.seconds();
}

double ServingFigures::rate(double amount) const {
  const double seconds = since(last_token, first_arrival).seconds();
  return seconds > 0 ? amount / seconds : 0.0;
}

double ServingFigures::slo_attainment_ratio() const {
  return requests > 0 ? static_cast<double>(within_slo) / static_cast<double>(requests) : 0.0;
}

double ServingFigures::prefix_hit_ratio() const {
  return prompt_tokens > 0 ? static_cast<double>(cached_tokens) / static_cast<double>(prompt_tokens) : 0.0;
}

double ServingFigures::padded_ratio() const { return tokens_sum > 0 ? padding_sum / (tokens_sum + padding_sum) : 0.0; }

namespace {

using F = ServingFigures;

Value stages(const F& f) {
  Value all = Value::empty_list();
  for (const F::Stage& stage : f.stages) {
    const double busy = stage.seconds[StageTimes::kBusy];
    Value bubbles = Value::empty_group();
    for (std::size_t use = StageTimes::kBusy + 1; use < StageTimes::kUses; ++use)
      bubbles[StageTimes::kNames[use]] = stage.seconds[use];
    all.push_back({{"busy_s", busy}, {"utilisation", f.end_s > 0 ? busy / f.end_s : 0.0}, {"bubble_s", bubbles}});
  }
  return all;
}

double whole(std::uint64_t count) { return static_cast<double>(count); }

}  // namespace

const Metrics<ServingFigures>& serving_metrics() {
  static const Metrics<F> metrics{
      {"requests", "", "requests served", [](const F& f) -> Value { return f.requests; }},
      {"request_rate_per_s", "1/s", "requests, from the first arrival to the last token",
       [](const F& f) -> Value { return f.rate(whole(f.requests)); }},
      {"prompt_tokens_per_s", "1/s", "prompt tokens, in the same time",
       [](const F& f) -> Value { return f.rate(whole(f.prompt_tokens)); }},
      {"output_tokens_per_s", "1/s", "output tokens, in the same time",
       [](const F& f) -> Value { return f.rate(whole(f.output_tokens)); }},
      {"total_tokens_per_s", "1/s", "both",
       [](const F& f) -> Value { return f.rate(whole(f.prompt_tokens + f.output_tokens)); }},
      {"ttft_s", "s", "from arrival to the first token at the client, mean of requests",
       [](const F& f) -> Value { return f.ttft.mean(); }},
      {"ttft_p50_s", "s", "median", [](const F& f) -> Value { return f.ttft.percentile(0.5); }},
      {"ttft_p90_s", "s", "90th percentile", [](const F& f) -> Value { return f.ttft.percentile(0.9); }},
      {"ttft_p95_s", "s", "95th percentile", [](const F& f) -> Value { return f.ttft.percentile(0.95); }},
      {"ttft_p99_s", "s", "99th percentile", [](const F& f) -> Value { return f.ttft.percentile(0.99); }},
      {"tpot_s", "s", "(last token - first token) / (tokens - 1), mean of requests with two tokens or more",
       [](const F& f) -> Value { return f.tpot.mean(); }},
      {"tpot_p50_s", "s", "median", [](const F& f) -> Value { return f.tpot.percentile(0.5); }},
      {"tpot_p90_s", "s", "90th percentile", [](const F& f) -> Value { return f.tpot.percentile(0.9); }},
      {"tpot_p95_s", "s", "95th percentile", [](const F& f) -> Value { return f.tpot.percentile(0.95); }},
      {"tpot_p99_s", "s", "99th percentile", [](const F& f) -> Value { return f.tpot.percentile(0.99); }},
      {"itl_s", "s", "time between two tokens of a request, mean of all",
       [](const F& f) -> Value { return f.itl.mean(); }},
      {"itl_p50_s", "s", "median, within 0.05 %", [](const F& f) -> Value { return f.itl.percentile(0.5); }},
      {"itl_p90_s", "s", "90th percentile, within 0.05 %", [](const F& f) -> Value { return f.itl.percentile(0.9); }},
      {"itl_p95_s", "s", "95th percentile, within 0.05 %", [](const F& f) -> Value { return f.itl.percentile(0.95); }},
      {"itl_p99_s", "s", "99th percentile, within 0.05 %", [](const F& f) -> Value { return f.itl.percentile(0.99); }},
      {"e2e_s", "s", "from arrival to the last token, mean of requests",
       [](const F& f) -> Value { return f.e2e.mean(); }},
      {"e2e_p50_s", "s", "median", [](const F& f) -> Value { return f.e2e.percentile(0.5); }},
      {"e2e_p90_s", "s", "90th percentile", [](const F& f) -> Value { return f.e2e.percentile(0.9); }},
      {"e2e_p95_s", "s", "95th percentile", [](const F& f) -> Value { return f.e2e.percentile(0.95); }},
      {"e2e_p99_s", "s", "99th percentile", [](const F& f) -> Value { return f.e2e.percentile(0.99); }},
      {"goodput_per_s", "1/s", "requests that meet the objectives of `workload.slo`",
       [](const F& f) -> Value { return f.rate(whole(f.within_slo)); }},
      {"slo_attainment_ratio", "", "share of the requests that meet them; 1 without objectives",
       [](const F& f) -> Value { return f.slo_attainment_ratio(); }},
      {"preemptions", "", "times that a running request gave up its KV blocks",
       [](const F& f) -> Value { return f.preemptions; }},
      {"recomputed_tokens", "", "tokens computed again after a preemption",
       [](const F& f) -> Value { return f.recomputed_tokens; }},
      {"prefix_hit_ratio", "", "share of the prompt tokens that were found in the prefix index",
       [](const F& f) -> Value { return f.prefix_hit_ratio(); }},
      {"kv_blocks.total", "", "KV blocks of a rank, one of them reserved",
       [](const F& f) -> Value { return f.kv_blocks; }},
      {"kv_blocks.peak", "", "most blocks that requests held at once",
       [](const F& f) -> Value { return f.peak_blocks; }},
      {"iterations.count", "", "batches", [](const F& f) -> Value { return f.iterations; }},
      {"iterations.mean_batch", "", "requests in a batch", [](const F& f) -> Value { return f.mean(f.batch_sum); }},
      {"iterations.mean_tokens", "", "tokens in a batch", [](const F& f) -> Value { return f.mean(f.tokens_sum); }},
      {"iterations.padded_ratio", "", "share of the tokens that only fill up a CUDA graph",
       [](const F& f) -> Value { return f.padded_ratio(); }},
      {"stages", "", "for each pipeline stage: `busy_s`, `utilisation` (of the run), and `bubble_s` by cause", stages},
  };
  return metrics;
}

}  // namespace railyard
