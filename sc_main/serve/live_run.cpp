#include "sc_main/serve/live_run.h"

#include <fmt/format.h>
#include <algorithm>
#include <systemc>
#include <thread>
#include <utility>

namespace railyard::serve {

using workload::inference::Request;
using workload::inference::Stay;

namespace {

constexpr Time kResolution = Time::ns(1);  ///< of arrivals

/// The next whole nanosecond after an instant.
Time after(Time at) { return Time::ns(at.fs() / kResolution.fs() + 1); }

std::vector<std::uint32_t> all_kv_blocks(const ServingRun& run, const workload::inference::ServingSpec& spec) {
  std::vector<std::uint32_t> blocks;
  for (std::size_t i = 0; i < spec.instances.size(); ++i)
    blocks.push_back((run.kv_blocks()[i] - 1) * spec.instances[i].mapping.dp);
  return blocks;
}

bool has_stopped() { return (sc_core::sc_get_status() & (sc_core::SC_STOPPED | sc_core::SC_END_OF_SIMULATION)) != 0; }

ApiError unavailable(const std::string& message) { return ApiError(503, "ServiceUnavailableError", message); }

}  // namespace

LiveRun::LiveRun(ServingRun& run, const workload::inference::ServingSpec& spec,
                 std::shared_ptr<workload::inference::LiveRequests> requests, ApiModel model, double pace,
                 const volatile std::sig_atomic_t& signals, const std::string& record)
    : run_(run),
      calendar_(run.executor().fabric().calendar()),
      requests_(std::move(requests)),
      model_(std::move(model)),
      pace_(pace),
      signals_(signals),
      pacer_(1, WallClock::now()),
      inbox_(kMostUnderWay),
      leaving_(kMostUnderWay),
      metrics_(model_, pace, all_kv_blocks(run, spec)) {
  run_.service().add_sink(*this);
  run_.service().add_sink(metrics_);
  run_.follow_engines(metrics_);
  if (!record.empty()) record_ = std::make_unique<OutputFile>(record);
}

std::shared_ptr<Answer> LiveRun::submit(ApiRequest request) {
  if (under_way_++ >= kMostUnderWay) {
    --under_way_;
    throw unavailable(fmt::format("{} requests are under way; accepted: more when some have ended", kMostUnderWay));
  }
  auto answer = std::make_shared<Answer>(std::move(request));
  if (inbox_.put({answer, WallClock::now()}) == Inbox<Submission>::Put::taken) return answer;
  --under_way_;
  throw unavailable("the server takes no more requests");
}

void LiveRun::drive() {
  constexpr auto kTick = std::chrono::milliseconds(20);  // between looks at signals
  if (pace_ > 0) pacer_ = Pacer(pace_, WallClock::now());
  while (!has_stopped()) {
    close_if_asked();
    take_in();
    take_leaves();
    const bool is_pending = sc_core::sc_pending_activity();
    if (run_.done() || (!answers_.empty() && !is_pending)) break;
    auto then = WallClock::now() + kTick;
    if (pace_ > 0) {
      run_to(pacer_.simulated(WallClock::now()));
      if (sc_core::sc_pending_activity()) then = std::min(then, pacer_.due(next_instant()));
    } else if (!answers_.empty()) {
      run_to(next_instant());
      continue;
    }
    inbox_.is_closed() ? std::this_thread::sleep_until(then) : inbox_.wait_until(then);
  }
  if (!has_stopped() && calendar_.pending() > 0) sc_core::sc_start();  // what follows the last token
}

void LiveRun::run_to(Time until) {
  const bool is_pending = sc_core::sc_pending_activity();
  const double woken_late_s = pace_ > 0 && is_pending ? since(until, next_instant()).seconds() : 0;
  const Time duration = since(until, calendar_.now());
  if (duration > Time() || sc_core::sc_pending_activity_at_current_time())
    sc_core::sc_start(sc_core::sc_time::from_value(duration.fs()));
  behind_s_ = woken_late_s + behind_s(calendar_.now());
  metrics_.on_progress(calendar_.now(), behind_s_);
  for (const Ended& ended : std::exchange(ended_, {})) ended.answer->end(ended.cached_tokens);
}

Time LiveRun::next_instant() const {
  return calendar_.now() + Time::fs(sc_core::sc_time_to_pending_activity().value());
}

void LiveRun::close_if_asked() {
  if (inbox_.is_closed() || (signals_ == 0 && calendar_.now().seconds() < kLastArrivalSeconds)) return;
  inbox_.close();
  take_in();
  requests_->close();
}

void LiveRun::take_in() {
  if (!inbox_.has_items()) return;
  for (Submission& submission : inbox_.take()) {
    const ApiRequest& request = submission.answer->request();
    last_arrival_ = later(last_arrival_, instant_of(submission.came));
    const std::uint32_t number =
        requests_->add({last_arrival_, request.prompt_tokens, request.answer_tokens}, request.content);
    answers_.emplace(number, submission.answer);
    record(request, last_arrival_);
    submission.answer->arrived(number, last_arrival_, behind_s_);
  }
  run_.service().requests_came();
}

double LiveRun::behind_s(Time now) const {
  return pace_ > 0 ? since(pacer_.simulated(WallClock::now()), now).seconds() : 0;
}

Time LiveRun::instant_of(WallClock::time_point came) const {
  const Time now = calendar_.now();
  return after(later(pace_ > 0 ? pacer_.simulated(came) : now, now));
}

void LiveRun::take_leaves() {
  if (!leaving_.has_items()) return;
  for (const Submission& leaving : leaving_.take()) {
    const AnswerFacts facts = leaving.answer->facts();
    const auto found = answers_.find(facts.number);
    if (found == answers_.end() || found->second != leaving.answer) continue;  // it has ended meanwhile
    run_.service().leaves_at(facts.number, later(instant_of(leaving.came), after(facts.arrival)));
  }
}

void LiveRun::record(const ApiRequest& request, Time arrival) {
  if (!record_) return;
  const auto& ids = request.content.ids;
  const auto answer = ids.begin() + request.prompt_tokens;
  recorded_.push_back(
      {fmt::format("{{\"input_toks\":{},\"output_toks\":{},\"arrival_time_ns\":{},\"input_tok_ids\":[{}],"
                   "\"output_tok_ids\":[{}]",
                   request.prompt_tokens, request.answer_tokens, arrival.fs() / kResolution.fs(),
                   fmt::join(ids.begin(), answer, ","), fmt::join(answer, ids.end(), ",")),
       std::nullopt, false});
}

void LiveRun::close_record(std::uint32_t request, std::optional<Time> left) {
  if (!record_) return;
  Recorded& own = recorded_[request - written_];
  own.left = left;
  own.is_over = true;
  write_records(false);
}

void LiveRun::write_records(bool all) {
  for (; !recorded_.empty() && (all || recorded_.front().is_over); recorded_.pop_front(), ++written_) {
    const Recorded& next = recorded_.front();
    const std::string left = next.left ? std::to_string(next.left->fs() / kResolution.fs()) : "null";
    record_->print("{},\"client_left_ns\":{}}}\n", next.line, left);
  }
}

std::shared_ptr<Answer> LiveRun::take_out(std::uint32_t request) {
  const auto found = answers_.find(request);
  std::shared_ptr<Answer> answer = std::move(found->second);
  answers_.erase(found);
  --under_way_;
  return answer;
}

void LiveRun::on_token(std::uint32_t request, const Stay& stay) {
  const Time now = stay.times.tokens.back();
  answers_.at(request)->add_token(now, behind_s(now));
}

void LiveRun::on_served(std::uint32_t request, const Stay& stay) {
  const std::shared_ptr<Answer> answer = take_out(request);
  close_record(request, std::nullopt);
  metrics_.on_end(answer->request().ends_by_itself);
  ended_.push_back({answer, stay.counts.cached_tokens});
}

void LiveRun::on_aborted(std::uint32_t request, const Stay& stay) {
  take_out(request);
  close_record(request, stay.request.leaves);
}

void LiveRun::on_refused(std::uint32_t request) {
  const std::shared_ptr<Answer> answer = take_out(request);
  close_record(request, std::nullopt);
  answer->fail(bad_request(fmt::format("a prompt of {} tokens with an answer of {} can never fit into the KV cache",
                                       answer->request().prompt_tokens, answer->request().answer_tokens)));
}

void LiveRun::finish() {
  inbox_.close();
  const ApiError error(500, "InternalServerError", "the simulation has ended before the answer");
  for (const Submission& submission : inbox_.take()) submission.answer->fail(error);
  for (const auto& [number, answer] : answers_) answer->fail(error);
  answers_.clear();
  if (record_) write_records(true);
  record_.reset();
}

}  // namespace railyard::serve
