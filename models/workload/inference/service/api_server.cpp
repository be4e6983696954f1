#include "workload/inference/service/api_server.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

namespace railyard::workload::inference {

ApiServer::ApiServer(std::unique_ptr<RequestSource> source, std::vector<Host> hosts, Time client_time, Time router_time,
                     std::uint32_t servers, bool names_requests, Executor& executor, ApiServerClient& client)
    : source_(std::move(source)),
      hosts_(std::move(hosts)),
      receives_slowly_(std::any_of(hosts_.begin(), hosts_.end(), [](const Host& h) { return h.request() > Time(); })),
      client_time_(client_time),
      router_time_(router_time),
      names_requests_(names_requests),
      executor_(executor),
      client_(client),
      rank_(executor.add_host("api_server", 0)) {
  for (std::uint32_t i = 0; i < servers; ++i) rank_.add_stream("");
}

Time ApiServer::next_queued(Time answered) const {
  const Time now = executor_.fabric().now();
  if (before_queue_ > 0) return now;
  if (arrived_ == count()) return Time::max();
  if (source_->is_open()) return now;
  if (!source_->follows_answers() || live_.empty()) return scheduled_arrival_;
  return leaving_ > 0 ? now : sooner(scheduled_arrival_, answered);
}

void ApiServer::schedule_arrival() {
  const std::optional<Time> next = source_->next_arrival();
  if (!next || *next >= scheduled_arrival_) return;
  scheduled_arrival_ = later(*next, executor_.fabric().now());
  executor_.fabric().calendar().at(scheduled_arrival_, *this, kArriveTag, 0);
}

void ApiServer::on_event(std::uint32_t tag, std::uint64_t request) {
  const Time now = executor_.fabric().now();
  if (tag == kLeaveTag) {
    leaves_.erase(leaves_.find(now));
    leave_early(static_cast<std::uint32_t>(request));
    return;
  }
  if (scheduled_arrival_ <= now) scheduled_arrival_ = Time::max();
  // An answer may have brought an arrival forward; then a later event finds nothing.
  for (std::optional<Time> next = source_->next_arrival(); next && *next <= now; next = source_->next_arrival())
    arrive();
  schedule_arrival();
}

void ApiServer::arrive() {
  const std::uint32_t request = arrived_++;
  RequestSource::Arrival arrival = source_->take();
  if (!client_.accepts(arrival.request)) {
    ++refused_;
    for (RequestSink* sink : sinks_) sink->on_refused(request);
    source_->done(request, executor_.fabric().now());
    return;
  }
  Live& live = live_[request];
  live.request = arrival.request;
  live.accounted = arrival.request.arrival;
  live.content = std::move(arrival.content);
  if (free_streams_.empty()) {
    rank_.add_stream("");
    free_streams_.push_back(rank_.streams.size() - 1);
  }
  live.stream = free_streams_.back();
  free_streams_.pop_back();
  if (live.request.leaves != Time::max()) leaves_at(request, later(live.request.leaves, executor_.fabric().now()));
  ++before_queue_;
  executor_.arrived(arrival.after);
  executor_.measure("ttft_s", request);
  if (client_time_ + router_time_ > Time() || receives_slowly_) tell(request, RequestPhase::host);
  if (client_time_ == Time()) {
    reach_router(request);
    return;
  }
  host(request, live.stream, client_time_, kSend);
}

void ApiServer::reach_router(std::uint32_t request) {
  Live& live = live_.at(request);
  live.at_router = executor_.fabric().now();
  if (router_time_ == Time()) {
    client_.on_at_router(request);
    return;
  }
  host(request, live.stream, router_time_, kRoute);
}

void ApiServer::routed(std::uint32_t request, std::vector<Visit> visits) {
  Live& live = live_.at(request);
  live.visits = std::move(visits);
  live.in_router = executor_.fabric().now() - live.at_router;
  receive(request);
}

void ApiServer::receive(std::uint32_t request) {
  const std::uint32_t instance = live_.at(request).visits.front().instance;
  const Time duration = hosts_[instance].request();
  if (duration == Time()) {
    enter(request);
    return;
  }
  host(request, instance, duration, kReceive);
}

void ApiServer::enter(std::uint32_t request) {
  Live& live = live_.at(request);
  live.times.queued = executor_.fabric().now();
  if (live.known == 0) {
    live.ttft[TtftPart::router] += live.in_router;
    live.ttft[TtftPart::host] += live.times.queued - live.accounted - live.in_router;
  }
  tell(request, RequestPhase::queued);
  live.is_queued = true;
  --before_queue_;
  client_.on_queued(request, keeps_contents_ ? live.content : std::move(live.content));
}

std::vector<std::uint32_t> ApiServer::requests() const {
  std::vector<std::uint32_t> all;
  for (const auto& [request, live] : live_) all.push_back(request);
  std::sort(all.begin(), all.end());
  return all;
}

void ApiServer::restart(std::uint32_t request) {
  Live& live = live_.at(request);
  ++live.restarts;
  live.resumed_tokens = live.known;
  live.visits.clear();
  live.accounted = executor_.fabric().now();
  live.is_queued = false;
  ++before_queue_;
  executor_.arrived(std::nullopt);
  reach_router(request);
}

void ApiServer::forward(std::uint32_t request) {
  const Live& live = live_.at(request);
  const Host& process = hosts_[live.visits.front().instance];  // the second instance may not be chosen yet
  const Time duration = process.token() + process.request();
  if (duration == Time()) {
    client_.on_forwarded(request);
    return;
  }
  host(request, live.stream, duration, kForward);
}

void ApiServer::deliver(std::uint32_t request) {
  Live& live = live_.at(request);
  work_done_ += 1.0 / live.request.output_tokens;
  if (live.known++ == 0) live.times.first_known = executor_.fabric().now();
  const Time duration = hosts_[live.instance()].token();
  if (duration == Time()) {
    delivered(request);
    return;
  }
  host(request, live.stream, duration, kDeliver, live.known);
}

void ApiServer::delivered(std::uint32_t request) {
  Live& live = live_.at(request);
  RequestTimes& times = live.times;
  times.tokens.push_back(executor_.fabric().now());
  if (times.tokens.size() == 1) {
    times.first_token = times.tokens.back();
    live.ttft[TtftPart::host] += times.first_token - times.first_known;
    executor_.measured("ttft_s", request);
    executor_.measure("tpot_s", request);
  } else if (times.tokens.size() == live.request.output_tokens) {
    executor_.measured("tpot_s", request, live.request.output_tokens - 1);
  }
  for (RequestSink* sink : sinks_) sink->on_token(request, live);
  finish(request);
}

void ApiServer::leave(std::uint32_t request) {
  live_.at(request).has_left = true;
  ++leaving_;
  finish(request);
}

void ApiServer::finish(std::uint32_t request) {
  Live& live = live_.at(request);
  if (!live.has_left || live.times.tokens.size() != live.request.output_tokens) return;
  live.times.last_token = live.times.tokens.back();
  tell(request, RequestPhase::done);
  --leaving_;
  ++served_;
  for (RequestSink* sink : sinks_) sink->on_served(request, live);
  forget(request);
}

void ApiServer::forget(std::uint32_t request) {
  free_streams_.push_back(live_.at(request).stream);
  live_.erase(request);
  executor_.answered(request, source_->done(request, executor_.fabric().now()));
  schedule_arrival();
}

void ApiServer::leaves_at(std::uint32_t request, Time when) {
  leaves_.insert(when);
  // After all else of that instant, so that it does not matter when the leave became known.
  constexpr std::uint64_t kLeaveTurns = transport::Calendar::kLastTurns + (1ull << 40);
  executor_.fabric().calendar().at_last(when, kLeaveTurns + request, *this, kLeaveTag, request);
}

void ApiServer::leave_early(std::uint32_t request) {
  const auto own = live_.find(request);
  if (own == live_.end() || own->second.has_left || own->second.is_aborted) return;
  own->second.is_aborted = true;
  own->second.request.leaves = executor_.fabric().now();
  client_.withdraw(request);
  drop(request);
}

void ApiServer::drop(std::uint32_t request) {
  Live& live = live_.at(request);
  if (live.jobs > 0) return;
  if (!live.is_queued) --before_queue_;
  work_done_ += 1 - static_cast<double>(live.known) / live.request.output_tokens;
  ++aborted_;
  tell(request, RequestPhase::done);
  for (RequestSink* sink : sinks_) sink->on_aborted(request, live);
  forget(request);
}

void ApiServer::host(std::uint32_t request, std::size_t stream, Time duration, What what, std::uint32_t token) {
  ++live_.at(request).jobs;
  executor_.host(rank_, rank_.stream(stream), duration, label(request, what, token), *this);
}

void ApiServer::tell(std::uint32_t request, RequestPhase phase) {
  if (listener_ != nullptr) listener_->on_phase(request, phase, executor_.fabric().now());
}

JobLabel ApiServer::label(std::uint32_t request, What what, std::uint32_t token) const {
  Fields fields{};
  fields.request = request;
  fields.what = what;
  fields.token = token;
  return JobLabel::of(*this, fields);
}

std::string ApiServer::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  std::string name = f.what == kSend      ? "Client_Request"
                     : f.what == kRoute   ? "Router_Request"
                     : f.what == kReceive ? "Host_Request"
                     : f.what == kForward ? "Host_Forward"
                                          : fmt::format("Host_Token[{}]", f.token - 1);
  if (names_requests_) name += fmt::format("_Req[{}]", f.request);
  return name;
}

Recorded ApiServer::recorded(std::uint64_t arguments) const {
  return JobLabel::fields_of<Fields>(arguments).what == kDeliver ? Recorded::detail : Recorded::stage;
}

HostWork ApiServer::host_work(std::uint64_t arguments) const {
  switch (JobLabel::fields_of<Fields>(arguments).what) {
    case kSend: return HostWork::client;
    case kRoute: return HostWork::router;
    default: return HostWork::server;
  }
}

void ApiServer::on_job_done(const Job& job) {
  const auto f = job.label().as<Fields>();
  Live& live = live_.at(f.request);
  --live.jobs;
  if (live.is_aborted) {
    drop(f.request);
    return;
  }
  switch (f.what) {
    case kSend: reach_router(f.request); break;
    case kRoute: client_.on_at_router(f.request); break;
    case kReceive: enter(f.request); break;
    case kForward: client_.on_forwarded(f.request); break;
    default: delivered(f.request); break;
  }
}

}  // namespace railyard::workload::inference
