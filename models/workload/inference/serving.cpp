#include "workload/inference/serving.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

namespace railyard::workload::inference {

namespace {

EngineSpec engine_spec(const ServingSpec& spec, const InstanceSpec& instance) {
  EngineSpec engine;
  engine.pp_send = spec.pp_send;
  engine.host = spec.host;
  engine.graphs = spec.cudagraph;
  engine.max_in_flight = instance.scheduler.max_in_flight;
  return engine;
}

}  // namespace

Serving::Side::Side(Serving& owner, std::size_t its_place, const transformer::ModelShape& model, const Placed& placed,
                    Executor& executor)
    : serving(owner),
      place(its_place),
      instance(spec().name, model, spec().mapping, owner.spec_.host, placed.gpus, executor),
      scheduler(spec().scheduler, placed.blocks),
      engine(instance, scheduler, engine_spec(owner.spec_, spec()), executor, *this),
      ttft(instance.pp()) {
  const SchedulerSpec& s = spec().scheduler;
  instance.load_paged(s.max_batched_tokens, std::min(s.max_seqs, s.max_batched_tokens), placed.blocks, s.block_tokens);
}

Serving::Serving(const transformer::ModelShape& model, const ServingSpec& spec, const std::vector<Placed>& placed,
                 Executor& executor)
    : spec_(spec),
      fabric_(executor.fabric()),
      executor_(executor),
      source_(spec.requests()),
      api_server_(executor.add_host("api_server", 0)) {
  for (std::size_t i = 0; i < placed.size(); ++i)
    sides_.push_back(std::make_unique<Side>(*this, i, model, placed[i], executor));
  KvTransferClient& client = *this;
  if (sides_.size() > 1) transfer_.emplace(sides_[0]->instance, sides_[1]->instance, executor, client);
}

std::vector<transport::Traffic> Serving::traffic() {
  std::vector<transport::Traffic> all;
  constexpr std::uint64_t kTokensOfARequest =
      1500;  // an answered prompt of a conversation, for the choice of fidelity only
  std::int64_t group = 0;
  for (const auto& side : sides_) {
    side->instance.add_traffic(all, static_cast<double>(kTokensOfARequest * source_->count()),
                               executor_.replays() ? group : transport::Traffic::kNobody);
    group += side->instance.pp();
  }
  if (!transfer_) return all;
  for (std::uint32_t r = 0; r < sides_[0]->instance.ranks(); ++r)
    for (const HandoffPlan::Share& share : transfer_->plan().shares(r))
      all.push_back({sides_[0]->instance.rank(r).gpu->window(),
                     sides_[1]->instance.rank(share.decode_rank).gpu->window(), number(TrafficClass::kv),
                     static_cast<double>(transfer_->plan().bytes(share, {0, kTokensOfARequest, kTokensOfARequest})) *
                         source_->count()});
  return all;
}

void Serving::start() {
  if (executor_.replays()) {
    std::vector<Instance*> instances;
    for (const auto& side : sides_) instances.push_back(&side->instance);
    allow_reuse(instances, traffic(), fabric_);
  }
  schedule_arrival();
}

void Serving::schedule_arrival() {
  const std::optional<Time> next = source_->next_arrival();
  if (!next || *next >= scheduled_arrival_) return;
  scheduled_arrival_ = later(*next, fabric_.now());
  fabric_.calendar().at(scheduled_arrival_, *this, 0, 0);
}

void Serving::on_event(std::uint32_t, std::uint64_t) {
  if (scheduled_arrival_ <= fabric_.now()) scheduled_arrival_ = Time::max();
  // An answer may have brought an arrival forward; then a later event finds nothing.
  for (std::optional<Time> next = source_->next_arrival(); next && *next <= fabric_.now();
       next = source_->next_arrival())
    arrive();
  schedule_arrival();
}

void Serving::arrive() {
  const std::uint32_t request = arrived_++;
  RequestSource::Arrival arrival = source_->take();
  if (std::any_of(sides_.begin(), sides_.end(),
                  [&](const auto& side) { return !side->scheduler.can_hold(arrival.request); })) {
    ++refused_;
    source_->done(request, fabric_.now());
    return;
  }
  Live& live = live_[request];
  live.request = arrival.request;
  contents_.emplace(request, std::move(arrival.content));
  if (free_streams_.empty()) {
    api_server_.add_stream("");
    free_streams_.push_back(api_server_.streams.size() - 1);
  }
  live.stream = free_streams_.back();
  free_streams_.pop_back();
  executor_.arrived();
  executor_.measure("ttft_s", request);
  if (spec_.host.request() == Time()) {
    enter(request);
    return;
  }
  tell(request, RequestPhase::host);
  executor_.host(api_server_, api_server_.stream(live.stream), spec_.host.request(), label(request, kReceive, 0),
                 *this);
}

void Serving::enter(std::uint32_t request) {
  Live& live = live_.at(request);
  live.times.queued = fabric_.now();
  tell(request, RequestPhase::queued);
  sides_[0]->add(request, live.request, contents_.at(request));
  if (!transfer_) contents_.erase(request);
}

void Serving::Side::add(std::uint32_t request, const Request& what, PromptContent content) {
  scheduler.add(request, what, std::move(content), spec().part);
  if (place == 0) ttft.queued(request, serving.fabric_.now());
  engine.added(request);
  report_load();
}

void Serving::Side::report_load() {
  const EngineLoad load{scheduler.running(), scheduler.waiting(), scheduler.pool().held()};
  if (serving.engine_listeners_.empty() || load == reported) return;
  reported = load;
  for (EngineListener* listener : serving.engine_listeners_) listener->on_load(place, load, serving.fabric_.now());
}

void Serving::Side::on_composed(std::uint32_t, Iteration& iteration) {
  iteration.running = scheduler.running();
  iteration.waiting = scheduler.waiting();
  iteration.blocks_held = scheduler.pool().held();
}

void Serving::Side::on_begun(std::uint32_t request) {
  Live& live = serving.live_.at(request);
  const Time now = serving.fabric_.now();
  if (place == 0) {
    live.times.admitted_yet = true;
    live.times.prefill_begun = now;
    serving.tell(request, RequestPhase::prefill);
  } else {
    live.times.decode_begun = now;
    serving.tell(request, RequestPhase::decode);
  }
}

void Serving::Side::on_iteration(std::uint32_t number, const Iteration& iteration) {
  for (ServingSink* sink : serving.sinks_) sink->on_iteration(place, number, iteration, serving.fabric_.now());
}

void Serving::Side::on_finished(std::uint32_t request) {
  Live& live = serving.live_.at(request);
  const Scheduler::Counts& counts = scheduler.counts(request);
  live.counts.preemptions += counts.preemptions;
  live.counts.recomputed_tokens += counts.recomputed_tokens;
  if (place == 0) live.counts.cached_tokens = counts.cached_tokens;
  place + 1 < serving.sides_.size() ? serving.hand_over(request) : serving.leave(request);
}

void Serving::hand_over(std::uint32_t request) {
  const Request& what = live_.at(request).request;
  auto content = contents_.extract(request);
  if (what.output_tokens == 1) {
    sides_[0]->scheduler.release(request);
    leave(request);
    return;
  }
  sides_[1]->add(request, what, std::move(content.mapped()));
}

void Serving::Side::on_asked(const ScheduledBatch& batch) {
  if (place == 0) ttft.composed(batch, scheduler, serving.fabric_.now());
  for (const ScheduledBatch::Fetch& fetch : batch.fetches) {
    const std::uint64_t prompt = serving.live_.at(fetch.request).request.prompt_tokens;
    serving.transfer_->send(fetch.request, {fetch.from, prompt, prompt});
  }
  report_load();
}

void Serving::Side::on_batch_begun(std::uint32_t pass, const ScheduledBatch& batch) {
  if (place == 0) ttft.begun(pass, batch, serving.fabric_.now());
}

void Serving::Side::on_activity(std::uint32_t pass, std::uint32_t stage, PassActivity activity) {
  if (place == 0) ttft.acts(pass, stage, activity, serving.fabric_.now());
}

void Serving::Side::on_batch_done(const ScheduledBatch& batch) {
  if (place == 0) ttft.completed(batch, serving.fabric_.now());
  report_load();
}

void Serving::Side::on_token(std::uint32_t request) {
  Live& live = serving.live_.at(request);
  if (live.known == 0) {
    live.ttft = ttft.first_token(request, serving.fabric_.now());
    live.ttft[TtftPart::host] += live.times.queued - live.request.arrival;
  }
  serving.deliver(request);
}

void Serving::on_kv_arrived(std::uint32_t request) {
  live_.at(request).times.kv_landed = fabric_.now();
  tell(request, RequestPhase::decode_queued);
  sides_[0]->scheduler.release(request);
  sides_[0]->report_load();
  sides_[0]->engine.changed();
  sides_[1]->scheduler.fetched(request);
  sides_[1]->engine.added(request);
}

void Serving::leave(std::uint32_t request) {
  live_.at(request).has_left = true;
  finish(request);
}

void Serving::deliver(std::uint32_t request) {
  Live& live = live_.at(request);
  work_done_ += 1.0 / live.request.output_tokens;
  if (live.known++ == 0) {
    live.times.prefilled = live.times.kv_landed = live.times.decode_begun = fabric_.now();
    if (live.request.output_tokens > 1) tell(request, transfer_ ? RequestPhase::handoff : RequestPhase::decode);
  }
  if (spec_.host.token() == Time()) {
    delivered(request);
    return;
  }
  executor_.host(api_server_, api_server_.stream(live.stream), spec_.host.token(), label(request, kDeliver, live.known),
                 *this);
}

void Serving::delivered(std::uint32_t request) {
  Live& live = live_.at(request);
  live.times.tokens.push_back(fabric_.now());
  if (live.times.tokens.size() == 1) {
    live.times.first_token = fabric_.now();
    live.ttft[TtftPart::host] += live.times.first_token - live.times.prefilled;
    executor_.measured("ttft_s", request);
    executor_.measure("tpot_s", request);
  } else if (live.times.tokens.size() == live.request.output_tokens) {
    executor_.measured("tpot_s", request, live.request.output_tokens - 1);
  }
  finish(request);
}

void Serving::finish(std::uint32_t request) {
  Live& live = live_.at(request);
  if (!live.has_left || live.times.tokens.size() != live.request.output_tokens) return;
  live.times.decoded = live.times.done = true;
  live.times.last_token = live.times.tokens.back();
  tell(request, RequestPhase::done);
  ++served_;
  for (ServingSink* sink : sinks_) sink->on_served(request, live);
  free_streams_.push_back(live.stream);
  live_.erase(request);
  source_->done(request, fabric_.now());
  schedule_arrival();
}

void Serving::tell(std::uint32_t request, RequestPhase phase) {
  if (listener_ != nullptr) listener_->on_phase(request, phase, fabric_.now());
}

JobLabel Serving::label(std::uint32_t request, What what, std::uint32_t token) const {
  Fields fields{};
  fields.request = request;
  fields.what = what;
  fields.token = token;
  return JobLabel::of(*this, fields);
}

std::string Serving::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  if (f.what == kReceive) return fmt::format("Host_Request_Req[{}]", f.request);
  return fmt::format("Host_Token[{}]_Req[{}]", f.token - 1, f.request);
}

Recorded Serving::recorded(std::uint64_t arguments) const {
  return JobLabel::fields_of<Fields>(arguments).what == kReceive ? Recorded::stage : Recorded::detail;
}

void Serving::on_job_done(const Job& job) {
  const auto f = job.label().as<Fields>();
  f.what == kReceive ? enter(f.request) : delivered(f.request);
}

std::vector<std::string> Serving::blocked() const {
  std::vector<std::string> lines;
  for (const auto& side : sides_) {
    const Scheduler& scheduler = side->scheduler;
    if (scheduler.waiting() > 0)
      lines.push_back(fmt::format("{} requests wait in the queue of {}, request {} first: {} of {} blocks are free",
                                  scheduler.waiting(), side->spec().name, scheduler.first_waiting(),
                                  scheduler.pool().free(), scheduler.pool().total()));
  }
  return lines;
}

}  // namespace railyard::workload::inference
