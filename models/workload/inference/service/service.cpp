#include "workload/inference/service/service.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

namespace railyard::workload::inference {

Service::Service(const transformer::ModelShape& model, const ServingSpec& spec, const std::vector<Placed>& placed,
                 Executor& executor)
    : spec_(spec),
      fabric_(executor.fabric()),
      executor_(executor),
      router_(spec_.router, router_members(placed), spec_.seed,
              [this](const Asked& asked, std::uint32_t from, std::uint32_t to) { return expected(asked, from, to); }),
      kv_peers_(spec_.kv_tiers.pools.size(), spec_.kv_tiers.peer_min_tokens),
      instances_(make_instances(model, placed)),
      exchange_(spec.handoff, spec.connector, spec.names_requests, executor, *this),
      leaving_(instances_.size()),
      api_server_(spec.requests(), hosts(), Time::seconds(spec.client_us * 1e-6),
                  Time::seconds(spec.router.router_us * 1e-6), entrances(), spec.names_requests, executor, *this) {
  prepare_changes(placed);
  if (spec_.router.decode == RouterPolicy::link_aware) exchange_.follow_loads();
  if (spec_.connector.staging != KvStaging::none && count_of(InstanceRole::prefill) > 0) {
    std::vector<Instance*> all;
    for (const auto& instance : instances_) all.push_back(instance.get());
    exchange_.follow_staging(all);
  }
  const bool meets = spec_.connector.metadata_us > 0 || spec_.connector.prepare_us > 0;
  const auto joins = [](const InstanceChange& change) { return change.what == InstanceChange::What::join; };
  const bool has_met = spec_.first_contact == FirstContact::before;
  if (meets && count_of(InstanceRole::prefill) > 0 &&
      (!has_met || std::any_of(spec_.changes.begin(), spec_.changes.end(), joins))) {
    std::vector<Instance*> all;
    for (const auto& instance : instances_) all.push_back(instance.get());
    exchange_.follow_contacts(std::move(all), has_met);
  }
  if (!router_.follows_blocks()) return;
  const auto reports = [&](const auto& instance, KvPlace place) -> BlockReports& {
    return block_reports_.emplace_back(*this, instance->id(), place);
  };
  for (const auto& instance : instances_) {
    instance->follow_blocks(reports(instance, KvPlace::gpus));
    if (spec_.kv_tiers.host_bytes_per_server > 0)
      instance->follow_copies(reports(instance, KvPlace::host), reports(instance, KvPlace::disks));
  }
}

std::vector<Router::Member> Service::router_members(const std::vector<Placed>& placed) const {
  std::vector<Router::Member> members(spec_.instances.size());
  for (std::size_t id = 0; id < members.size(); ++id) {
    const InstanceSpec& instance = spec_.instances[id];
    members[id].name = instance.name;
    members[id].role = instance.role;
    members[id].max_seqs = instance.scheduler.max_seqs;
    members[id].max_batched_tokens = instance.scheduler.max_batched_tokens;
    members[id].block_tokens = instance.scheduler.block_tokens;
    members[id].blocks = placed[id].blocks - std::min(placed[id].blocks, 1u);
  }
  return members;
}

std::vector<Host> Service::hosts() const {
  std::vector<Host> hosts;
  for (const InstanceSpec& instance : spec_.instances) hosts.push_back(instance.host);
  return hosts;
}

std::uint32_t Service::entrances() const {
  const bool are_all = spec_.router.keeps_prompt.rule != PromptRule::none;
  return static_cast<std::uint32_t>(instances_.size() - (are_all ? 0 : count_of(InstanceRole::decode)));
}

std::size_t Service::count_of(InstanceRole role) const {
  return static_cast<std::size_t>(std::count_if(spec_.instances.begin(), spec_.instances.end(),
                                                [&](const InstanceSpec& instance) { return instance.role == role; }));
}

std::vector<std::unique_ptr<Instance>> Service::make_instances(const transformer::ModelShape& model,
                                                               const std::vector<Placed>& placed) {
  std::vector<std::unique_ptr<Instance>> instances;
  InstanceClient& client = *this;
  add_stores(placed);
  std::uint32_t store = 0;
  for (std::uint32_t id = 0; id < placed.size(); ++id) {
    const InstanceSpec& spec = spec_.instances[id];
    const auto is_neighbour = [&](const InstanceSpec& other) { return other.group == spec.group; };
    Instance::Setting setting{model};
    setting.pp_send = spec_.pp_send;
    setting.names_requests = spec_.names_requests;
    setting.is_one_of_role = count_of(spec.role) > 1;
    setting.shares_group = std::count_if(spec_.instances.begin(), spec_.instances.end(), is_neighbour) > 1;
    setting.keeps_prompts = spec_.router.keeps_prompt.rule != PromptRule::none;
    setting.brings_first_token = spec_.first_token != FirstToken::prefill;
    setting.sees_kv_at_step = spec_.connector.seen_at_step;
    setting.handoff = spec_.handoff;
    setting.seed = spec_.seed;
    const HostKv host = host_stores_.empty() ? HostKv() : host_kv(placed[id], store);
    store += spec.mapping.dp;
    instances.push_back(
        std::make_unique<Instance>(id, spec, setting, placed[id].gpus, placed[id].blocks, host, executor_, client));
  }
  return instances;
}

void Service::add_sink(ServiceSink& sink) {
  api_server_.add_sink(sink);
  sinks_.push_back(&sink);
}

void Service::follow_requests(RequestListener& listener) {
  listener_ = &listener;
  api_server_.follow(listener);
}

bool Service::needs_answer(const Request& request) const {
  // An engine before paged KV cache cannot tell before the first token whether that token ends the answer.
  return spec_.instances.front().whole || spec_.first_token != FirstToken::prefill || request.output_tokens > 1;
}

bool Service::decodes(const Stay& stay) const {
  return is_handed_over(stay) && (spec_.first_token == FirstToken::decode_step || stay.remaining().output_tokens > 1);
}

bool Service::is_first_token_of_prefill(const Stay& stay) const {
  return spec_.first_token == FirstToken::prefill || !is_handed_over(stay);
}

void Service::enter(std::uint32_t request, Visit& visit, RequestContent content) {
  visit.arrival = now();
  at(visit).add(request, api_server_.on_way(request).remaining(), std::move(content), visit.part,
                !api_server_.has_token(request));
}

void Service::on_queued(std::uint32_t request, RequestContent content) {
  Stay& stay = api_server_.on_way(request);
  if (is_lost(stay)) {
    restart(request);
    return;
  }
  contents_.emplace(request, std::move(content));
  if (exchange_.pushes() && is_handed_over(stay)) {
    ++waiting_[{stay.visits.front().instance, stay.visits.back().instance}];
    enter(request, stay.visits.back(), contents_.at(request));
  } else {
    admit(request);
  }
}

void Service::admit(std::uint32_t request) {
  Stay& stay = api_server_.on_way(request);
  if (!api_server_.has_token(request)) stay.ttft[TtftPart::decode_queue] += now() - stay.times.queued;
  const bool is_needed_again = is_handed_over(stay) && !exchange_.pushes();
  enter(request, stay.visits.front(),
        is_needed_again ? contents_.at(request) : std::move(contents_.extract(request).mapped()));
}

void Service::on_promised(Instance& instance, const Reservation& reservation) {
  Stay& stay = api_server_.on_way(reservation.request);
  Visit& visit = visit_of(stay, instance);
  visit.kv_promised = now();
  if (visit.part != RequestPart::answer) {
    if (in_prefill_ == 0) window_since_ = now();
    count(stay, kPrefill, true);
    return;
  }
  const std::uint32_t request = reservation.request;
  Instance& from = at(stay.visits.front());
  --waiting_[{from.id(), instance.id()}];
  if (exchange_.pushes()) admit(request);
  const KvExchange::Transfer transfer{request,
                                      {&from, from.replica(request)},
                                      {&instance, instance.replica(request)},
                                      reservation.from,
                                      stay.remaining().prompt_tokens};
  exchange_.pushes() ? exchange_.expect(transfer) : exchange_.fetch(transfer);
}

void Service::on_composed(Instance& instance, std::uint32_t pass, const ScheduledBatch& batch) {
  if (instance.role() == InstanceRole::prefill && exchange_.pushes()) exchange_.composed(instance, pass, batch);
  if (!takes_answers(instance.role()) || spec_.first_token != FirstToken::kv_arrival) return;
  for (const ScheduledBatch::Item& item : batch.items) {
    if (!item.is_first || part_of(item.request, instance) != RequestPart::answer) continue;
    close_ttft(instance, item.request);
    api_server_.deliver(item.request);
  }
}

void Service::on_attention_emitted(Instance& instance, std::uint32_t pass, std::uint32_t stage, std::uint32_t t,
                                   std::uint32_t layer, JobRef job) {
  if (instance.role() == InstanceRole::prefill && exchange_.pushes())
    exchange_.on_attention_emitted(instance, pass, stage, t, layer, job);
}

void Service::on_begun(Instance& instance, std::uint32_t request) {
  Stay& stay = api_server_.on_way(request);
  Visit& visit = visit_of(stay, instance);
  const bool is_answer = visit.part == RequestPart::answer;
  visit.begun = now();
  if (!stay.first_begun) stay.first_begun = now();
  if (is_answer) count(stay, kDecode, true);
  api_server_.tell(request, is_answer ? RequestPhase::decode : RequestPhase::prefill);
}

void Service::on_iteration(Instance& instance, std::uint32_t number, const Iteration& iteration) {
  for (ServiceSink* sink : sinks_) sink->on_iteration(instance.id(), number, iteration, now());
}

void Service::on_token(Instance& instance, std::uint32_t request) {
  Stay& stay = api_server_.on_way(request);
  Visit& visit = visit_of(stay, instance);
  close_ttft(instance, request);
  if (!visit.first_token) {
    visit.first_token = now();
    router_.view().on_first_token(request, instance.id());
    route_held_soon();
    if (visit.part != RequestPart::answer) prefilled(stay, request);
  }
  if (visit.part == RequestPart::answer || is_first_token_of_prefill(stay)) api_server_.deliver(request);
}

void Service::close_ttft(Instance& instance, std::uint32_t request) {
  if (api_server_.has_token(request)) return;
  Stay& stay = api_server_.on_way(request);
  stay.ttft.add(instance.first_token(request), {});
  if (visit_of(stay, instance).part != RequestPart::answer) return;
  const Time waited = sooner(stay.ttft[TtftPart::kv], stay.kv_waited);
  stay.ttft[TtftPart::kv] = stay.ttft[TtftPart::kv] - waited;
  stay.ttft[TtftPart::kv_contention] += waited;
  const Time staged = sooner(stay.ttft[TtftPart::kv], stay.kv_staged);
  stay.ttft[TtftPart::kv] = stay.ttft[TtftPart::kv] - staged;
  stay.ttft[TtftPart::kv_staging] += staged;
}

void Service::on_finished(Instance& instance, std::uint32_t request, const Scheduler::Counts& counts) {
  Stay& stay = api_server_.on_way(request);
  Visit& visit = visit_of(stay, instance);
  visit.done = now();
  stay.counts.preemptions += counts.preemptions;
  stay.counts.recomputed_tokens += counts.recomputed_tokens;
  if (visit.part != RequestPart::answer) {
    stay.counts.cached_tokens = counts.cached_tokens;
    stay.counts.loaded_tokens = counts.loaded_tokens;
    stay.counts.others_tokens = counts.others_tokens;
    stay.counts.read_tokens = counts.read_tokens;
    stay.counts.peer_tokens = counts.peer_tokens;
    const std::uint64_t found = counts.cached_tokens + counts.loaded_tokens;
    stay.repeated_tokens += stay.lost_last - std::min(stay.lost_last, found);
    stay.lost_last = 0;
  }
  visit.part == RequestPart::prompt ? hand_over(request) : finish(request);
  ended(request, instance.id());
}

void Service::on_load(Instance& instance, const EngineLoad& load) {
  router_.view().on_load(instance.id(), load, now());
  for (EngineListener* listener : engine_listeners_) listener->on_load(instance.id(), load, now());
}

void Service::on_kv_promised(Instance& instance) {
  if (listener_ == nullptr) return;
  for (std::uint32_t p = 0; p < instance.grid().pp(); ++p)
    listener_->on_kv_promised(instance.name(), p, instance.grid().kv().held(p), now());
}

void Service::prefilled(Stay& stay, std::uint32_t request) {
  if (is_handed_over(stay)) {
    api_server_.tell(request, RequestPhase::handoff);
  } else if (stay.remaining().output_tokens > 1) {
    api_server_.tell(request, RequestPhase::decode);
    count(stay, kDecode, true);
  }
  count(stay, kPrefill, false);
}

void Service::hand_over(std::uint32_t request) {
  Stay& stay = api_server_.on_way(request);
  if (!is_handed_over(stay)) {
    at(stay.visits.front()).release(request);
    api_server_.leave(request);
    return;
  }
  if (exchange_.pushes()) {
    if (!api_server_.has_token(request)) at(stay.visits.back()).awaits_kv(request);
    exchange_.computed(request);
    return;
  }
  ++leaving_[stay.visits.front().instance];
  if (spec_.first_token == FirstToken::prefill) {
    on_forwarded(request);
  } else {
    api_server_.forward(request);
  }
}

void Service::on_forwarded(std::uint32_t request) {
  Stay& stay = api_server_.on_way(request);
  const std::uint32_t from = stay.visits.front().instance;
  const Request what = stay.remaining();
  Visit& answer = stay.visits.back();
  if (stay.is_kv_lost) {
    if (!api_server_.has_token(request)) stay.ttft[TtftPart::host] += now() - stay.prefilled();
    --leaving_[from];
    restart(request);
    return;
  }
  if (answer.instance == Visit::kNowhere && candidates(what, RequestPart::answer).empty()) {
    held_answers_.push_back(request);
    if (spec_.connector.lease_s == 0) return;
    leases_[next_lease_] = {request, stay.restarts, from, true};
    fabric_.calendar().at(later(now(), end_of_lease(stay.visits.front(), false)), *this, kLeaseTag, next_lease_++);
    return;
  }
  if (!api_server_.has_token(request)) stay.ttft[TtftPart::host] += now() - stay.prefilled();
  RequestContent content = std::move(contents_.extract(request).mapped());
  if (answer.instance == Visit::kNowhere) {
    Asked asked(request, what, content, RequestPart::answer);
    asked.from = from;
    answer.instance = send(asked, choose(asked, RequestPart::answer), RequestPart::answer);
  }
  --leaving_[from];
  ++waiting_[{from, answer.instance}];
  enter(request, answer, std::move(content));
}

void Service::on_kv_meets(std::uint32_t request) { at(api_server_.on_way(request).visits.back()).kv_meets(request); }

void Service::on_kv_met(std::uint32_t request) { at(api_server_.on_way(request).visits.back()).kv_met(request); }

void Service::on_kv_posted(std::uint32_t request) { at(api_server_.on_way(request).visits.back()).kv_posted(request); }

void Service::on_kv_moved(const KvMoved& moved) {
  Stay& stay = api_server_.on_way(moved.request);
  stay.kv_waited = moved.wire - moved.alone;
  stay.kv_staged = moved.staging;
  for (ServiceSink* sink : sinks_) sink->on_kv_moved(moved);
}

void Service::on_kv_arrived(std::uint32_t request) {
  Stay& stay = api_server_.on_way(request);
  Visit& answer = stay.visits.back();
  Instance &prefill = at(stay.visits.front()), &decode = at(answer);
  answer.kv_landed = now();
  prefill.release(request);
  if (decodes(stay)) {
    api_server_.tell(request, RequestPhase::decode_queued);
    decode.kv_arrived(request);
  } else {
    answer.done = now();
    decode.release(request);
    if (!is_first_token_of_prefill(stay)) {
      close_ttft(decode, request);
      api_server_.deliver(request);
    }
    finish(request);
    ended(request, decode.id());
    decode.engine().changed();
  }
  prefill.promise();
  prefill.engine().changed();
}

void Service::finish(std::uint32_t request) {
  Stay& stay = api_server_.on_way(request);
  count(stay, kDecode, false);
  Instance& last = at(stay.visits.back());
  api_server_.leave(request);
  last.promise();
}

void Service::count(Stay& stay, Phase phase, bool is_in) {
  if (std::exchange(phase == kPrefill ? stay.in_prefill : stay.in_decode, is_in) == is_in) return;
  std::uint32_t& requests = phase == kPrefill ? in_prefill_ : in_decode_;
  const bool was_empty = requests == 0;
  requests += is_in ? 1u : ~0u;
  if (was_empty == (requests == 0)) return;
  if (phase == kPrefill && !was_empty) window_ += now() - window_since_;
  if (phases_ != nullptr) was_empty ? phases_->on_phase_begun(phase) : phases_->on_phase_ended(phase);
}

std::vector<std::string> Service::blocked() const {
  std::vector<std::string> lines;
  if (const std::size_t waiting = held_.size() + held_answers_.size(); waiting > 0)
    lines.push_back(fmt::format("router: {} request{} wait{}; {}", waiting, waiting == 1 ? "" : "s",
                                waiting == 1 ? "s" : "", absences()));
  for (const auto& instance : instances_)
    if (const std::string line = instance->scheduler().blocked(); !line.empty())
      lines.push_back(fmt::format("{}: {}", instance->name(), line));
  return lines;
}

}  // namespace railyard::workload::inference
