#include <fmt/format.h>
#include <fmt/os.h>
#include <algorithm>
#include <cmath>

#include "sc_main/kinds/disaggregated_prefill.h"

namespace railyard {

namespace {

using workload::inference::RankTimes;
using workload::inference::RequestTimes;

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// Nearest rank: the smallest value such that at least `ratio` of all values do not exceed this value.
double percentile(std::vector<double> values, double ratio) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(ratio * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

void add_percentiles(Value& metrics, const std::string& name, const std::vector<double>& values) {
  metrics[name + "_s"] = mean(values);
  metrics[name + "_p50_s"] = percentile(values, 0.50);
  metrics[name + "_p99_s"] = percentile(values, 0.99);
}

void add_request_metrics(Value& metrics, workload::inference::Service& service) {
  std::vector<double> ttft, tpot, decode_start, queueing, kv_exposed;
  for (const std::uint32_t r : service.finished_order()) {
    const RequestTimes& t = service.requests()[r];
    const Time arrival = service.spec().requests[r].arrival;
    ttft.push_back((t.first_token - arrival).seconds());
    decode_start.push_back((t.decode_begun - arrival).seconds());
    queueing.push_back((t.prefill_begun - t.queued).seconds());
    kv_exposed.push_back((t.kv_landed - t.prefilled).seconds());
    const std::uint32_t tokens = service.spec().requests[r].output_tokens;
    if (tokens > 1) tpot.push_back((t.last_token - t.first_token).seconds() / (tokens - 1.0));
  }
  metrics["requests"] = ttft.size();
  add_percentiles(metrics, "ttft", ttft);
  add_percentiles(metrics, "decode_start", decode_start);
  add_percentiles(metrics, "tpot", tpot);
  metrics["queueing_s"] = mean(queueing);
  metrics["exposed_s"]["kv"] = mean(kv_exposed);
}

/// The achieved rates, from the first arrival to the last token, regardless of the rates that the groups could reach.
void add_achieved_rates(Value& metrics, workload::inference::Service& service) {
  Time from = Time::max(), to;
  double prompt = 0, output = 0;
  for (const std::uint32_t r : service.finished_order()) {
    const workload::inference::Request& request = service.spec().requests[r];
    from = sooner(from, request.arrival);
    to = later(to, service.requests()[r].last_token);
    prompt += request.prompt_tokens;
    output += request.output_tokens;
  }
  const double seconds = since(to, from).seconds();
  const auto rate = [&](double amount) { return seconds > 0 ? amount / seconds : 0.0; };
  metrics["request_rate_per_s"] = rate(static_cast<double>(service.finished()));
  metrics["prompt_tokens_per_s"] = rate(prompt);
  metrics["output_tokens_per_s"] = rate(output);
}

void add_pipeline_metrics(Value& metrics, workload::inference::Service& service) {
  workload::inference::Instance& instance = service.prefill_instance();
  const double window = service.prefill_window().seconds();
  RankTimes sum;
  Value utilisation = Value::empty_group();
  for (std::uint32_t p = 0; p < instance.pp(); ++p) {
    double kernels = 0;
    for (std::uint32_t t = 0; t < instance.tp(); ++t) {
      const RankTimes& times = service.prefill().pipeline().times(p * instance.tp() + t);
      kernels += times.kernels_s;
      sum.tp_s += times.tp_s;
      sum.tp_sync_s += times.tp_sync_s;
      sum.pp_s += times.pp_s;
      sum.host_s += times.host_s;
      sum.occupied_s += times.occupied_s;
    }
    utilisation[fmt::format("stage{}", p)] = window > 0 ? kernels / instance.tp() / window : 0.0;
  }
  const double ranks = instance.ranks();
  metrics["prefill_window_s"] = window;
  metrics["prefill_capacity_tokens_per_s"] =
      window > 0 ? static_cast<double>(service.prefill().tokens_done()) / window : 0.0;
  metrics["stage_utilisation"] = utilisation;
  metrics["bubble_fraction"] = window > 0 ? std::max(0.0, 1 - sum.occupied_s / ranks / window) : 0.0;
  metrics["exposed_s"]["tp"] = sum.tp_s / ranks;
  metrics["exposed_s"]["pp"] = sum.pp_s / ranks;
  metrics["exposed_s"]["tp_sync"] = sum.tp_sync_s / ranks;
  metrics["exposed_s"]["host"] = sum.host_s / ranks;
}

void add_decode_metrics(Value& metrics, workload::inference::Service& service) {
  const workload::inference::DecodeScheduler& decode = service.decode();
  Value d;
  d["steps"] = decode.steps();
  d["tokens"] = decode.tokens();
  d["step_s"] = decode.steps() > 0 ? decode.step_seconds() / decode.steps() : 0.0;
  d["batch"] = decode.steps() > 0 ? static_cast<double>(decode.tokens()) / decode.steps() : 0.0;
  d["capacity_tokens_per_s"] =
      decode.step_seconds() > 0 ? static_cast<double>(decode.tokens()) / decode.step_seconds() : 0.0;
  RankTimes sum;
  const std::uint32_t ranks = service.decode_instance().ranks();
  for (std::uint32_t r = 0; r < ranks; ++r) {
    sum.tp_s += decode.pipeline().times(r).tp_s;
    sum.tp_sync_s += decode.pipeline().times(r).tp_sync_s;
    sum.pp_s += decode.pipeline().times(r).pp_s;
    sum.host_s += decode.pipeline().times(r).host_s;
  }
  d["exposed_s"] = {{"tp", sum.tp_s / ranks},
                    {"pp", sum.pp_s / ranks},
                    {"tp_sync", sum.tp_sync_s / ranks},
                    {"host", sum.host_s / ranks}};
  metrics["decode"] = d;
}

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

void DisaggregatedPrefill::add_metrics(Value& metrics) {
  add_request_metrics(metrics, *service_);
  add_achieved_rates(metrics, *service_);
  add_pipeline_metrics(metrics, *service_);
  add_decode_metrics(metrics, *service_);
}

void DisaggregatedPrefill::open_tables(const OutputDirectory& directory) {
  requests_csv_.emplace(fmt::output_file(directory.file("requests.csv")));
  service_->add_sink(*this);
  // The first twelve columns have the format of LLMServingSim: nanoseconds, rows in completion order.
  requests_csv_->print(
      "instance id,request id,model,input,output,arrival,end_time,latency,queuing_delay,TTFT,TPOT,ITL,"
      "queued_ns,admitted_ns,prefill_begin_ns,prefilled_ns,first_token_ns,kv_landed_ns,decode_begin_ns\n");
}

void DisaggregatedPrefill::on_request_done(std::uint32_t r, const RequestTimes& t) {
  const workload::inference::Request& request = spec().requests[r];
  const std::uint64_t arrival = nanoseconds(request.arrival), end = nanoseconds(t.last_token);
  const std::uint64_t first = nanoseconds(t.first_token);
  std::string gaps;
  for (std::size_t i = 1; i < t.tokens.size(); ++i)
    gaps += fmt::format("{}{}", i > 1 ? ", " : "", nanoseconds(t.tokens[i]) - nanoseconds(t.tokens[i - 1]));
  const std::uint64_t tpot = t.tokens.size() > 1 ? (end - first) / (t.tokens.size() - 1) : 0;
  requests_csv_->print("0,{},{},{},{},{},{},{},{},{},{},\"[{}]\",{},{},{},{},{},{},{}\n", r, scenario_.model.name,
                       request.prompt_tokens, request.output_tokens, arrival, end, end - arrival,
                       nanoseconds(t.prefill_begun) - arrival, first - arrival, tpot, gaps, nanoseconds(t.queued),
                       nanoseconds(t.admitted), nanoseconds(t.prefill_begun), nanoseconds(t.prefilled), first,
                       nanoseconds(t.kv_landed), nanoseconds(t.decode_begun));
}

void DisaggregatedPrefill::write_tables(const OutputDirectory&) { requests_csv_.reset(); }

std::string DisaggregatedPrefill::table(const Value& s) const {
  const Value& m = s["metrics"];
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("    {:<30} {}\n", name, value);
  };
  const auto seconds = [&](const Value& j) { return duration_text(j.real()); };
  text += fmt::format("{} on {}: {} request{}, host {}\n", s["model"].text(), machine_text(scenario_),
                      m["requests"].integer(), m["requests"].integer() == 1 ? "" : "s", spec().host.name);
  const bool many = m["requests"].integer() > 1;
  const auto spread = [&](const char* name) {
    const std::string n = name;
    return seconds(m[n + "_s"]) +
           (many ? fmt::format("  (p50 {}, p99 {})", seconds(m[n + "_p50_s"]), seconds(m[n + "_p99_s"])) : "");
  };
  const auto per_s = [](const Value& rate) { return fmt::format("{:.1f} tokens/s", rate.real()); };
  // Time of an instance's ranks outside kernels: for a whole run, or per step.
  const auto exposed = [&](const Value& e, double steps) {
    const auto each = [&](const char* name) { return duration_text(e[name].real() / steps); };
    return fmt::format("{} / {} / {} / {}", each("tp"), each("tp_sync"), each("pp"), each("host"));
  };
  const Value& d = m["decode"];
  const int steps = d["steps"].integer();
  text += many ? "\n  each request, mean\n" : "\n  the request\n";
  line("TTFT", spread("ttft"));
  line("time to decode start", spread("decode_start"));
  line("TPOT", spread("tpot"));
  line("queueing", seconds(m["queueing_s"]));
  line("exposed KV handoff", seconds(m["exposed_s"]["kv"]));
  text += "\n  achieved, from the first arrival to the last token\n";
  line("requests", fmt::format("{:.3f} requests/s", m["request_rate_per_s"].real()));
  line("prompts, answers", per_s(m["prompt_tokens_per_s"]) + ", " + per_s(m["output_tokens_per_s"]));
  text += fmt::format("\n  prefill, in all: {} with a prompt in it\n", seconds(m["prefill_window_s"]));
  line("capacity", per_s(m["prefill_capacity_tokens_per_s"]));
  std::string stages;
  for (const auto& [name, value] : m["stage_utilisation"].members())
    stages += fmt::format("{}{} {:.1f} %", stages.empty() ? "" : ", ", name, 100 * value.real());
  line("kernel utilisation", stages);
  line("bubble fraction", fmt::format("{:.1f} %", 100 * m["bubble_fraction"].real()));
  line("exposed TP / gate / PP / host", exposed(m["exposed_s"], 1) + ", mean of ranks");
  line("peak memory of a rank", peak_memory(s["memory"]["prefill"]));
  if (steps > 0) {
    text += fmt::format("\n  decode, each step, mean of {}\n", steps);
    line("time", seconds(d["step_s"]));
    line("batch", fmt::format("{:.1f} requests", d["batch"].real()));
    line("capacity", per_s(d["capacity_tokens_per_s"]));
    line("exposed TP / gate / PP / host", exposed(d["exposed_s"], steps) + ", mean of ranks");
    line("peak memory of a rank", peak_memory(s["memory"]["decode"]));
  }
  return text;
}

}  // namespace railyard
