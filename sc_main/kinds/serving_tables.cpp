#include <fmt/format.h>
#include <fmt/os.h>
#include <algorithm>

#include "sc_main/kinds/serving_run.h"

namespace railyard {

namespace {

using workload::inference::SchedulerSpec;
using workload::inference::Served;
using workload::inference::StageTimes;

std::uint64_t nanoseconds(Time t) { return (t.fs() + 500'000) / 1'000'000; }

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

void ServingRun::open_tables(const OutputDirectory& directory) {
  requests_csv_.emplace(fmt::output_file(directory.file("requests.csv")));
  serving_->add_sink(*this);
  // The first twelve columns have the format of LLMServingSim: nanoseconds, rows in completion order.
  requests_csv_->print(
      "instance id,request id,model,input,output,arrival,end_time,latency,queuing_delay,TTFT,TPOT,ITL,"
      "preemptions,cached_tokens,recomputed_tokens\n");
}

void ServingRun::on_served(std::uint32_t request, const Served& served) {
  const workload::inference::RequestTimes& t = served.times;
  const std::uint32_t output = served.request.output_tokens;
  std::string gaps;
  for (std::size_t i = 1; i < t.tokens.size(); ++i)
    gaps += fmt::format("{}{}", i > 1 ? ", " : "", nanoseconds(t.tokens[i]) - nanoseconds(t.tokens[i - 1]));
  const std::uint64_t from = nanoseconds(served.request.arrival), end = nanoseconds(t.last_token),
                      first = nanoseconds(t.first_token);
  requests_csv_->print("0,{},{},{},{},{},{},{},{},{},{},\"[{}]\",{},{},{}\n", request, scenario_.model.name,
                       served.request.prompt_tokens, output, from, end, end - from, nanoseconds(t.prefill_begun) - from,
                       first - from, output > 1 ? (end - first) / (output - 1) : 0, gaps, served.counts.preemptions,
                       served.counts.cached_tokens, served.counts.recomputed_tokens);
}

void ServingRun::write_tables(const OutputDirectory&) { requests_csv_.reset(); }

std::string ServingRun::table() const {
  const ServingFigures& f = figures();
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("    {:<30} {}\n", name, value);
  };
  const auto spread = [](const auto& values) {
    return fmt::format("{}  (p50 {}, p90 {}, p99 {})", duration_text(values.mean()),
                       duration_text(values.percentile(0.5)), duration_text(values.percentile(0.9)),
                       duration_text(values.percentile(0.99)));
  };
  const auto percent = [](double ratio) { return fmt::format("{:.1f} %", 100 * ratio); };
  text += fmt::format("{} on {}: {} requests, tp {}, pp {}, scheduler {}, host {}\n", scenario_.model.name,
                      machine_text(scenario_), f.requests, instance_spec().mapping.tp, instance_spec().mapping.pp,
                      instance_spec().scheduler_preset, spec().host.name);
  text += "\n  each request, mean\n";
  line("TTFT", spread(f.ttft));
  line("TPOT", spread(f.tpot));
  line("time between tokens", spread(f.itl));
  line("end to end", spread(f.e2e));
  text += "\n  achieved, from the first arrival to the last token\n";
  const auto rate = [&](std::uint64_t count) { return f.rate(static_cast<double>(count)); };
  line("requests", fmt::format("{:.3f} requests/s", rate(f.requests)));
  if (f.slo.ttft_s || f.slo.tpot_s)
    line("within the objectives",
         fmt::format("{:.3f} requests/s, {}", rate(f.within_slo), percent(f.slo_attainment_ratio())));
  line("prompts, answers",
       fmt::format("{:.1f} tokens/s, {:.1f} tokens/s", rate(f.prompt_tokens), rate(f.output_tokens)));
  text += "\n  engine\n";
  line("batches", fmt::format("{}, mean {:.1f} requests and {:.1f} tokens", f.iterations, f.mean(f.batch_sum),
                              f.mean(f.tokens_sum)));
  line("KV blocks", fmt::format("{} of {} at most", f.peak_blocks, f.kv_blocks - 1));
  line("prefix hits", percent(f.prefix_hit_ratio()) + " of prompt tokens");
  line("preemptions", fmt::format("{}, {} tokens computed again", f.preemptions, f.recomputed_tokens));
  for (std::size_t p = 0; p < f.stages.size(); ++p) {
    const auto& seconds = f.stages[p].seconds;
    std::string causes;
    for (std::size_t use = StageTimes::kBusy + 1; use < StageTimes::kUses; ++use)
      if (seconds[use] > 0) causes += fmt::format(", {} {}", StageTimes::kNames[use], duration_text(seconds[use]));
    line(fmt::format("stage {} busy", p), percent(f.end_s > 0 ? seconds[StageTimes::kBusy] / f.end_s : 0) + causes);
  }
  return text;
}

}  // namespace railyard
