#include "sc_main/serve/live_metrics.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

namespace railyard::serve {

using workload::inference::Stay;

namespace {

// Bounds of vLLM's histograms (vllm/v1/metrics/loggers.py).
const std::vector<double> kTtftBounds{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                      1,     2.5,   5,    7.5,  10,   20,   40,   80.0, 160.0, 640.0, 2560.0};
const std::vector<double> kTokenBounds{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                       0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const std::vector<double> kRequestBounds{0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                         30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
const std::vector<double> kIterationBounds{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

/// 1, 2, 5, 10 ... up to the most tokens of a request.
std::vector<double> token_count_bounds(std::uint32_t most) {
  std::vector<double> bounds;
  for (double power = 1; power <= most; power *= 10)
    for (const double step : {1, 2, 5})
      if (step * power <= most) bounds.push_back(step * power);
  return bounds;
}

std::string head(const std::string& name, const char* type, const std::string& help) {
  return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

/// The value of a label.
std::string label_text(const std::string& name) {
  std::string text;
  for (const char c : name) text += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return text;
}

}  // namespace

void PrometheusHistogram::add(double value) {
  ++counts_[static_cast<std::size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin())];
  ++count_;
  sum_ += value;
}

std::string PrometheusHistogram::text(const std::string& name, const std::string& help,
                                      const std::string& labels) const {
  std::string text = head(name, "histogram", help);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < bounds_.size(); ++i)
    text += fmt::format("{}_bucket{{le=\"{}\",{}}} {}\n", name, bounds_[i], labels, below += counts_[i]);
  return text + fmt::format("{0}_bucket{{le=\"+Inf\",{1}}} {2}\n{0}_sum{{{1}}} {3}\n{0}_count{{{1}}} {2}\n", name,
                            labels, count_, sum_);
}

LiveMetrics::LiveMetrics(ApiModel model, double pace, std::vector<std::uint32_t> kv_blocks)
    : model_(std::move(model)),
      pace_(pace),
      kv_blocks_(std::move(kv_blocks)),
      loads_(kv_blocks_.size()),
      ttft_(kTtftBounds),
      itl_(kTokenBounds),
      tpot_(kTokenBounds),
      e2e_(kRequestBounds),
      queue_(kRequestBounds),
      prefill_(kRequestBounds),
      decode_(kRequestBounds),
      prompts_(token_count_bounds(model_.most_tokens)),
      answers_(token_count_bounds(model_.most_tokens)),
      iterations_(kIterationBounds) {}

void LiveMetrics::on_progress(Time now, double behind_s) {
  const std::lock_guard lock(mutex_);
  now_ = later(now_, now);
  behind_s_ = behind_s;
  most_behind_s_ = std::max(most_behind_s_, behind_s);
}

void LiveMetrics::on_end(bool by_itself) {
  const std::lock_guard lock(mutex_);
  ++(by_itself ? stopped_ : limited_);
}

void LiveMetrics::on_token(std::uint32_t, const Stay& stay) {
  const std::vector<Time>& tokens = stay.times.tokens;
  const std::lock_guard lock(mutex_);
  ++answer_tokens_;
  if (tokens.size() == 1) {
    prompt_tokens_ += stay.request.prompt_tokens;
    ttft_.add((tokens.back() - stay.request.arrival).seconds());
  } else {
    itl_.add((tokens.back() - tokens[tokens.size() - 2]).seconds());
  }
}

void LiveMetrics::on_served(std::uint32_t, const Stay& stay) {
  const workload::inference::RequestTimes& times = stay.times;
  const std::uint32_t tokens = stay.request.output_tokens;
  const std::lock_guard lock(mutex_);
  preemptions_ += stay.counts.preemptions;
  hits_ += stay.counts.cached_tokens;
  e2e_.add((times.last_token - stay.request.arrival).seconds());
  queue_.add(since(stay.prefill_begun(), times.queued).seconds());
  prefill_.add(since(times.first_token, stay.prefill_begun()).seconds());
  decode_.add((times.last_token - times.first_token).seconds());
  if (tokens > 1) tpot_.add((times.last_token - times.first_token).seconds() / (tokens - 1));
  prompts_.add(stay.request.prompt_tokens);
  answers_.add(tokens);
}

void LiveMetrics::on_refused(std::uint32_t) {
  const std::lock_guard lock(mutex_);
  ++refused_;
}

void LiveMetrics::on_aborted(std::uint32_t, const Stay&) {
  const std::lock_guard lock(mutex_);
  ++aborted_;
}

void LiveMetrics::on_iteration(std::size_t, std::uint32_t, const workload::inference::Iteration& iteration, Time) {
  const std::lock_guard lock(mutex_);
  iterations_.add(iteration.batch.tokens());
}

void LiveMetrics::on_load(std::size_t engine, const workload::EngineLoad& load, Time) {
  const std::lock_guard lock(mutex_);
  loads_[engine] = load;
}

std::string LiveMetrics::text() const {
  const std::lock_guard lock(mutex_);
  const std::string model = fmt::format("model_name=\"{}\"", label_text(model_.name));
  std::string text;
  const auto of_engines = [&](const std::string& name, const char* help, const auto& value) {
    text += head(name, "gauge", help);
    for (std::size_t i = 0; i < loads_.size(); ++i)
      text += fmt::format("{}{{engine=\"{}\",{}}} {}\n", name, i, model, value(i));
  };
  const auto counter = [&](const std::string& name, const char* help, std::uint64_t value) {
    text += head(name, "counter", help) + fmt::format("{}{{{}}} {}\n", name, model, value);
  };
  const auto gauge = [&](const std::string& name, const char* help, double value) {
    text += head(name, "gauge", help) + fmt::format("{} {}\n", name, value);
  };
  of_engines("vllm:num_requests_running", "Requests in batches of an engine",
             [&](std::size_t i) { return loads_[i].running; });
  of_engines("vllm:num_requests_waiting", "Requests in the queue of an engine",
             [&](std::size_t i) { return loads_[i].waiting; });
  of_engines("vllm:kv_cache_usage_perc", "Share of KV blocks that requests hold; 1 is all", [&](std::size_t i) {
    return kv_blocks_[i] > 0 ? loads_[i].blocks / static_cast<double>(kv_blocks_[i]) : 0.0;
  });
  counter("vllm:prompt_tokens_total", "Tokens of prompts that are computed or found", prompt_tokens_);
  counter("vllm:generation_tokens_total", "Tokens that clients have received", answer_tokens_);
  text += head("vllm:request_success_total", "counter",
               "Requests whose answer is complete, or whose client has left (abort)");
  for (const auto& [reason, count] : {std::pair{"length", limited_}, {"stop", stopped_}, {"abort", aborted_}})
    text += fmt::format("vllm:request_success_total{{finished_reason=\"{}\",{}}} {}\n", reason, model, count);
  counter("vllm:num_preemptions_total", "Preemptions of complete requests", preemptions_);
  counter("vllm:prefix_cache_queries_total", "Tokens of prompts that the prefix index was asked for", prompt_tokens_);
  counter("vllm:prefix_cache_hits_total", "Tokens of complete prompts that the prefix index had", hits_);
  text += ttft_.text("vllm:time_to_first_token_seconds", "From the arrival to the first token at the client", model);
  text += itl_.text("vllm:inter_token_latency_seconds", "Between tokens at the client", model);
  text += tpot_.text("vllm:request_time_per_output_token_seconds", "Mean time between tokens of a request", model);
  text += e2e_.text("vllm:e2e_request_latency_seconds", "From the arrival to the last token", model);
  text += queue_.text("vllm:request_queue_time_seconds", "In the queue of the engine", model);
  text += prefill_.text("vllm:request_prefill_time_seconds", "From the first kernel to the first token", model);
  text += decode_.text("vllm:request_decode_time_seconds", "From the first token to the last", model);
  text += prompts_.text("vllm:request_prompt_tokens", "Tokens of a prompt", model);
  text += answers_.text("vllm:request_generation_tokens", "Tokens of an answer", model);
  text += iterations_.text("vllm:iteration_tokens_total", "Tokens of a batch", model);
  counter("railyard:requests_refused_total", "Requests that can never fit into the KV cache", refused_);
  gauge("railyard:pace", "Simulated seconds in a second of the wall clock; 0: as fast as possible", pace_);
  gauge("railyard:simulated_seconds", "The simulated clock", now_.seconds());
  gauge("railyard:behind_seconds", "How far the simulation is behind the wall clock, in simulated seconds", behind_s_);
  gauge("railyard:behind_seconds_max", "The most that it has been behind", most_behind_s_);
  return text;
}

}  // namespace railyard::serve
