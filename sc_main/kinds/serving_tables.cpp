#include <fmt/format.h>
#include <fmt/os.h>
#include <algorithm>

#include "sc_main/kinds/serving_run.h"

namespace railyard {

namespace {

using workload::inference::Iteration;
using workload::inference::SchedulerSpec;
using workload::inference::Served;
using workload::inference::StageTimes;

std::uint64_t nanoseconds(Time t) { return (t.fs() + 500'000) / 1'000'000; }

template <class Values>
void add_percentiles(Value& metrics, const std::string& name, const Values& values) {
  metrics[name + "_s"] = values.mean();
  for (const int percent : {50, 90, 95, 99})
    metrics[fmt::format("{}_p{}_s", name, percent)] = values.percentile(percent / 100.0);
}

Value scheduler_value(const SchedulerSpec& s) {
  static constexpr const char* kPolicies[] = {"fcfs", "priority"};
  static constexpr const char* kMixes[] = {"mixed", "prefill_first"};
  static constexpr const char* kReserves[] = {"chunk", "sequence", "expected_output", "full_output"};
  static constexpr const char* kPreemptions[] = {"recompute", "never"};
  return {{"policy", kPolicies[static_cast<std::size_t>(s.policy)]},
          {"max_batched_tokens", s.max_batched_tokens},
          {"max_seqs", s.max_seqs},
          {"long_prefill_threshold_tokens", s.long_prefill_threshold_tokens},
          {"chunked_prefill", s.chunked_prefill},
          {"mix", kMixes[static_cast<std::size_t>(s.mix)]},
          {"reserve", kReserves[static_cast<std::size_t>(s.reserve)]},
          {"preemption", kPreemptions[static_cast<std::size_t>(s.preemption)]},
          {"watermark_ratio", s.watermark_ratio},
          {"prefix_caching", s.prefix_caching},
          {"block_tokens", s.block_tokens},
          {"max_in_flight", s.max_in_flight}};
}

}  // namespace

void ServingRun::add_setup(Value& setup) const {
  setup["instance"] = {
      {"name", instance_spec().name}, {"tp", instance_spec().mapping.tp}, {"pp", instance_spec().mapping.pp}};
  setup["scheduler_preset"] = instance_spec().scheduler_preset;
  setup["scheduler"] = scheduler_value(instance_spec().scheduler);
  setup["host"] = spec().host.name;
  setup["requests"] = serving_->count();
}

void ServingRun::on_served(std::uint32_t request, const Served& served) {
  const workload::inference::RequestTimes& t = served.times;
  const Time arrival = served.request.arrival;
  const std::uint32_t output = served.request.output_tokens;
  const double ttft = (t.first_token - arrival).seconds();
  const double tpot = output > 1 ? (t.last_token - t.first_token).seconds() / (output - 1.0) : 0;
  ttft_.add(ttft);
  e2e_.add((t.last_token - arrival).seconds());
  if (output > 1) tpot_.add(tpot);
  for (std::size_t i = 1; i < t.tokens.size(); ++i) itl_.add((t.tokens[i] - t.tokens[i - 1]).seconds());
  first_arrival_ = sooner(first_arrival_, arrival);
  last_token_ = later(last_token_, t.last_token);
  prompt_tokens_ += served.request.prompt_tokens;
  output_tokens_ += output;
  cached_tokens_ += served.counts.cached_tokens;
  recomputed_tokens_ += served.counts.recomputed_tokens;
  preemptions_ += served.counts.preemptions;
  if (ttft <= spec().slo.ttft_s.value_or(ttft) && tpot <= spec().slo.tpot_s.value_or(tpot)) ++good_;
  if (!requests_csv_) return;

  std::string gaps;
  for (std::size_t i = 1; i < t.tokens.size(); ++i)
    gaps += fmt::format("{}{}", i > 1 ? ", " : "", nanoseconds(t.tokens[i]) - nanoseconds(t.tokens[i - 1]));
  const std::uint64_t from = nanoseconds(arrival), end = nanoseconds(t.last_token), first = nanoseconds(t.first_token);
  requests_csv_->print("0,{},{},{},{},{},{},{},{},{},{},\"[{}]\",{},{},{}\n", request, scenario_.model.name,
                       served.request.prompt_tokens, output, from, end, end - from, nanoseconds(t.prefill_begun) - from,
                       first - from, output > 1 ? (end - first) / (output - 1) : 0, gaps, served.counts.preemptions,
                       served.counts.cached_tokens, served.counts.recomputed_tokens);
}

void ServingRun::on_iteration(std::uint32_t, const Iteration& iteration, Time) {
  const std::uint32_t tokens = iteration.batch.tokens();
  batch_sum_ += static_cast<double>(iteration.batch.items.size());
  tokens_sum_ += tokens;
  padding_sum_ += static_cast<double>(iteration.padded_tokens - tokens);
  peak_blocks_ = std::max(peak_blocks_, iteration.blocks_held);
}

void ServingRun::add_metrics(Value& metrics) {
  workload::inference::Engine& engine = serving_->engine();
  const double seconds = since(last_token_, first_arrival_).seconds();
  const auto rate = [&](double amount) { return seconds > 0 ? amount / seconds : 0.0; };
  metrics["requests"] = serving_->served();
  metrics["request_rate_per_s"] = rate(serving_->served());
  metrics["prompt_tokens_per_s"] = rate(static_cast<double>(prompt_tokens_));
  metrics["output_tokens_per_s"] = rate(static_cast<double>(output_tokens_));
  metrics["total_tokens_per_s"] = rate(static_cast<double>(prompt_tokens_ + output_tokens_));
  add_percentiles(metrics, "ttft", ttft_);
  add_percentiles(metrics, "tpot", tpot_);
  add_percentiles(metrics, "itl", itl_);
  add_percentiles(metrics, "e2e", e2e_);
  metrics["goodput_per_s"] = rate(static_cast<double>(good_));
  metrics["slo_attainment_ratio"] =
      ttft_.count() > 0 ? static_cast<double>(good_) / static_cast<double>(ttft_.count()) : 0.0;
  metrics["preemptions"] = preemptions_;
  metrics["recomputed_tokens"] = recomputed_tokens_;
  metrics["prefix_hit_ratio"] =
      prompt_tokens_ > 0 ? static_cast<double>(cached_tokens_) / static_cast<double>(prompt_tokens_) : 0.0;
  metrics["kv_blocks"] = {{"total", blocks_}, {"peak", peak_blocks_}};
  const double count = std::max(1u, engine.iterations());
  metrics["iterations"] = {{"count", engine.iterations()},
                           {"mean_batch", batch_sum_ / count},
                           {"mean_tokens", tokens_sum_ / count},
                           {"padded_ratio", tokens_sum_ > 0 ? padding_sum_ / (tokens_sum_ + padding_sum_) : 0.0}};
  const StageTimes& times = engine.stages();
  const double all = fabric_.now().seconds();
  Value stages = Value::empty_list();
  for (std::uint32_t p = 0; p < instance_spec().mapping.pp; ++p) {
    Value bubbles;
    for (std::size_t use = StageTimes::kBusy + 1; use < StageTimes::kUses; ++use)
      bubbles[StageTimes::kNames[use]] = times.time(p, static_cast<StageTimes::Use>(use)).seconds();
    const double busy = times.time(p, StageTimes::kBusy).seconds();
    stages.push_back({{"busy_s", busy}, {"utilisation", all > 0 ? busy / all : 0.0}, {"bubble_s", bubbles}});
  }
  metrics["stages"] = stages;
}

void ServingRun::open_tables(const OutputDirectory& directory) {
  requests_csv_.emplace(fmt::output_file(directory.file("requests.csv")));
  // The first twelve columns have the format of LLMServingSim: nanoseconds, rows in completion order.
  requests_csv_->print(
      "instance id,request id,model,input,output,arrival,end_time,latency,queuing_delay,TTFT,TPOT,ITL,"
      "preemptions,cached_tokens,recomputed_tokens\n");
}

void ServingRun::write_tables(const OutputDirectory&) { requests_csv_.reset(); }

std::string ServingRun::table(const Value& s) const {
  const Value& m = s["metrics"];
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("    {:<30} {}\n", name, value);
  };
  const auto seconds = [&](const Value& v) { return duration_text(v.real()); };
  const auto spread = [&](const std::string& n) {
    return fmt::format("{}  (p50 {}, p90 {}, p99 {})", seconds(m[n + "_s"]), seconds(m[n + "_p50_s"]),
                       seconds(m[n + "_p90_s"]), seconds(m[n + "_p99_s"]));
  };
  const auto percent = [](double ratio) { return fmt::format("{:.1f} %", 100 * ratio); };
  text += fmt::format("{} on {}: {} requests, tp {}, pp {}, scheduler {}, host {}\n", s["model"].text(),
                      machine_text(scenario_), m["requests"].integer(), instance_spec().mapping.tp,
                      instance_spec().mapping.pp, instance_spec().scheduler_preset, spec().host.name);
  text += "\n  each request, mean\n";
  line("TTFT", spread("ttft"));
  line("TPOT", spread("tpot"));
  line("time between tokens", spread("itl"));
  line("end to end", spread("e2e"));
  text += "\n  achieved, from the first arrival to the last token\n";
  line("requests", fmt::format("{:.3f} requests/s", m["request_rate_per_s"].real()));
  if (spec().slo.ttft_s || spec().slo.tpot_s)
    line("within the objectives",
         fmt::format("{:.3f} requests/s, {}", m["goodput_per_s"].real(), percent(m["slo_attainment_ratio"].real())));
  line("prompts, answers", fmt::format("{:.1f} tokens/s, {:.1f} tokens/s", m["prompt_tokens_per_s"].real(),
                                       m["output_tokens_per_s"].real()));
  text += "\n  engine\n";
  const Value& iterations = m["iterations"];
  line("iterations", fmt::format("{}, mean {:.1f} requests and {:.1f} tokens", iterations["count"].integer(),
                                 iterations["mean_batch"].real(), iterations["mean_tokens"].real()));
  line("KV blocks",
       fmt::format("{} of {} at most", m["kv_blocks"]["peak"].integer(), m["kv_blocks"]["total"].integer()));
  line("prefix hits", percent(m["prefix_hit_ratio"].real()) + " of prompt tokens");
  line("preemptions",
       fmt::format("{}, {} tokens computed again", m["preemptions"].integer(), m["recomputed_tokens"].integer()));
  std::size_t p = 0;
  for (const Value& stage : m["stages"].items()) {
    std::string causes;
    for (const Value::Member& cause : stage["bubble_s"].members())
      if (cause.value.real() > 0) causes += fmt::format(", {} {}", cause.name, seconds(cause.value));
    line(fmt::format("stage {} busy", p++), percent(stage["utilisation"].real()) + causes);
  }
  return text;
}

}  // namespace railyard
