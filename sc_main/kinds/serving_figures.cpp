#include "sc_main/kinds/serving_metrics.h"

#include <fmt/format.h>
#include <algorithm>
#include <functional>

namespace railyard {

using workload::inference::InstanceRole;
using workload::inference::Iteration;
using workload::inference::RankTimes;
using workload::inference::RequestPart;
using workload::inference::StageTimes;
using workload::inference::Stay;

namespace {

void add(RankTimes& sum, const RankTimes& times, double weight) {
  sum.kernels_s += weight * times.kernels_s;
  sum.tp_s += weight * times.tp_s;
  sum.tp_sync_s += weight * times.tp_sync_s;
  sum.pp_s += weight * times.pp_s;
  sum.host_s += weight * times.host_s;
  sum.occupied_s += weight * times.occupied_s;
}

void add_to(ServingPeriods& periods, const Stay& stay, double ttft, double tpot) {
  ServingPeriods::Period& period = periods.at(stay.request.arrival);
  period.ttft.add(ttft);
  if (stay.request.output_tokens > 1) period.tpot.add(tpot);
  const std::vector<Time>& tokens = stay.times.tokens;
  for (std::size_t i = 1; i < tokens.size(); ++i) periods.at(tokens[i]).itl.add((tokens[i] - tokens[i - 1]).seconds());
}

}  // namespace

void ServingFigures::on_served(std::uint32_t, const Stay& stay) {
  const workload::inference::RequestTimes& t = stay.times;
  const Time arrival = stay.request.arrival;
  const std::uint32_t output = stay.request.output_tokens;
  const double first = (t.first_token - arrival).seconds();
  const double per_token = output > 1 ? (t.last_token - t.first_token).seconds() / (output - 1.0) : 0;
  ++requests;
  if (is_decider_asked && stay.visits.size() == 1 && !takes_prompts(instances[stay.visits[0].instance].role))
    ++kept_prompts;
  for (const workload::inference::Visit& visit : stay.visits) {
    Instance& instance = instances[visit.instance];
    ++instance.requests;
    if (visit.part != RequestPart::answer) {
      instance.found_tokens += stay.counts.cached_tokens;
      instance.prompt_tokens += stay.request.prompt_tokens;
    }
    instance.ttft.add(first);
    if (output > 1) instance.tpot.add(per_token);
    if (periods.has_events()) add_to(instance.periods, stay, first, per_token);
  }
  if (periods.has_events()) add_to(periods, stay, first, per_token);
  restarts += stay.restarts;
  lost_tokens += stay.lost_tokens;
  repeated_tokens += stay.repeated_tokens;
  ttft.add(first);
  ttft_admitted.add((t.first_token - stay.prefill_begun()).seconds());
  if (output > 1) tpot.add(per_token);
  decode_start.add((stay.decode_begun() - arrival).seconds());
  queue_sum_s += (stay.prefill_begun() - t.queued).seconds();
  for (std::size_t part = 0; part < ttft_parts.size(); ++part) ttft_parts[part].add(stay.ttft.all()[part]);
  e2e.add((t.last_token - arrival).seconds());
  for (std::size_t i = 1; i < t.tokens.size(); ++i) itl.add((t.tokens[i] - t.tokens[i - 1]).seconds());
  for (const Time token : t.tokens) work.add(token, {0, 0, 1});
  work.add(t.first_token, {0, stay.request.prompt_tokens, 0});
  work.add(t.last_token, {1, 0, 0});
  spans.emplace_back(arrival, t.last_token);
  if (has_sessions && stay.request.session > 0) {
    RequestSpan& session = sessions.try_emplace(stay.request.session, arrival, t.last_token).first->second;
    session = {sooner(session.first, arrival), later(session.second, t.last_token)};
  }
  first_arrival = sooner(first_arrival, arrival);
  last_arrival = later(last_arrival, arrival);
  last_token = later(last_token, t.last_token);
  prompt_tokens += stay.request.prompt_tokens;
  output_tokens += output;
  cached_tokens += stay.counts.cached_tokens;
  loaded_tokens += stay.counts.loaded_tokens;
  others_tokens += stay.counts.others_tokens;
  read_tokens += stay.counts.read_tokens;
  peer_tokens += stay.counts.peer_tokens;
  recomputed_tokens += stay.counts.recomputed_tokens;
  preemptions += stay.counts.preemptions;
  kv_wait_sum_s += (stay.kv_landed() - stay.prefilled()).seconds();
  if (first <= slo.ttft_s.value_or(first) && per_token <= slo.tpot_s.value_or(per_token)) ++within_slo;
}

void ServingFigures::on_kv_moved(const workload::inference::KvMoved& moved) {
  ++kv_transfers;
  kv_descriptors += moved.descriptors;
  kv_bytes += static_cast<double>(moved.bytes);
  kv_handshake_s += moved.handshake.seconds();
  kv_post_s += moved.post.seconds();
  kv_staging_s += moved.staging.seconds();
  kv_wire_s += moved.wire.seconds();
  kv_alone_s += moved.alone.seconds();
}

ServingFigures::ServingFigures(const workload::inference::ServingSpec& spec,
                               const std::vector<std::uint32_t>& kv_blocks,
                               const std::optional<ServingPeriods::During>& during)
    : slo(spec.slo),
      is_paged(!spec.instances.front().whole),
      periods(during),
      has_changes(!spec.changes.empty()),
      has_sessions(spec.has_sessions),
      has_leaves(spec.has_leaves),
      is_decider_asked(spec.router.keeps_prompt.rule != workload::inference::PromptRule::none),
      shares_host(spec.kv_tiers.shares_host()),
      has_speculation(std::any_of(spec.instances.begin(), spec.instances.end(),
                                  [](const auto& instance) { return instance.speculation.has_value(); })),
      instances(kv_blocks.size()) {
  for (std::size_t i = 0; i < kv_blocks.size(); ++i) {
    instances[i].name = spec.instances[i].name;
    instances[i].role = spec.instances[i].role;
    // Each attention replica has as many blocks, one of them reserved.
    const std::uint32_t replicas = spec.instances[i].mapping.dp;
    instances[i].kv_blocks = kv_blocks[i] > 0 ? replicas * (kv_blocks[i] - 1) + 1 : 0;
    instances[i].periods = ServingPeriods(during);
  }
}

const ServingFigures::Instance* ServingFigures::decoder() const {
  const bool is_last = instances.size() == 1 || !takes_answers(instances[instances.size() - 2].role);
  return is_last ? &instances.back() : nullptr;
}

const ServingFigures::Instance* ServingFigures::prefiller() const {
  const bool is_first = instances.size() > 1 && !takes_prompts(instances[1].role);
  return is_first ? &instances.front() : nullptr;
}

void ServingFigures::on_iteration(std::size_t instance, std::uint32_t, const Iteration& iteration, Time) {
  Instance& i = instances[instance];
  const std::uint32_t tokens = iteration.batch.tokens();
  ++i.iterations;
  i.batch_sum += static_cast<double>(iteration.batch.items.size());
  i.tokens += tokens;
  i.padding_sum += static_cast<double>(iteration.padded_tokens - tokens);
  i.peak_blocks = std::max(i.peak_blocks, iteration.blocks_held);
  for (const workload::inference::ScheduledBatch::Item& item : iteration.batch.items) {
    if (item.drafts == 0) continue;
    ++verifying_steps;
    drafted_tokens += item.drafts;
    accepted_tokens += item.right;
  }
}

void ServingFigures::close(workload::inference::Service& service, Time now) {
  host_blocks = service.host_blocks();
  for (std::size_t i = 0; i < instances.size(); ++i) {
    if (const workload::inference::KvOffload* const offload = service.instance(i).offload()) {
      kv_loaded_bytes += static_cast<double>(offload->loaded());
      kv_stored_bytes += static_cast<double>(offload->stored());
      kv_read_bytes += static_cast<double>(offload->read());
      kv_written_bytes += static_cast<double>(offload->written());
      kv_peer_bytes += static_cast<double>(offload->from_peers());
      has_kv_peers |= offload->has_peers();
      disk_blocks += offload->disk_blocks();
    }
    workload::inference::Engine& engine = service.instance(i).engine();
    const StageTimes& times = engine.stages();
    instances[i].batches_s = engine.step_seconds();
    instances[i].stages.assign(times.stages(), {});
    instances[i].ranks.assign(times.stages(), {});
    instances[i].ranks_of_stage = service.instance(i).grid().width();
    for (std::uint32_t p = 0; p < times.stages(); ++p) {
      for (std::size_t use = 0; use < StageTimes::kUses; ++use)
        instances[i].stages[p].seconds[use] = times.time(p, static_cast<StageTimes::Use>(use)).seconds();
      for (std::uint32_t rank = 0; rank < instances[i].ranks_of_stage; ++rank)
        add(instances[i].ranks[p], engine.pipeline().times(p * instances[i].ranks_of_stage + rank),
            1.0 / instances[i].ranks_of_stage);
    }
  }
  loaded_weight_bytes = static_cast<double>(service.loaded_weights());
  prefill_window_s = service.prefill_window().seconds();
  is_done = service.api_server().done();
  end_s = now.seconds();
}

bool ServingFigures::has_handoff() const {
  return std::any_of(instances.begin(), instances.end(),
                     [](const Instance& instance) { return instance.role == InstanceRole::prefill; });
}

RankTimes ServingFigures::Instance::mean_times() const {
  RankTimes mean;
  for (const RankTimes& stage : ranks) add(mean, stage, 1 / static_cast<double>(ranks.size()));
  return mean;
}

RankTimes ServingFigures::mean_times(bool of_answers) const {
  RankTimes sum, mean;
  double ranks = 0;
  for (const Instance& instance : instances) {
    if (takes_prompts(instance.role) == of_answers) continue;
    const double own = static_cast<double>(instance.ranks.size()) * instance.ranks_of_stage;
    add(sum, instance.mean_times(), own);
    ranks += own;
  }
  if (ranks > 0) add(mean, sum, 1 / ranks);
  return mean;
}

double ServingFigures::prefill_tokens_per_s() const {
  double tokens = 0;
  for (const Instance& instance : instances)
    if (instance.role == InstanceRole::prefill) tokens += static_cast<double>(instance.tokens);
  return share_of(tokens, prefill_window_s);
}

double ServingFigures::bubble_fraction() const {
  return prefill_window_s > 0 ? std::max(0.0, 1 - mean_times(false).occupied_s / prefill_window_s) : 0.0;
}

double ServingFigures::stage_utilisation(const Instance& instance, std::size_t stage) const {
  return share_of(instance.ranks[stage].kernels_s, prefill_window_s);
}

double ServingFigures::rate(double amount) const {
  return share_of(amount, since(last_token, first_arrival).seconds());
}

Distribution ServingFigures::session_times() const {
  Distribution times;
  for (const auto& [number, session] : sessions) times.add((session.second - session.first).seconds());
  return times;
}

WorkBins::Span ServingFigures::middle() const {
  const Time quarter = share(since(last_token, first_arrival), 1, 4);
  if (last_arrival < first_arrival + quarter) return {};
  return work.between(first_arrival + quarter, last_token - quarter);
}

std::optional<LoadGrowth> ServingFigures::growth() const { return is_done ? load_growth(spans) : std::nullopt; }

double ServingFigures::slo_attainment_ratio() const {
  return requests > 0 ? static_cast<double>(within_slo) / static_cast<double>(requests) : 0.0;
}

double ServingFigures::prefix_hit_ratio() const {
  return prompt_tokens > 0 ? static_cast<double>(cached_tokens) / static_cast<double>(prompt_tokens) : 0.0;
}

double ServingFigures::host_hit_ratio() const {
  return prompt_tokens > 0 ? static_cast<double>(loaded_tokens) / static_cast<double>(prompt_tokens) : 0.0;
}

double ServingFigures::others_hit_ratio() const {
  return prompt_tokens > 0 ? static_cast<double>(others_tokens) / static_cast<double>(prompt_tokens) : 0.0;
}

double ServingFigures::disk_hit_ratio() const {
  return prompt_tokens > 0 ? static_cast<double>(read_tokens) / static_cast<double>(prompt_tokens) : 0.0;
}

double ServingFigures::peer_hit_ratio() const {
  return prompt_tokens > 0 ? static_cast<double>(peer_tokens) / static_cast<double>(prompt_tokens) : 0.0;
}

}  // namespace railyard
