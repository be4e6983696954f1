#include <fmt/format.h>
#include <algorithm>

#include "sc_main/kinds/disaggregated_prefill.h"

namespace railyard {

namespace {

using workload::inference::RankTimes;

/// Lengths of the requests: {least, mean, most}.
Value length_range(const std::vector<std::uint32_t>& tokens) {
  const auto [least, most] = std::minmax_element(tokens.begin(), tokens.end());
  return {{"least", *least}, {"mean", mean({tokens.begin(), tokens.end()})}, {"most", *most}};
}

std::uint64_t nanoseconds(Time t) { return (t.fs() + 500'000) / 1'000'000; }

std::string peak_memory(const Value& ranks) {
  double most = 0, capacity = 0;
  for (const Value& r : ranks.items()) {
    if (r["peak_bytes"].real() <= most) continue;
    most = r["peak_bytes"].real();
    capacity = r["capacity_bytes"].real();
  }
  return fmt::format("{:.2f} of {:.0f} GB", most * 1e-9, capacity * 1e-9);
}

}  // namespace

void DisaggregatedPrefill::add_setup(Value& setup) const {
  std::vector<std::uint32_t> prompts, outputs;
  for (const workload::inference::Request& request : spec().requests) {
    prompts.push_back(request.prompt_tokens);
    outputs.push_back(request.output_tokens);
  }
  setup["prefill"] = {{"tp", spec().prefill.tp}, {"pp", spec().prefill.pp}};
  setup["decode"] = {{"tp", spec().decode.tp}, {"pp", spec().decode.pp}, {"max_batch", spec().max_batch}};
  setup["chunk_tokens"] = spec().chunk_tokens;
  setup["host"] = spec().host.name;
  setup["requests"] = spec().requests.size();
  setup["prompt_tokens"] = length_range(prompts);
  setup["output_tokens"] = length_range(outputs);
}

const Metrics<PrefillFigures>& DisaggregatedPrefill::declared_metrics() { return prefill_metrics(); }

void DisaggregatedPrefill::add_metrics(Value& metrics) const {
  railyard::add_metrics(metrics, declared_metrics(), figures());
}

const PrefillFigures& DisaggregatedPrefill::figures() const {
  figures_->close(*service_);
  return *figures_;
}

void DisaggregatedPrefill::open_tables(const OutputDirectory& directory) {
  requests_csv_.emplace(directory.file("requests.csv"));
  service_->add_sink(*this);
  // The first twelve columns have the format of LLMServingSim: nanoseconds, rows in completion order.
  requests_csv_->print(
      "instance id,request id,model,input,output,arrival,end_time,latency,queuing_delay,TTFT,TPOT,ITL,"
      "queued_ns,admitted_ns,prefill_begin_ns,prefilled_ns,first_token_ns,kv_landed_ns,decode_begin_ns\n");
}

void DisaggregatedPrefill::on_served(std::uint32_t r, const workload::inference::Served& served) {
  const workload::inference::Request& request = served.request;
  const workload::inference::RequestTimes& t = served.times;
  const std::uint64_t arrival = nanoseconds(request.arrival), end = nanoseconds(t.last_token);
  const std::uint64_t first = nanoseconds(t.first_token);
  std::string gaps;
  for (std::size_t i = 1; i < t.tokens.size(); ++i)
    gaps += fmt::format("{}{}", i > 1 ? ", " : "", nanoseconds(t.tokens[i]) - nanoseconds(t.tokens[i - 1]));
  const std::uint64_t tpot = t.tokens.size() > 1 ? (end - first) / (t.tokens.size() - 1) : 0;
  requests_csv_->print("0,{},{},{},{},{},{},{},{},{},{},\"[{}]\",{},{},{},{},{},{},{}\n", r, scenario_.model.name,
                       request.prompt_tokens, request.output_tokens, arrival, end, end - arrival,
                       nanoseconds(served.prefill_begun()) - arrival, first - arrival, tpot, gaps,
                       nanoseconds(t.queued), nanoseconds(served.admitted()), nanoseconds(served.prefill_begun()),
                       nanoseconds(served.prefilled()), first, nanoseconds(served.kv_landed()),
                       nanoseconds(served.decode_begun()));
}

void DisaggregatedPrefill::write_tables(const OutputDirectory&) { requests_csv_.reset(); }

std::string DisaggregatedPrefill::table() const {
  const PrefillFigures& f = figures();
  const std::size_t requests = f.ttft_s.size();
  const bool many = requests > 1;
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("    {:<30} {}\n", name, value);
  };
  const auto spread = [&](const std::vector<double>& seconds) {
    return duration_text(mean(seconds)) +
           (many ? fmt::format("  (p50 {}, p99 {})", duration_text(percentile(seconds, 0.50)),
                               duration_text(percentile(seconds, 0.99)))
                 : "");
  };
  const auto per_s = [](double tokens) { return fmt::format("{:.1f} tokens/s", tokens); };
  // Time of an instance's ranks outside kernels: for a whole run, or per step.
  const auto exposed = [](const RankTimes& t, double steps) {
    return fmt::format("{} / {} / {} / {}, mean of ranks", duration_text(t.tp_s / steps),
                       duration_text(t.tp_sync_s / steps), duration_text(t.pp_s / steps),
                       duration_text(t.host_s / steps));
  };
  const Value ranks = memory();
  text += fmt::format("{} on {}: {} request{}, host {}\n", scenario_.model.name, machine_text(scenario_), requests,
                      requests == 1 ? "" : "s", spec().host.name);
  text += many ? "\n  each request, mean\n" : "\n  the request\n";
  line("TTFT", spread(f.ttft_s));
  line("time to decode start", spread(f.decode_start_s));
  line("TPOT", spread(f.tpot_s));
  line("queueing", duration_text(mean(f.queueing_s)));
  line("exposed KV handoff", duration_text(mean(f.exposed_kv_s)));
  text += "\n  achieved, from the first arrival to the last token\n";
  line("requests", fmt::format("{:.3f} requests/s", f.rate(static_cast<double>(requests))));
  line("prompts, answers", per_s(f.rate(f.prompt_tokens)) + ", " + per_s(f.rate(f.output_tokens)));
  text += fmt::format("\n  prefill, in all: {} with a prompt in it\n", duration_text(f.prefill_window_s));
  line("capacity", per_s(f.prefill_capacity_tokens_per_s));
  std::string stages;
  for (std::size_t p = 0; p < f.stage_utilisation.size(); ++p)
    stages += fmt::format("{}stage{} {:.1f} %", p == 0 ? "" : ", ", p, 100 * f.stage_utilisation[p]);
  line("kernel utilisation", stages);
  line("bubble fraction", fmt::format("{:.1f} %", 100 * f.bubble_fraction));
  line("exposed TP / gate / PP / host", exposed(f.prefill, 1));
  line("peak memory of a rank", peak_memory(ranks["prefill"]));
  if (f.decode_steps > 0) {
    text += fmt::format("\n  decode, each step, mean of {}\n", f.decode_steps);
    line("time", duration_text(f.decode_step_s));
    line("batch", fmt::format("{:.1f} requests", f.decode_batch));
    line("capacity", per_s(f.decode_capacity_tokens_per_s));
    line("exposed TP / gate / PP / host", exposed(f.decode, static_cast<double>(f.decode_steps)));
    line("peak memory of a rank", peak_memory(ranks["decode"]));
  }
  return text;
}

}  // namespace railyard
