#include "workload/inference/service/service.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

namespace railyard::workload::inference {

namespace {

/// A prompt and its answer in a conversation, for the choice of fidelity only.
constexpr std::uint64_t kTokensOfARequest = 1500;

}  // namespace

Service::Side::Side(Service& owner, std::size_t its_place, const transformer::ModelShape& model, const Placed& placed,
                    Executor& executor)
    : service(owner),
      place(its_place),
      instance(spec().name, model, spec().mapping, owner.spec_.host, spec().engine, placed.gpus, executor),
      scheduler(spec().scheduler, load(placed.blocks), &instance.kv()),
      engine(instance, scheduler, engine_spec(), executor, *this) {
  if (!is_paged()) return;
  instance.connect_stages();
  if (is_first() || service.spec_.first_token != FirstToken::prefill) ttft.emplace(instance.pp(), !is_first());
}

EngineSpec Service::Side::engine_spec() const {
  const SchedulerSpec& s = spec().scheduler;
  EngineSpec engine;
  engine.hop.send = service.spec_.pp_send;
  engine.host = service.spec_.host;
  engine.max_in_flight = s.groups * s.max_in_flight;
  engine.graphs = service.spec_.cudagraph;
  if (is_paged()) {
    engine.hop.tensors = spec().rules.passes_residual ? 2 : 1;
    engine.hop.by_kernels = true;
    if (spec().rules.sampled_ids == SampledIds::host) engine.token_ids = TokenIds::stay;
    return engine;
  }
  if (spec().part == RequestPart::answer) {
    engine.names = PassNames::decode;
    engine.token_ids = TokenIds::to_next_batch;
  } else {
    engine.names = PassNames::prefill;
    engine.token_ids = TokenIds::stay;
    engine.names_requests = service.spec_.names_requests;
  }
  return engine;
}

std::uint32_t Service::Side::load(std::uint32_t paged_blocks) {
  const SchedulerSpec& s = spec().scheduler;
  if (is_paged()) {
    instance.load_paged(s.max_batched_tokens, std::min(s.max_seqs, s.max_batched_tokens), paged_blocks, s.block_tokens);
    return paged_blocks;
  }
  const double limit_ratio = service.spec_.memory.memory_limit_ratio;
  if (spec().part == RequestPart::answer) {
    instance.load(limit_ratio, s.max_batched_tokens, s.max_seqs, 1);
  } else {
    instance.load(limit_ratio, s.max_batched_tokens, 1, s.max_batched_tokens);
  }
  return instance.kv().blocks() + 1;
}

Service::Service(const transformer::ModelShape& model, const ServingSpec& spec, const std::vector<Placed>& placed,
                 Executor& executor)
    : spec_(spec),
      fabric_(executor.fabric()),
      executor_(executor),
      sides_(make_sides(model, placed)),
      api_server_(spec.requests(), spec.host, Time::seconds(spec.client_us * 1e-6), spec.names_requests, executor,
                  *this) {
  HandoffClient& client = *this;
  if (sides_.size() > 1)
    handoff_.emplace(sides_[0]->instance, sides_[1]->instance, spec.handoff, spec.names_requests, executor, client);
}

std::vector<std::unique_ptr<Service::Side>> Service::make_sides(const transformer::ModelShape& model,
                                                                const std::vector<Placed>& placed) {
  std::vector<std::unique_ptr<Side>> sides;
  for (std::size_t i = 0; i < placed.size(); ++i)
    sides.push_back(std::make_unique<Side>(*this, i, model, placed[i], executor_));
  return sides;
}

void Service::add_sink(ServiceSink& sink) {
  api_server_.add_sink(sink);
  sinks_.push_back(&sink);
}

void Service::follow_requests(RequestListener& listener) {
  listener_ = &listener;
  api_server_.follow(listener);
}

std::vector<transport::Traffic> Service::traffic() {
  const auto tokens = [&](RequestPart part) {
    if (!spec_.listed) return static_cast<double>(kTokensOfARequest * api_server_.count());
    double sum = 0;
    for (const Request& r : *spec_.listed) {
      if (part != RequestPart::answer) sum += r.prompt_tokens;
      if (part != RequestPart::prompt) sum += r.output_tokens;
    }
    return sum;
  };
  std::vector<transport::Traffic> all;
  std::int64_t group = 0;
  for (const auto& side : sides_) {
    side->instance.add_traffic(all, tokens(side->spec().part),
                               executor_.replays() ? group : transport::Traffic::kNobody,
                               side->spec().rules.passes_residual ? 2 : 1);
    group += side->instance.pp();
  }
  if (!handoff_) return all;
  for (std::uint32_t r = 0; r < sides_[0]->instance.ranks(); ++r)
    for (const HandoffPlan::Share& share : handoff_->plan().shares(r))
      all.push_back({sides_[0]->instance.rank(r).gpu->window(),
                     sides_[1]->instance.rank(share.decode_rank).gpu->window(), number(TrafficClass::kv),
                     handed_over(share)});
  return all;
}

double Service::handed_over(const HandoffPlan::Share& share) const {
  const auto of = [&](std::uint64_t prompt) {
    return static_cast<double>(handoff_->plan().bytes(share, {0, prompt, prompt}));
  };
  if (!spec_.listed) return of(kTokensOfARequest) * api_server_.count();
  double bytes = 0;
  for (const Request& r : *spec_.listed) bytes += of(r.prompt_tokens);
  return bytes;
}

void Service::start() {
  if (executor_.replays()) {
    std::vector<Instance*> instances;
    for (const auto& side : sides_) instances.push_back(&side->instance);
    allow_reuse(instances, traffic(), fabric_);
  }
  api_server_.start();
}

bool Service::can_hold(const Request& request) const {
  return std::all_of(sides_.begin(), sides_.end(),
                     [&](const auto& side) { return side->scheduler.can_hold(request, side->spec().part); });
}

void Service::on_queued(std::uint32_t request, RequestContent content) {
  const Request& what = api_server_.on_way(request).request;
  contents_.emplace(request, std::move(content));
  if (pushes() && is_handed_over(what)) {
    sides_[1]->add(request, what, contents_.at(request));
  } else {
    admit(request);
  }
}

bool Service::is_handed_over(const Request& request) const {
  return handoff_ && (spec_.first_token != FirstToken::prefill || sides_[1]->scheduler.computes_answer(request));
}

bool Service::decodes(const Request& request) const {
  return handoff_ && (spec_.first_token == FirstToken::decode_step || request.output_tokens > 1);
}

bool Service::is_first_token_of_prefill(const Request& request) const {
  return spec_.first_token == FirstToken::prefill || !is_handed_over(request);
}

void Service::admit(std::uint32_t request) {
  Served& served = api_server_.on_way(request);
  served.ttft[TtftPart::decode_queue] = fabric_.now() - served.times.queued;
  const bool is_needed_again = handoff_ && !pushes();
  sides_[0]->add(request, served.request,
                 is_needed_again ? contents_.at(request) : std::move(contents_.extract(request).mapped()));
}

void Service::Side::add(std::uint32_t request, const Request& what, RequestContent content) {
  scheduler.add(request, what, std::move(content), spec().part);
  if (ttft && (is_first() || !service.pushes())) ttft->queued(request, service.fabric_.now());
  if (is_paged()) {
    if (is_first()) service.admitted(request);
    engine.added(request);
  }
  reserve();
  report();
}

void Service::Side::reserve() {
  for (const Reservation& reservation : scheduler.reserve()) on_reserved(reservation);
}

void Service::Side::on_reserved(const Reservation& reservation) {
  if (is_first()) {
    service.admitted(reservation.request);
    engine.added(reservation.request);
    return;
  }
  const std::uint64_t prompt = service.api_server_.on_way(reservation.request).request.prompt_tokens;
  if (!service.pushes()) {
    if (ttft) ttft->fetches(reservation.request, service.fabric_.now());
    service.handoff_->fetch(reservation.request, reservation.from, prompt);
    return;
  }
  service.handoff_->expect(reservation.request, reservation.from, prompt);
  service.admit(reservation.request);
}

void Service::Side::report() {
  const Time now = service.fabric_.now();
  if (!is_paged()) {
    if (service.listener_ == nullptr || instance.kv().held(0) == reported_kv) return;
    reported_kv = instance.kv().held(0);
    for (std::uint32_t p = 0; p < instance.pp(); ++p)
      service.listener_->on_kv_promised(spec().name, p, instance.kv().held(p), now);
    return;
  }
  const EngineLoad load{scheduler.running(), scheduler.waiting(), scheduler.pool().held()};
  if (service.engine_listeners_.empty() || load == reported) return;
  reported = load;
  for (EngineListener* listener : service.engine_listeners_) listener->on_load(place, load, now);
}

void Service::Side::on_composed(std::uint32_t pass, const Iteration& iteration) {
  if (is_first() && service.pushes()) service.handoff_->composed(pass, iteration.batch);
  if (is_first() || service.spec_.first_token != FirstToken::kv_arrival) return;
  for (const ScheduledBatch::Item& item : iteration.batch.items) {
    if (!item.is_first) continue;
    close_ttft(item.request);
    service.api_server_.deliver(item.request);
  }
}

void Service::Side::on_asked(const ScheduledBatch& batch) {
  if (ttft) ttft->composed(batch, scheduler, service.fabric_.now());
  for (const Reservation& reservation : batch.reservations) on_reserved(reservation);
  report();
}

void Service::Side::on_attention_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t layer,
                                         JobRef job) {
  if (is_first() && service.pushes()) service.handoff_->on_attention_emitted(pass, stage, t, layer, job);
}

