#include "workload/inference/service/service.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

namespace railyard::workload::inference {

namespace {

/// A prompt and its answer in a conversation, for the choice of fidelity only.
constexpr std::uint64_t kTokensOfARequest = 1500;

}  // namespace

Service::Service(const transformer::ModelShape& model, const ServingSpec& spec, const std::vector<Placed>& placed,
                 Executor& executor)
    : spec_(spec),
      fabric_(executor.fabric()),
      executor_(executor),
      router_(spec_.router, router_members(placed), spec_.seed),
      instances_(make_instances(model, placed)),
      exchange_(spec.handoff, spec.connector, spec.names_requests, executor, *this),
      leaving_(instances_.size()),
      api_server_(spec.requests(), spec.host, Time::seconds(spec.client_us * 1e-6),
                  Time::seconds(spec.router.router_us * 1e-6),
                  static_cast<std::uint32_t>(instances_.size() - count_of(RequestPart::answer)), spec.names_requests,
                  executor, *this) {
  if (!router_.follows_blocks()) return;
  for (const auto& instance : instances_) instance->follow_blocks(block_reports_.emplace_back(*this, instance->id()));
}

std::vector<Router::Member> Service::router_members(const std::vector<Placed>& placed) const {
  std::vector<Router::Member> members(spec_.instances.size());
  for (std::size_t id = 0; id < members.size(); ++id) {
    const InstanceSpec& instance = spec_.instances[id];
    members[id].name = instance.name;
    members[id].part = instance.part;
    members[id].max_seqs = instance.scheduler.max_seqs;
    members[id].max_batched_tokens = instance.scheduler.max_batched_tokens;
    members[id].block_tokens = instance.scheduler.block_tokens;
    members[id].blocks = placed[id].blocks - std::min(placed[id].blocks, 1u);
  }
  return members;
}

std::size_t Service::count_of(RequestPart part) const {
  return static_cast<std::size_t>(std::count_if(spec_.instances.begin(), spec_.instances.end(),
                                                [&](const InstanceSpec& instance) { return instance.part == part; }));
}

std::vector<std::unique_ptr<Instance>> Service::make_instances(const transformer::ModelShape& model,
                                                               const std::vector<Placed>& placed) {
  std::vector<std::unique_ptr<Instance>> instances;
  InstanceClient& client = *this;
  for (std::uint32_t id = 0; id < placed.size(); ++id) {
    const InstanceSpec& spec = spec_.instances[id];
    const auto is_neighbour = [&](const InstanceSpec& other) { return other.group == spec.group; };
    Instance::Setting setting{model, spec_.host, spec_.cudagraph};
    setting.pp_send = spec_.pp_send;
    setting.memory_limit_ratio = spec_.memory.memory_limit_ratio;
    setting.names_requests = spec_.names_requests;
    setting.is_one_of_role = count_of(spec.part) > 1;
    setting.shares_group = std::count_if(spec_.instances.begin(), spec_.instances.end(), is_neighbour) > 1;
    setting.brings_first_token = spec_.first_token != FirstToken::prefill;
    setting.sees_kv_at_step = spec_.connector.seen_at_step;
    setting.kv_follows_promise = spec_.handoff != HandoffGrain::fetched;
    instances.push_back(std::make_unique<Instance>(id, spec, setting, placed[id].gpus, placed[id].blocks,
                                                   placed[id].host, executor_, client));
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

double Service::expected_tokens(RequestPart part) const {
  const auto shared = static_cast<double>(count_of(part));
  if (!spec_.listed) return static_cast<double>(kTokensOfARequest * api_server_.count()) / shared;
  double sum = 0;
  for (const Request& r : *spec_.listed) {
    if (part != RequestPart::answer) sum += r.prompt_tokens;
    if (part != RequestPart::prompt) sum += r.output_tokens;
  }
  return sum / shared;
}

std::vector<transport::Traffic> Service::traffic() {
  std::vector<transport::Traffic> all;
  std::int64_t group = 0;
  for (const auto& instance : instances_) {
    instance->grid().add_traffic(all, expected_tokens(instance->part()),
                                 executor_.replays() ? group : transport::Traffic::kNobody,
                                 instance->spec().rules.passes_residual ? 2 : 1);
    group += instance->grid().pp();
    if (const KvOffload* const offload = instance->offload())
      offload->add_traffic(all, expected_tokens(instance->part()));
  }
  for_each_share([&](const Instance& from, const Instance& to, std::uint32_t rank, const HandoffPlan::Share& share) {
    all.push_back({from.grid().rank(rank).gpu->window(), to.grid().rank(share.decode_rank).gpu->window(),
                   number(TrafficClass::kv), handed_over(exchange_.plan(from, to), share)});
  });
  return all;
}

double Service::handed_over(const HandoffPlan& plan, const HandoffPlan::Share& share) const {
  const auto pairs = static_cast<double>(count_of(RequestPart::prompt) * count_of(RequestPart::answer));
  const auto of = [&](std::uint64_t prompt) { return static_cast<double>(plan.bytes(share, {0, prompt, prompt})); };
  if (!spec_.listed) return of(kTokensOfARequest) * api_server_.count() / pairs;
  double bytes = 0;
  for (const Request& r : *spec_.listed) bytes += of(r.prompt_tokens);
  return bytes / pairs;
}

void Service::start() {
  // Ranks that enter by themselves drift apart in a ring, by nanoseconds a layer: no collective equals an earlier one.
  const auto is_paged = [](const auto& instance) { return !instance->spec().whole; };
  if (std::all_of(instances_.begin(), instances_.end(), is_paged)) executor_.members_begin_together();
  if (executor_.replays()) {
    std::vector<Grid*> grids;
    for (const auto& instance : instances_) grids.push_back(&instance->grid());
    std::vector<collective::OtherTraffic> kv;
    for_each_share([&](const Instance& from, const Instance& to, std::uint32_t rank, const HandoffPlan::Share& share) {
      // Memory that is not paged is promised outside of batches, at any time.
      transport::Horizon* const sends = to.spec().whole ? nullptr : &exchange_.sends(from, to);
      kv.push_back({from.grid().rank(rank).gpu->window(), to.grid().rank(share.decode_rank).gpu->window(),
                    number(TrafficClass::kv), sends});
    });
    for (const auto& instance : instances_)
      if (KvOffload* const offload = instance->offload())
        for (const collective::OtherTraffic& each : offload->traffic()) kv.push_back(each);
    allow_reuse(grids, std::move(kv), fabric_, executor_.begin_together());
  }
  api_server_.start();
}

void Service::for_each_share(
    const std::function<void(const Instance&, const Instance&, std::uint32_t, const HandoffPlan::Share&)>& what) {
  for (const auto& from : instances_) {
    for (const auto& to : instances_) {
      if (from->part() != RequestPart::prompt || to->part() != RequestPart::answer) continue;
      const HandoffPlan& plan = exchange_.plan(*from, *to);
      for (std::uint32_t r = 0; r < from->grid().ranks(); ++r)
        for (const HandoffPlan::Share& share : plan.shares(r)) what(*from, *to, r, share);
    }
  }
}

Candidates Service::candidates(const Request& request, RequestPart part) const {
  Candidates all = router_.candidates(request, part);
  const auto is_too_small = [&](std::uint32_t id) {
    return !instances_[id]->scheduler().can_hold(request, instances_[id]->part());
  };
  all.erase(std::remove_if(all.begin(), all.end(), is_too_small), all.end());
  return all;
}

bool Service::accepts(const Request& request) const {
  return !candidates(request, RequestPart::prompt).empty() &&
         (count_of(RequestPart::answer) == 0 || !candidates(request, RequestPart::answer).empty());
}

std::uint32_t Service::choose(std::uint32_t request, const RequestContent& content, RequestPart part) {
  const Request& what = api_server_.on_way(request).request;
  Asked asked(request, what, content, part);
  const Candidates all = candidates(what, part);
  const Router::Choice choice = router_.choose(asked, all, now());
  for (ServiceSink* sink : sinks_) sink->on_routed(request, part, all, choice, now());
  return choice.instance;
}

void Service::on_at_router(std::uint32_t request) {
  held_.push_back(request);
  route_held();
}

void Service::route_held() {
  const bool is_fcfs = spec_.router.queue_order == RouterQueueOrder::fcfs;
  while (!held_.empty()) {
    const std::uint32_t next = is_fcfs ? held_.front() : held_.back();
    if (router_.is_full(candidates(api_server_.on_way(next).request, RequestPart::prompt))) return;
    is_fcfs ? held_.pop_front() : held_.pop_back();
    route(next);
  }
}

void Service::route_held_soon() {
  if (!held_.empty()) fabric_.calendar().at(now(), *this, 0, 0);
}

void Service::on_event(std::uint32_t, std::uint64_t) { route_held(); }

void Service::route(std::uint32_t request) {
  const Served& served = api_server_.on_way(request);
  const RequestContent& content = api_server_.content(request);
  std::vector<Visit> visits(1);
  visits[0].instance = choose(request, content, RequestPart::prompt);
  visits[0].part = at(visits[0]).part();
  if (visits[0].part == RequestPart::prompt && needs_answer(served.request)) {
    visits.emplace_back();
    visits[1].part = RequestPart::answer;
    if (exchange_.pushes()) visits[1].instance = choose(request, content, RequestPart::answer);
  }
  api_server_.routed(request, std::move(visits));
}

void Service::ended(std::uint32_t request, std::uint32_t instance) {
  router_.view().on_ended(request, instance);
  route_held_soon();
}

bool Service::needs_answer(const Request& request) const {
  // All instances for answers have the same rule, and they are the last ones.
  return spec_.first_token != FirstToken::prefill || instances_.back()->scheduler().computes_answer(request);
}

bool Service::decodes(const Served& served) const {
  return is_handed_over(served) && (spec_.first_token == FirstToken::decode_step || served.request.output_tokens > 1);
}

bool Service::is_first_token_of_prefill(const Served& served) const {
  return spec_.first_token == FirstToken::prefill || !is_handed_over(served);
}

void Service::enter(std::uint32_t request, Visit& visit, RequestContent content) {
  visit.arrival = now();
  at(visit).add(request, api_server_.on_way(request).request, std::move(content));
}

void Service::on_queued(std::uint32_t request, RequestContent content) {
  Served& served = api_server_.on_way(request);
  contents_.emplace(request, std::move(content));
  if (exchange_.pushes() && is_handed_over(served)) {
    ++waiting_[{served.visits.front().instance, served.visits.back().instance}];
    enter(request, served.visits.back(), contents_.at(request));
  } else {
    admit(request);
  }
}

void Service::admit(std::uint32_t request) {
  Served& served = api_server_.on_way(request);
  served.ttft[TtftPart::decode_queue] = now() - served.times.queued;
  const bool is_needed_again = is_handed_over(served) && !exchange_.pushes();
  enter(request, served.visits.front(),
        is_needed_again ? contents_.at(request) : std::move(contents_.extract(request).mapped()));
}

void Service::on_promised(Instance& instance, const Reservation& reservation) {
  Served& served = api_server_.on_way(reservation.request);
  visit_of(served, instance).kv_promised = now();
  if (instance.part() != RequestPart::answer) {
    if (in_prefill_ == 0) window_since_ = now();
    count(in_prefill_, 1, kPrefill);
    return;
  }
  const KvExchange::Transfer transfer{reservation.request, &at(served.visits.front()), &instance, reservation.from,
                                      served.request.prompt_tokens};
  --waiting_[{transfer.from->id(), instance.id()}];
  if (exchange_.pushes()) {
    exchange_.expect(transfer);
    admit(reservation.request);
  } else {
    exchange_.fetch(transfer);
  }
}

void Service::on_composed(Instance& instance, std::uint32_t pass, const ScheduledBatch& batch) {
  if (instance.part() == RequestPart::prompt && exchange_.pushes()) exchange_.composed(instance, pass, batch);
  if (instance.part() != RequestPart::answer || spec_.first_token != FirstToken::kv_arrival) return;
  for (const ScheduledBatch::Item& item : batch.items) {
    if (!item.is_first) continue;
    close_ttft(instance, item.request);
    api_server_.deliver(item.request);
  }
}

void Service::on_attention_emitted(Instance& instance, std::uint32_t pass, std::uint32_t stage, std::uint32_t t,
                                   std::uint32_t layer, JobRef job) {
  if (instance.part() == RequestPart::prompt && exchange_.pushes())
    exchange_.on_attention_emitted(instance, pass, stage, t, layer, job);
}

void Service::on_begun(Instance& instance, std::uint32_t request) {
  visit_of(api_server_.on_way(request), instance).begun = now();
  const bool is_answer = instance.part() == RequestPart::answer;
  if (is_answer) count(in_decode_, 1, kDecode);
  api_server_.tell(request, is_answer ? RequestPhase::decode : RequestPhase::prefill);
}

void Service::on_iteration(Instance& instance, std::uint32_t number, const Iteration& iteration) {
  for (ServiceSink* sink : sinks_) sink->on_iteration(instance.id(), number, iteration, now());
}

void Service::on_token(Instance& instance, std::uint32_t request) {
  Served& served = api_server_.on_way(request);
  Visit& visit = visit_of(served, instance);
  if (!visit.first_token) {
    visit.first_token = now();
    router_.view().on_first_token(request, instance.id());
    route_held_soon();
  }
  if (!api_server_.has_token(request)) {
    close_ttft(instance, request);
    if (instance.part() != RequestPart::answer) {
      prefilled(served, request);
      if (!is_first_token_of_prefill(served)) return;
    }
  }
  api_server_.deliver(request);
}

void Service::close_ttft(Instance& instance, std::uint32_t request) {
  Served& served = api_server_.on_way(request);
  served.ttft.add(instance.first_token(request), {});
  if (instance.part() != RequestPart::answer) return;
  const Time waited = sooner(served.ttft[TtftPart::kv], served.kv_waited);
  served.ttft[TtftPart::kv] = served.ttft[TtftPart::kv] - waited;
  served.ttft[TtftPart::kv_contention] += waited;
}

void Service::on_finished(Instance& instance, std::uint32_t request, const Scheduler::Counts& counts) {
  Served& served = api_server_.on_way(request);
  visit_of(served, instance).done = now();
  served.counts.preemptions += counts.preemptions;
  served.counts.recomputed_tokens += counts.recomputed_tokens;
  if (instance.part() != RequestPart::answer) {
    served.counts.cached_tokens = counts.cached_tokens;
    served.counts.loaded_tokens = counts.loaded_tokens;
  }
  instance.part() == RequestPart::prompt ? hand_over(request) : finish(request);
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

void Service::prefilled(Served& served, std::uint32_t request) {
  if (is_handed_over(served)) {
    api_server_.tell(request, RequestPhase::handoff);
  } else if (served.request.output_tokens > 1) {
    api_server_.tell(request, RequestPhase::decode);
    count(in_decode_, 1, kDecode);
  }
  count(in_prefill_, -1, kPrefill);
  if (in_prefill_ == 0) window_ += now() - window_since_;
}

void Service::hand_over(std::uint32_t request) {
  Served& served = api_server_.on_way(request);
  if (!is_handed_over(served)) {
    at(served.visits.front()).release(request);
    api_server_.leave(request);
    return;
  }
  if (exchange_.pushes()) {
    at(served.visits.back()).awaits_kv(request);
    exchange_.computed(request);
    return;
  }
  ++leaving_[served.visits.front().instance];
  if (spec_.first_token == FirstToken::prefill) {
    on_forwarded(request);
  } else {
    api_server_.forward(request);
  }
}

void Service::on_forwarded(std::uint32_t request) {
  Served& served = api_server_.on_way(request);
  served.ttft[TtftPart::host] += now() - served.prefilled();
  RequestContent content = std::move(contents_.extract(request).mapped());
  const std::uint32_t from = served.visits.front().instance;
  served.visits.back().instance = choose(request, content, RequestPart::answer);
  --leaving_[from];
  ++waiting_[{from, served.visits.back().instance}];
  enter(request, served.visits.back(), std::move(content));
}

void Service::on_kv_posted(std::uint32_t request) { at(api_server_.on_way(request).visits.back()).kv_posted(request); }

void Service::on_kv_moved(const KvMoved& moved) {
  api_server_.on_way(moved.request).kv_waited = moved.wire - moved.alone;
  for (ServiceSink* sink : sinks_) sink->on_kv_moved(moved);
}

void Service::on_kv_arrived(std::uint32_t request) {
  Served& served = api_server_.on_way(request);
  Visit& answer = served.visits.back();
  Instance &prefill = at(served.visits.front()), &decode = at(answer);
  answer.kv_landed = now();
  prefill.release(request);
  if (decodes(served)) {
    api_server_.tell(request, RequestPhase::decode_queued);
    decode.kv_arrived(request);
  } else {
    answer.done = now();
    decode.release(request);
    if (!is_first_token_of_prefill(served)) {
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
  Served& served = api_server_.on_way(request);
  if (served.request.output_tokens > 1 || decodes(served)) count(in_decode_, -1, kDecode);
  Instance& last = at(served.visits.back());
  api_server_.leave(request);
  last.promise();
}

void Service::count(std::uint32_t& requests, int more, Phase phase) {
  const bool was_empty = requests == 0;
  requests += static_cast<std::uint32_t>(more);
  if (phases_ == nullptr || was_empty == (requests == 0)) return;
  was_empty ? phases_->on_phase_begun(phase) : phases_->on_phase_ended(phase);
}

std::vector<std::string> Service::blocked() const {
  std::vector<std::string> lines;
  for (const auto& instance : instances_)
    if (const std::string line = instance->scheduler().blocked(); !line.empty())
      lines.push_back(fmt::format("{}: {}", instance->name(), line));
  return lines;
}

}  // namespace railyard::workload::inference
