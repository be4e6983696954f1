#include "workload/inference/serving.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

namespace railyard::workload::inference {

namespace {

EngineSpec engine_spec(const ServingSpec& spec) {
  EngineSpec engine;
  engine.pp_send = spec.pp_send;
  engine.host = spec.host;
  engine.graphs = spec.cudagraph;
  engine.max_in_flight = spec.instances.front().scheduler.max_in_flight;
  return engine;
}

}  // namespace

Serving::Serving(const transformer::ModelShape& model, const ServingSpec& spec, const std::vector<gpu::Gpu*>& gpus,
                 std::uint32_t blocks, Executor& executor)
    : spec_(spec),
      fabric_(executor.fabric()),
      executor_(executor),
      instance_(spec.instances.front().name, model, spec.instances.front().mapping, spec.host, gpus, executor),
      scheduler_(spec.instances.front().scheduler, blocks),
      engine_(instance_, scheduler_, engine_spec(spec), executor, *this),
      source_(spec.requests()),
      api_server_(executor.add_host("api_server", 0)) {
  const SchedulerSpec& scheduler = spec.instances.front().scheduler;
  instance_.load_paged(scheduler.max_batched_tokens, std::min(scheduler.max_seqs, scheduler.max_batched_tokens), blocks,
                       scheduler.block_tokens);
}

std::vector<transport::Traffic> Serving::traffic() {
  std::vector<transport::Traffic> all;
  constexpr double kTokensOfARequest = 1500;  // an answered prompt of a conversation, for the choice of fidelity only
  instance_.add_traffic(all, kTokensOfARequest * source_->count(),
                        executor_.replays() ? 0 : transport::Traffic::kNobody);
  return all;
}

void Serving::start() {
  if (executor_.replays()) {
    std::vector<Communicator*> groups;
    for (std::uint32_t p = 0; p < instance_.pp(); ++p) groups.push_back(&instance_.tp_communicator(p));
    std::vector<Communicator::OtherTraffic> others;
    for (const transport::Traffic& t : traffic())
      if (t.traffic_class != number(TrafficClass::tp)) others.emplace_back(t.source, t.destination, t.traffic_class);
    Communicator::allow_reuse(groups, others, fabric_);
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
  auto content = contents_.extract(request);
  scheduler_.add(request, live.request, std::move(content.mapped()));
  engine_.added(request);
}

void Serving::on_composed(std::uint32_t, Iteration& iteration) {
  iteration.running = scheduler_.running();
  iteration.waiting = scheduler_.waiting();
  iteration.blocks_held = scheduler_.pool().held();
}

void Serving::on_begun(std::uint32_t request) {
  RequestTimes& times = live_.at(request).times;
  times.admitted_yet = true;
  times.prefill_begun = fabric_.now();
  tell(request, RequestPhase::prefill);
}

void Serving::on_token(std::uint32_t request) {
  Live& live = live_.at(request);
  if (live.known++ == 0) {
    live.times.prefilled = live.times.kv_landed = live.times.decode_begun = fabric_.now();
    if (live.request.output_tokens > 1) tell(request, RequestPhase::decode);
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
    executor_.measured("ttft_s", request);
    executor_.measure("tpot_s", request);
  } else if (live.times.tokens.size() == live.request.output_tokens) {
    executor_.measured("tpot_s", request, live.request.output_tokens - 1);
  }
  finish(request);
}

void Serving::on_finished(std::uint32_t request) {
  Live& live = live_.at(request);
  live.counts = scheduler_.counts(request);
  live.has_left = true;
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

void Serving::on_iteration(std::uint32_t number, const Iteration& iteration) {
  for (ServingSink* sink : sinks_) sink->on_iteration(number, iteration, fabric_.now());
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
  if (scheduler_.waiting() > 0)
    lines.push_back(fmt::format("{} requests wait in the queue, request {} first: {} of {} blocks are free",
                                scheduler_.waiting(), scheduler_.first_waiting(), scheduler_.pool().free(),
                                scheduler_.pool().total()));
  return lines;
}

}  // namespace railyard::workload::inference