void Service::Side::on_batch_begun(std::uint32_t pass, const ScheduledBatch& batch) {
  if (ttft) ttft->begun(pass, batch, service.fabric_.now());
}

void Service::Side::on_activity(std::uint32_t pass, std::uint32_t stage, PassActivity activity) {
  if (ttft) ttft->acts(pass, stage, activity, service.fabric_.now());
}

void Service::Side::on_begun(std::uint32_t request) {
  Served& served = service.api_server_.on_way(request);
  served.instance = place;
  (is_first() ? served.times.prefill_begun : served.times.decode_begun) = service.fabric_.now();
  if (!is_first()) service.count(service.in_decode_, 1, kDecode);
  service.api_server_.tell(request, is_first() ? RequestPhase::prefill : RequestPhase::decode);
}

void Service::Side::on_iteration(std::uint32_t number, const Iteration& iteration) {
  for (ServiceSink* sink : service.sinks_) sink->on_iteration(place, number, iteration, service.fabric_.now());
}

void Service::Side::on_token(std::uint32_t request) {
  if (!service.api_server_.has_token(request)) {
    close_ttft(request);
    if (is_first()) service.prefilled(request);
    if (is_first() && !service.is_first_token_of_prefill(service.api_server_.on_way(request).request)) return;
  }
  service.api_server_.deliver(request);
}

