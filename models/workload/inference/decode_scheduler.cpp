#include "workload/inference/decode_scheduler.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace railyard::workload::inference {

namespace {

constexpr Bytes kTokenIdBytes = 4;

}  // namespace

DecodeScheduler::DecodeScheduler(Instance& instance, const PrefillSpec& spec, Executor& executor, DecodeClient& client)
    : instance_(instance),
      spec_(spec),
      executor_(executor),
      client_(client),
      pipeline_(instance, executor, PassNames::decode, spec.pp_send, *this),
      groups_(instance.pp()) {}

void DecodeScheduler::ready(std::uint32_t request) {
  const Request& r = spec_.requests[request];
  executor_.reached(this, request);
  ready_.push_back({request, r.output_tokens - 1, r.prompt_tokens});
  schedule();
}

std::size_t DecodeScheduler::decoding() const {
  std::size_t sum = 0;
  for (const Group& group : groups_) sum += group.batch.size();
  return sum;
}

bool DecodeScheduler::may_step(const Group& group) const {
  const bool busy = spec_.host.async ? group.steps > group.begun : group.steps > group.done;
  return !group.scheduled && !busy && (!group.batch.empty() || (!ready_.empty() && decoding() < spec_.max_batch));
}

void DecodeScheduler::schedule() {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!may_step(groups_[g])) continue;
    const bool is_new = groups_[g].batch.empty();
    groups_[g].scheduled = true;
    executor_.fabric().calendar().at(executor_.fabric().now(), *this, 0, g);
    if (is_new) return;  // the new group takes all requests that are ready
  }
}

void DecodeScheduler::on_event(std::uint32_t, std::uint64_t group) {
  groups_[group].scheduled = false;
  step(group);
}

void DecodeScheduler::step(std::size_t number) {
  Group& group = groups_[number];
  if (group.steps != 0 && !spec_.host.async) executor_.passed(this, step_done(number));
  std::size_t joined = 0;
  for (; !ready_.empty() && decoding() < spec_.max_batch; ++joined) {
    executor_.passed(this, ready_.front().request);
    group.batch.push_back(ready_.front());
    ready_.pop_front();
  }
  if (group.batch.empty()) return;  // another group has taken the requests
  Step& step = in_flight_.emplace_back();
  step.emitted = executor_.fabric().now();
  step.group = number;
  Batch batch;
  for (std::size_t i = 0; i < group.batch.size(); ++i) {
    Decoding& d = group.batch[i];
    batch.contexts.push_back(++d.context);  // includes the token being decoded
    step.members.push_back({d.request, i >= group.batch.size() - joined, --d.left == 0});
  }
  group.batch.erase(
      std::remove_if(group.batch.begin(), group.batch.end(), [](const Decoding& d) { return d.left == 0; }),
      group.batch.end());
  Pass pass = plan_pass(instance_, batch, spec_.host);
  pass.index = steps_;
  ++steps_;
  ++group.steps;
  const std::vector<JobRef> after = std::exchange(group.token_sends, {});
  pipeline_.emit(pass, after);
}

void DecodeScheduler::on_pass_begun(std::uint32_t pass) {
  const Step& step = in_flight_[pass - done_];
  ++groups_[step.group].begun;
  for (const Member& member : step.members)
    if (member.first) client_.on_decode_begun(member.request);
  if (spec_.host.async) schedule();
}

void DecodeScheduler::on_stage_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, JobRef job) {
  if (instance_.pp() == 1 || !instance_.stage(stage).last) return;
  Rank& rank = instance_.rank(stage, t);
  const Transfer tokens{instance_.rank(0, t).gpu->window(), kTokenIdBytes * in_flight_.back().members.size()};
  groups_[in_flight_.back().group].token_sends.push_back(
      executor_.copy(rank, rank.stream(Instance::kPp), {{tokens}, number(TrafficClass::pp)},
                     JobLabel::of(*this, Fields{pass, stage, t}), *this, {job}));
}

std::string DecodeScheduler::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  return fmt::format("D_Token_FromP[{}]_ToP[0]_TP[{}]_Step_[{}]", std::uint32_t{f.stage}, std::uint32_t{f.tp}, f.step);
}

std::string DecodeScheduler::task(std::uint64_t arguments) const {
  return fmt::format("pass {}", JobLabel::fields_of<Fields>(arguments).step);
}

std::string DecodeScheduler::work(std::uint64_t arguments) const {
  return Pipeline::unit(PassNames::decode, JobLabel::fields_of<Fields>(arguments).step, Pass::kOnly);
}

void DecodeScheduler::on_pass_done(std::uint32_t) {
  const Step step = std::move(in_flight_.front());
  in_flight_.pop_front();
  ++done_;
  ++groups_[step.group].done;
  if (!spec_.host.async) executor_.reached(this, step_done(step.group));
  const Time now = executor_.fabric().now();
  step_seconds_ += (now - later(step.emitted, step_done_)).seconds();
  step_done_ = now;
  tokens_ += step.members.size();
  for (const Member& member : step.members) {
    client_.on_token(member.request);
    if (member.last) client_.on_decoded(member.request);
  }
  schedule();
}

}  // namespace railyard::workload::inference
