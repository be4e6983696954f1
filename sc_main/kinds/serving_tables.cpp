#include <fmt/format.h>
#include <algorithm>

#include "sc_main/jobs_csv.h"
#include "sc_main/kinds/serving_run.h"

namespace railyard {

namespace {

using workload::inference::StageTimes;
using workload::inference::Stay;

std::uint64_t nanoseconds(Time t) { return (t.fs() + 500'000) / 1'000'000; }

/// Time of ranks outside kernels: of a run, or of each of its `batches`.
std::string exposed_text(const workload::inference::RankTimes& t, double batches) {
  return fmt::format("{} / {} / {} / {}, mean of ranks", duration_text(t.tp_s / batches),
                     duration_text(t.tp_sync_s / batches), duration_text(t.pp_s / batches),
                     duration_text(t.host_s / batches));
}

constexpr const char* kExposed = "exposed TP / gate / PP / host";

/// Instances of one entry of the scenario, of which each has a table of its own; more have one of their ranges.
constexpr std::size_t kMostTables = 4;

}  // namespace

void ServingRun::open_tables(const OutputDirectory& directory) {
  requests_csv_.emplace(directory.file("requests.csv"));
  service_->add_sink(*this);
  if (is_paged() && figures_->has_handoff()) {
    transfers_csv_.emplace(directory.file("transfers.csv"));
    transfers_csv_->print(
        "request,from,to,bytes,descriptors,begun_s,handshake_s,post_s,staging_s,wire_s,alone_s,contention_s,landed_s,"
        "worst_port,worst_port_s,worst_class,from_replica,to_replica\n");
  }
  if (has_choice()) {
    routing_csv_.emplace(directory.file("routing.csv"));
    routing_csv_->print("time_s,request,part,instance,state_age_s,scores\n");
  }
  // The first twelve columns have the format of LLMServingSim: nanoseconds, rows in completion order.
  requests_csv_->print(
      "instance id,request id,model,input,output,arrival,end_time,latency,queuing_delay,TTFT,TPOT,ITL,");
  if (is_paged()) {
    requests_csv_->print("preemptions,cached_tokens,recomputed_tokens");
    if (spec().kv_tiers.host_bytes_per_server > 0) requests_csv_->print(",loaded_tokens");
    if (spec().kv_tiers.shares_host()) requests_csv_->print(",others_tokens");
    if (spec().kv_tiers.disk.bytes_per_server > 0) requests_csv_->print(",read_tokens");
    if (spec().kv_tiers.peer_min_tokens > 0) requests_csv_->print(",peer_tokens");
    if (can_lose()) requests_csv_->print(",restarts,lost_tokens,lost_tokens_recomputed");
    if (spec().has_leaves) requests_csv_->print(",aborted");
    for (const char* part : workload::inference::kTtftPartNames) requests_csv_->print(",ttft_{}_ns", part);
    requests_csv_->print(spec().has_sessions ? ",session\n" : "\n");
  } else {
    requests_csv_->print(
        "queued_ns,admitted_ns,prefill_begin_ns,prefilled_ns,first_token_ns,kv_landed_ns,decode_begin_ns\n");
  }
}

bool ServingRun::has_choice() const {
  std::size_t prompts = 0, answers = 0;
  for (const InstanceSpec& instance : spec().instances) {
    if (takes_prompts(instance.role)) ++prompts;
    if (takes_answers(instance.role)) ++answers;
  }
  return answers > 1 || prompts > 1;
}

void ServingRun::on_routed(std::uint32_t request, workload::inference::RequestPart part,
                           const workload::inference::Candidates& candidates,
                           const workload::inference::Router::Choice& choice, Time now) {
  if (!routing_csv_) return;
  static constexpr const char* kParts[] = {"both", "prefill", "decode"};
  std::string scores;
  for (std::size_t i = 0; i < choice.scores.size(); ++i)
    scores += fmt::format("{}{}={:.9g}", i > 0 ? " " : "", spec().instances[candidates[i]].name, choice.scores[i]);
  routing_csv_->print("{},{},{},{},{},{}\n", exact_seconds(now), request, kParts[static_cast<std::size_t>(part)],
                      spec().instances[choice.instance].name, exact_seconds(choice.out_of_date), scores);
}

std::string ServingRun::port_name(const transport::PortCounters* counters) {
  if (counters == nullptr) return "";
  if (port_names_.empty())
    for (const transport::Device* device : fabric_.devices())
      for (std::uint32_t port = 0; port < device->ports(); ++port)
        port_names_[&device->port(PortId(port)).counters] =
            fmt::format("{}.{}", device->name(), device->port(PortId(port)).name);
  const auto found = port_names_.find(counters);
  return found == port_names_.end() ? "" : found->second;
}

void ServingRun::on_kv_moved(const workload::inference::KvMoved& moved) {
  if (!transfers_csv_) return;
  transfers_csv_->print("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", moved.request,
                        spec().instances[moved.from].name, spec().instances[moved.to].name, moved.bytes,
                        moved.descriptors, exact_seconds(moved.begun), exact_seconds(moved.handshake),
                        exact_seconds(moved.post), exact_seconds(moved.staging), exact_seconds(moved.wire),
                        exact_seconds(moved.alone), exact_seconds(moved.wire - moved.alone),
                        exact_seconds(moved.landed), port_name(moved.waited_at), exact_seconds(moved.waited),
                        moved.waited_for ? name(*moved.waited_for) : "", moved.from_replica, moved.to_replica);
}

void ServingRun::write_request(std::uint32_t request, const Stay& stay, Time ended, bool is_aborted) {
  const workload::inference::RequestTimes& t = stay.times;
  // Of an aborted request: the tokens that the client has received.
  const std::uint32_t output = is_aborted ? static_cast<std::uint32_t>(t.tokens.size()) : stay.request.output_tokens;
  std::string gaps;
  for (std::size_t i = 1; i < t.tokens.size(); ++i)
    gaps += fmt::format("{}{}", i > 1 ? ", " : "", nanoseconds(t.tokens[i]) - nanoseconds(t.tokens[i - 1]));
  const std::uint64_t from = nanoseconds(stay.request.arrival), end = nanoseconds(ended);
  const std::uint64_t first = output > 0 ? nanoseconds(t.first_token) : from;
  const std::uint64_t last = output > 0 ? nanoseconds(t.tokens.back()) : from;
  // Whole sequences have their instances by name in other files, and 0 here.
  requests_csv_->print("{},{},{},{},{},{},{},{},{},{},{},\"[{}]\",",
                       is_paged() && !stay.visits.empty() ? stay.instance() : 0, request, scenario_.model.name,
                       stay.request.prompt_tokens, output, from, end, end - from,
                       stay.first_begun ? nanoseconds(stay.prefill_begun()) - from : 0, first - from,
                       output > 1 ? (last - first) / (output - 1) : 0, gaps);
  if (!is_paged()) {
    requests_csv_->print("{},{},{},{},{},{},{}\n", nanoseconds(t.queued), nanoseconds(stay.admitted()),
                         nanoseconds(stay.prefill_begun()), nanoseconds(stay.prefilled()), first,
                         nanoseconds(stay.kv_landed()), nanoseconds(stay.decode_begun()));
    return;
  }
  requests_csv_->print("{},{},{}", stay.counts.preemptions, stay.counts.cached_tokens, stay.counts.recomputed_tokens);
  if (spec().kv_tiers.host_bytes_per_server > 0) requests_csv_->print(",{}", stay.counts.loaded_tokens);
  if (spec().kv_tiers.shares_host()) requests_csv_->print(",{}", stay.counts.others_tokens);
  if (spec().kv_tiers.disk.bytes_per_server > 0) requests_csv_->print(",{}", stay.counts.read_tokens);
  if (spec().kv_tiers.peer_min_tokens > 0) requests_csv_->print(",{}", stay.counts.peer_tokens);
  if (can_lose()) requests_csv_->print(",{},{},{}", stay.restarts, stay.lost_tokens, stay.repeated_tokens);
  if (spec().has_leaves) requests_csv_->print(",{}", is_aborted ? 1 : 0);
  // Rounded as instants, so that the parts add up to the rounded TTFT.
  Time before = stay.request.arrival;
  for (const Time part : stay.ttft.all()) {
    const Time after = before + part;
    requests_csv_->print(",{}", nanoseconds(after) - nanoseconds(before));
    before = after;
  }
  if (spec().has_sessions) requests_csv_->print(",{}", stay.request.session);
  requests_csv_->print("\n");
}

void ServingRun::open_iterations(const OutputDirectory& directory) {
  iterations_csv_.emplace(directory.file("iterations.csv"));
  iterations_csv_->print("instance,iteration,start_s,end_s,tokens,prompts,decodes,running,waiting,blocks\n");
}

void ServingRun::on_iteration(std::size_t instance, std::uint32_t number,
                              const workload::inference::Iteration& iteration, Time completed) {
  if (!iterations_csv_) return;
  iterations_csv_->print("{},{},{},{},{},{},{},{},{},{}\n", instance, number, exact_seconds(iteration.begun),
                         exact_seconds(completed), iteration.batch.tokens(), iteration.prompts, iteration.decodes,
                         iteration.running, iteration.waiting, iteration.blocks_held);
}

void ServingRun::write_tables(const OutputDirectory&) {
  requests_csv_.reset();
  routing_csv_.reset();
  transfers_csv_.reset();
  iterations_csv_.reset();
}

std::string ServingRun::table() const {
  const ServingFigures& f = figures();
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("    {:<30} {}\n", name, value);
  };
  const bool many = f.requests > 1;
  const auto spread = [&](const auto& values) {
    if (!many) return duration_text(values.mean());
    return fmt::format("{}  (p50 {}, p90 {}, p99 {})", duration_text(values.mean()),
                       duration_text(values.percentile(0.5)), duration_text(values.percentile(0.9)),
                       duration_text(values.percentile(0.99)));
  };
  const auto percent = [](double ratio) { return fmt::format("{:.1f} %", 100 * ratio); };
  text += fmt::format("{} on {}: {} request{}, host {}\n", scenario_.model.name, machine_text(scenario_), f.requests,
                      f.requests == 1 ? "" : "s", host_names());
  text += many ? "\n  each request, mean\n" : "\n  the request\n";
  line("TTFT", spread(f.ttft));
  for (std::size_t part = 0; part < workload::inference::kTtftParts; ++part)
    if (const double seconds = f.ttft_part_s(part); is_paged() && seconds > 0)
      line(fmt::format("  {}", workload::inference::kTtftPartNames[part]),
           fmt::format("{}  {}", duration_text(seconds), percent(seconds / f.ttft.mean())));
  line("TTFT from admission", spread(f.ttft_admitted));
  if (f.has_handoff()) line("time to decode start", spread(f.decode_start));
  line("TPOT", spread(f.tpot));
  line("time between tokens", spread(f.itl));
  line("end to end", spread(f.e2e));
  const auto mean = [&](double sum) {
    return duration_text(f.requests > 0 ? sum / static_cast<double>(f.requests) : 0);
  };
  if (!is_paged()) line("queueing", mean(f.queue_sum_s));
  if (f.is_decider_asked)
    line("prompts left to decode",
         fmt::format("{}, {}", f.kept_prompts,
                     percent(share_of(static_cast<double>(f.kept_prompts), static_cast<double>(f.requests)))));
  if (f.has_handoff()) line("exposed KV handoff", mean(f.kv_wait_sum_s));
  text += "\n  achieved, from the first arrival to the last token\n";
  const auto rate = [&](std::uint64_t count) { return f.rate(static_cast<double>(count)); };
  const WorkBins::Span middle = f.middle();
  const bool has_middle = many && middle.seconds > 0;
  const auto in_middle = [&](std::uint64_t count) { return static_cast<double>(count) / middle.seconds; };
  line("requests",
       fmt::format("{:.3f} requests/s", rate(f.requests)) +
           (has_middle ? fmt::format("  (middle half of this time: {:.3f})", in_middle(middle.work.requests)) : ""));
  if (f.slo.ttft_s || f.slo.tpot_s)
    line("within the objectives",
         fmt::format("{:.3f} requests/s, {}", rate(f.within_slo), percent(f.slo_attainment_ratio())));
  line("prompts, answers",
       fmt::format("{:.1f} tokens/s, {:.1f} tokens/s", rate(f.prompt_tokens), rate(f.output_tokens)) +
           (has_middle ? fmt::format("  (middle: {:.1f}, {:.1f})", in_middle(middle.work.prompt_tokens),
                                     in_middle(middle.work.output_tokens))
                       : ""));
  if (const std::optional<LoadGrowth> growth = f.growth(); growth && growth->is_certain)
    line("not a steady state",
         fmt::format("requests in the system grew by {:.3g} per s (+- {:.1g}) until the last arrival", growth->per_s,
                     growth->error_per_s));
  if (f.refused > 0)
    line("refused",
         fmt::format("{} requests, which exceed max_model_len or can never fit into the KV cache", f.refused));
  if (f.aborted > 0) line("aborted", fmt::format("{} requests, whose clients have left", f.aborted));
  if (f.has_changes) {
    line("restarts", fmt::format("{}, with {} tokens of KV, {} of them computed again", f.restarts, f.lost_tokens,
                                 f.repeated_tokens));
    if (f.loaded_weight_bytes > 0) line("weights loaded", fmt::format("{:.2f} GB", f.loaded_weight_bytes * 1e-9));
  }
  if (f.has_sessions) line("sessions", fmt::format("{}, each {}", f.sessions.size(), spread(f.session_times())));
  if (is_paged()) {
    line("prefix hits",
         percent(f.prefix_hit_ratio()) + " of prompt tokens" +
             (f.host_blocks > 0 ? ", and " + percent(f.host_hit_ratio()) + " loaded from host memory" : "") +
             (f.shares_host ? " (" + percent(f.others_hit_ratio()) + " written by others)" : "") +
             (f.disk_blocks > 0 ? ", " + percent(f.disk_hit_ratio()) + " read from disks before" : "") +
             (f.has_kv_peers ? ", " + percent(f.peer_hit_ratio()) + " read from peers before" : ""));
    if (f.has_speculation)
      line("speculation", fmt::format("{:.2f} tokens a step, {} of drafts are right", f.tokens_per_step(),
                                      percent(share_of(static_cast<double>(f.accepted_tokens),
                                                       static_cast<double>(f.drafted_tokens)))));
    line("preemptions", fmt::format("{}, {} tokens computed again", f.preemptions, f.recomputed_tokens));
  }
  if (f.periods.has_events()) {
    text += "\n  before, during and after the events, by arrival\n";
    for (std::size_t i = 0; i < ServingPeriods::kPeriods; ++i)
      if (const ServingPeriods::Period& period = f.periods.all()[i]; period.ttft.count() > 0)
        line(ServingPeriods::kNames[i],
             fmt::format("{} requests, p99 of TTFT {}, TPOT {}, time between tokens {}", period.ttft.count(),
                         duration_text(period.ttft.percentile(0.99)), duration_text(period.tpot.percentile(0.99)),
                         duration_text(period.itl.percentile(0.99))));
  }
  if (f.has_handoff()) {
    text += fmt::format("\n  prefill, in all: {} with a prompt in it\n", duration_text(f.prefill_window_s));
    line("capacity", fmt::format("{:.1f} tokens/s", f.prefill_tokens_per_s()));
    if (const ServingFigures::Instance* prefill = f.prefiller()) {
      std::string stages;
      for (std::size_t p = 0; p < prefill->ranks.size(); ++p)
        stages += fmt::format("{}stage{} {}", p == 0 ? "" : ", ", p, percent(f.stage_utilisation(*prefill, p)));
      line("kernel utilisation", stages);
    }
    line("bubble fraction", percent(f.bubble_fraction()));
    line(kExposed, exposed_text(f.mean_times(false), 1));
  }
  for (std::size_t first = 0, end = 0; first < f.instances.size(); first = end) {
    const auto is_alike = [&](const InstanceSpec& other) { return other.key == spec().instances[first].key; };
    while (end < f.instances.size() && is_alike(spec().instances[end])) ++end;
    if (end - first > kMostTables)
      text += range_table(first, end);
    else
      for (std::size_t i = first; i < end; ++i) text += instance_table(i, f.instances[i]);
  }
  return text;
}

std::string ServingRun::mapping_text(const InstanceSpec& instance) const {
  return fmt::format("tp {}, {}pp {}, {}{}", instance.mapping.tp,
                     instance.mapping.dp > 1 ? fmt::format("dp {}, ", instance.mapping.dp) : "", instance.mapping.pp,
                     instance.engine.name,
                     instance.kv_dtype ? fmt::format(", {} KV", name_of(*instance.kv_dtype)) : "");
}

std::string ServingRun::memory_text(std::size_t id) const {
  const auto fullest = std::max_element(gpus_[id].begin(), gpus_[id].end(), [&](const GpuId& a, const GpuId& b) {
    return machine_.gpu(a).hbm().peak() < machine_.gpu(b).hbm().peak();
  });
  const gpu::Gpu& gpu = machine_.gpu(*fullest);
  return fmt::format("{:.2f} of {:.0f} GB", static_cast<double>(gpu.hbm().peak()) * 1e-9,
                     static_cast<double>(usable_bytes(gpu)) * 1e-9);
}

std::string ServingRun::range_table(std::size_t first, std::size_t end) const {
  const std::vector<ServingFigures::Instance>& all = figures_->instances;
  std::string text = fmt::format("\n  {} to {}: {} instances, each {}\n", spec().instances[first].name,
                                 spec().instances[end - 1].name, end - first, mapping_text(spec().instances[first]));
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("    {:<30} {}\n", name, value);
  };
  // The least and the greatest value, whose they are, and the mean.
  const auto range = [&](const auto& value, const auto& written) {
    std::size_t least = first, greatest = first;
    double sum = 0;
    for (std::size_t i = first; i < end; ++i) {
      if (value(all[i]) < value(all[least])) least = i;
      if (value(all[i]) > value(all[greatest])) greatest = i;
      sum += value(all[i]);
    }
    return fmt::format("{} ({}) to {} ({}), mean {}", written(value(all[least])), spec().instances[least].name,
                       written(value(all[greatest])), spec().instances[greatest].name,
                       written(sum / static_cast<double>(end - first)));
  };
  using Instance = ServingFigures::Instance;
  const auto count = [](double n) { return fmt::format("{:.0f}", n); };
  const auto tenths = [](double n) { return fmt::format("{:.1f}", n); };
  line("batches", range([](const Instance& i) { return static_cast<double>(i.iterations); }, count));
  line("requests of a batch", range([](const Instance& i) { return i.mean(i.batch_sum); }, tenths));
  line("each batch", range([](const Instance& i) { return i.mean(i.batches_s); }, duration_text));
  if (is_paged())
    line("peak of KV blocks", range([](const Instance& i) { return static_cast<double>(i.peak_blocks); }, count) +
                                  fmt::format(", of {}", all[first].kv_blocks - 1));
  for (std::size_t p = 0; p < all[first].stages.size(); ++p)
    line(fmt::format("stage {} busy", p),
         range([&](const Instance& i) { return share_of(i.stages[p].seconds[StageTimes::kBusy], figures_->end_s); },
               [](double share) { return fmt::format("{:.1f} %", 100 * share); }));
  line("peak memory of a rank", memory_text(first) + " in " + spec().instances[first].name);
  return text;
}

std::string ServingRun::instance_table(std::size_t id, const ServingFigures::Instance& figures) const {
  const InstanceSpec& instance = spec().instances[id];
  std::string text = fmt::format("\n  {}: {}{}\n", instance.name, mapping_text(instance),
                                 gpus_.size() > 1 ? ", GPUs " + gpus_text(instance) : "");
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("    {:<30} {}\n", name, value);
  };
  line("batches", fmt::format("{}, mean {:.1f} requests and {:.1f} tokens", figures.iterations,
                              figures.mean(figures.batch_sum), figures.mean(static_cast<double>(figures.tokens))));
  if (figures.iterations > 0) {
    line("each batch",
         fmt::format("{}, {:.1f} tokens/s", duration_text(figures.mean(figures.batches_s)), figures.tokens_per_s()));
    line(kExposed, exposed_text(figures.mean_times(), static_cast<double>(figures.iterations)));
  }
  if (is_paged()) line("KV blocks", fmt::format("peak {} of {}", figures.peak_blocks, figures.kv_blocks - 1));
  const double end_s = figures_->end_s;
  for (std::size_t p = 0; p < figures.stages.size(); ++p) {
    const auto& seconds = figures.stages[p].seconds;
    std::string causes;
    for (std::size_t use = StageTimes::kBusy + 1; use < StageTimes::kUses; ++use)
      if (seconds[use] > 0) causes += fmt::format(", {} {}", StageTimes::kNames[use], duration_text(seconds[use]));
    line(fmt::format("stage {} busy", p),
         fmt::format("{:.1f} %{}", end_s > 0 ? 100 * seconds[StageTimes::kBusy] / end_s : 0, causes));
  }
  line("peak memory of a rank", memory_text(id));
  return text;
}

}  // namespace railyard