void Service::Side::close_ttft(std::uint32_t request) {
  if (ttft) service.api_server_.on_way(request).ttft.add(ttft->first_token(request, service.fabric_.now()), {});
}

void Service::Side::on_finished(std::uint32_t request) {
  Scheduler::Counts& all = service.api_server_.on_way(request).counts;
  const Scheduler::Counts& counts = scheduler.counts(request);
  all.preemptions += counts.preemptions;
  all.recomputed_tokens += counts.recomputed_tokens;
  if (is_first()) all.cached_tokens = counts.cached_tokens;
  is_last() ? service.finish(request) : service.hand_over(request);
}

void Service::Side::on_batch_done(const ScheduledBatch& batch) {
  if (ttft) ttft->completed(batch, service.fabric_.now());
  report();
}

void Service::admitted(std::uint32_t request) {
  api_server_.on_way(request).times.admitted = fabric_.now();
  if (in_prefill_ == 0) window_since_ = fabric_.now();
  count(in_prefill_, 1, kPrefill);
}

void Service::prefilled(std::uint32_t request) {
  Served& served = api_server_.on_way(request);
  served.times.prefilled = served.times.kv_landed = served.times.decode_begun = fabric_.now();
  if (is_handed_over(served.request)) {
    api_server_.tell(request, RequestPhase::handoff);
  } else if (served.request.output_tokens > 1) {
    api_server_.tell(request, RequestPhase::decode);
    count(in_decode_, 1, kDecode);
  }
  count(in_prefill_, -1, kPrefill);
  if (in_prefill_ == 0) window_ += fabric_.now() - window_since_;
}

void Service::hand_over(std::uint32_t request) {
  const Request& what = api_server_.on_way(request).request;
  if (!is_handed_over(what)) {
    sides_[0]->scheduler.release(request);
    contents_.erase(request);
    api_server_.leave(request);
  } else if (pushes()) {
    if (sides_[1]->ttft) sides_[1]->ttft->fetches(request, fabric_.now());
    handoff_->computed(request);
  } else if (spec_.first_token == FirstToken::prefill) {
    on_forwarded(request);
  } else {
    api_server_.forward(request);
  }
}

void Service::on_forwarded(std::uint32_t request) {
  Served& served = api_server_.on_way(request);
  served.ttft[TtftPart::host] += fabric_.now() - served.times.prefilled;
  sides_[1]->add(request, served.request, std::move(contents_.extract(request).mapped()));
}

void Service::on_kv_arrived(std::uint32_t request) {
  Side &prefill = *sides_[0], &decode = *sides_[1];
  Served& served = api_server_.on_way(request);
  served.times.kv_landed = fabric_.now();
  prefill.scheduler.release(request);
  prefill.report();
  if (decodes(served.request)) {
    api_server_.tell(request, RequestPhase::decode_queued);
    decode.scheduler.arrived(request);
    if (decode.ttft) decode.ttft->fetched(request, fabric_.now());
    decode.engine.added(request);
  } else {
    served.times.decode_begun = fabric_.now();
    decode.scheduler.release(request);
    if (!is_first_token_of_prefill(served.request)) {
      decode.close_ttft(request);
      api_server_.deliver(request);
    }
    finish(request);
    decode.engine.changed();
  }
  prefill.reserve();
  prefill.report();
  prefill.engine.changed();
}

void Service::finish(std::uint32_t request) {
  const Request& what = api_server_.on_way(request).request;
  if (what.output_tokens > 1 || decodes(what)) count(in_decode_, -1, kDecode);
  api_server_.leave(request);
  sides_.back()->report();
  sides_.back()->reserve();
  sides_.back()->report();
}

void Service::count(std::uint32_t& requests, int more, Phase phase) {
  const bool was_empty = requests == 0;
  requests += static_cast<std::uint32_t>(more);
  if (phases_ == nullptr || was_empty == (requests == 0)) return;
  was_empty ? phases_->on_phase_begun(phase) : phases_->on_phase_ended(phase);
}

std::vector<std::string> Service::blocked() const {
  std::vector<std::string> lines;
  for (const auto& side : sides_)
    if (const std::string line = side->scheduler.blocked(); !line.empty())
      lines.push_back(fmt::format("{}: {}", side->spec().name, line));
  return lines;
}

}  // namespace railyard::workload::inference
