#include "workload/prefill/decode_side.h"

#include <algorithm>

#include <fmt/format.h>

namespace railyard::workload::prefill {

namespace {

constexpr Bytes kTokenIdBytes = 4;
constexpr std::uint32_t kStepDone = ~0u;  ///< a gate; the others are requests

}  // namespace

DecodeSide::DecodeSide(Grid& grid, const PrefillSpec& spec, Executor& executor, DecodeClient& client)
    : grid_(grid),
      spec_(spec),
      executor_(executor),
      client_(client),
      passes_(grid, executor, PassNames::decode, spec.pp_send, *this) {}

void DecodeSide::ready(std::uint32_t request) {
  const Request& r = spec_.requests[request];
  executor_.reached(this, request);
  ready_.push_back({request, r.output_tokens - 1, r.prompt_tokens});
  schedule();
}

void DecodeSide::schedule() {
  const bool busy = spec_.host.async ? steps_ > begun_ : steps_ > done_;
  if (scheduled_ || busy || (ready_.empty() && batch_.empty())) return;
  scheduled_ = true;
  executor_.fabric().calendar().at(executor_.fabric().now(), *this, 0, 0);
}

void DecodeSide::on_event(std::uint32_t, std::uint64_t) {
  scheduled_ = false;
  step();
}

void DecodeSide::step() {
  if (steps_ != 0 && !spec_.host.async) executor_.passed(this, kStepDone);
  std::size_t joined = 0;
  for (; !ready_.empty() && batch_.size() < spec_.max_batch; ++joined) {
    executor_.passed(this, ready_.front().request);
    batch_.push_back(ready_.front());
    ready_.pop_front();
  }
  Step& step = in_flight_.emplace_back();
  step.emitted = executor_.fabric().now();
  context_.clear();
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    Decoding& d = batch_[i];
    context_.push_back(++d.context);  // the token being decoded included
    step.members.push_back({d.request, i >= batch_.size() - joined, --d.left == 0});
  }
  batch_.erase(std::remove_if(batch_.begin(), batch_.end(), [](const Decoding& d) { return d.left == 0; }),
               batch_.end());
  transformer::LayerTimer& timer = grid_.timer();
  const std::uint64_t sequences = step.members.size();
  Pass pass;
  pass.index = steps_;
  pass.tokens = sequences;
  pass.embedding = timer.embedding(sequences).chain();
  pass.layers = plan_layers(grid_, {{}, gpu::one_token_each(context_), 0});
  pass.head = timer.head(sequences).chain();
  pass.prepare = spec_.host.step(sequences);
  pass.launch = spec_.host.decode_layer(sequences);
  pass.host_is_async = spec_.host.async;
  ++steps_;
  const std::vector<JobRef> after = token_sends_;
  token_sends_.clear();
  passes_.emit(pass, after);
}

void DecodeSide::on_pass_begun(std::uint32_t pass) {
  ++begun_;
  for (const Member& member : in_flight_[pass - done_].members)
    if (member.first) client_.on_decode_begun(member.request);
  if (spec_.host.async) schedule();
}

void DecodeSide::on_stage_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, JobRef job) {
  if (grid_.pp() == 1 || !grid_.stage(stage).last) return;
  Rank& rank = grid_.rank(stage, t);
  const Transfer tokens{grid_.rank(0, t).gpu->window(), kTokenIdBytes * in_flight_.back().members.size()};
  token_sends_.push_back(executor_.copy(rank, rank.stream(Grid::kPp), {{tokens}, number(TrafficClass::pp)},
                                        JobLabel::of(*this, Fields{pass, stage, t}), *this, {job}));
}

std::string DecodeSide::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  return fmt::format("D_Token_FromP[{}]_ToP[0]_TP[{}]_Step_[{}]", std::uint32_t{f.stage}, std::uint32_t{f.tp}, f.step);
}

std::string DecodeSide::task(std::uint64_t arguments) const {
  return fmt::format("pass {}", JobLabel::fields_of<Fields>(arguments).step);
}

std::string DecodeSide::work(std::uint64_t arguments) const {
  return Passes::unit(PassNames::decode, JobLabel::fields_of<Fields>(arguments).step, Pass::kOnly);
}

void DecodeSide::on_pass_done(std::uint32_t) {
  const Step step = std::move(in_flight_.front());
  in_flight_.pop_front();
  ++done_;
  if (!spec_.host.async) executor_.reached(this, kStepDone);
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

}  // namespace railyard::workload::prefill
