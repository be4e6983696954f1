#include "workload/prefill/decode_side.h"

#include <algorithm>

namespace railyard::workload::prefill {

namespace {

constexpr Passes::Kinds kKinds{JobRecord::Kind::decode,
                               JobRecord::Kind::decode_all_reduce,
                               JobRecord::Kind::decode_all_gather,
                               JobRecord::Kind::decode_activation,
                               JobRecord::Kind::host_decode,
                               JobRecord::Kind::host_decode_launch};
constexpr Bytes kTokenIdBytes = 4;
constexpr std::uint32_t kStepDone = ~0u;  ///< a gate; the others are requests

}  // namespace

DecodeSide::DecodeSide(Grid& grid, const PrefillSpec& spec, Dispatcher& dispatcher, JobSink& sink, DecodeClient& client)
    : grid_(grid),
      spec_(spec),
      dispatcher_(dispatcher),
      sink_(sink),
      client_(client),
      passes_(grid, dispatcher, kKinds, spec.pp_send, sink, *this) {}

void DecodeSide::ready(std::uint32_t request) {
  const Request& r = spec_.requests[request];
  dispatcher_.reached(this, request);
  ready_.push_back({request, r.output_tokens - 1, r.prompt_tokens});
  schedule();
}

void DecodeSide::schedule() {
  const bool busy = spec_.host.async ? steps_ > begun_ : steps_ > done_;
  if (scheduled_ || busy || (ready_.empty() && batch_.empty())) return;
  scheduled_ = true;
  dispatcher_.fabric().calendar().at(dispatcher_.fabric().now(), *this, 0, 0);
}

void DecodeSide::on_event(std::uint32_t, std::uint64_t) {
  scheduled_ = false;
  step();
}

void DecodeSide::step() {
  if (steps_ != 0 && !spec_.host.async) dispatcher_.passed(this, kStepDone);
  std::size_t joined = 0;
  for (; !ready_.empty() && batch_.size() < spec_.max_batch; ++joined) {
    dispatcher_.passed(this, ready_.front().request);
    batch_.push_back(ready_.front());
    ready_.pop_front();
  }
  Step& step = in_flight_.emplace_back();
  step.emitted = dispatcher_.fabric().now();
  context_.clear();
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    Decoding& d = batch_[i];
    context_.push_back(++d.context);  // the token being decoded included
    step.members.push_back({d.request, i >= batch_.size() - joined, --d.left == 0});
  }
  batch_.erase(std::remove_if(batch_.begin(), batch_.end(), [](const Decoding& d) { return d.left == 0; }),
               batch_.end());
  LayerTimer& timer = grid_.timer();
  const std::uint64_t sequences = step.members.size();
  Pass pass;
  pass.index = steps_;
  pass.tokens = sequences;
  pass.embedding = timer.embedding(sequences).chain();
  for (std::uint32_t kind = 0; kind < grid_.model().kinds.size(); ++kind) {
    pass.attention.push_back(timer.decode_attention(context_, kind).chain());
    pass.mlp.push_back(timer.mlp(sequences, kind).chain());
  }
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
  JobTag tag;
  tag.run = pass;
  tag.stage = static_cast<std::uint16_t>(stage);
  tag.tp = static_cast<std::uint16_t>(t);
  RankDevice& device = grid_.rank(stage, t);
  const Transfer tokens{grid_.rank(0, t).gpu->window(), kTokenIdBytes * in_flight_.back().members.size()};
  token_sends_.push_back(dispatcher_.send(device, device.pp, {tokens}, number(TrafficClass::pp), tag, *this, {job}));
}

JobRecord DecodeSide::record(const JobTag& tag) const {
  JobRecord r;
  r.kind = JobRecord::Kind::decode_token;
  r.stage = tag.stage;
  r.tp = tag.tp;
  r.index = tag.run;
  r.rank = r.stage * grid_.tp() + r.tp;
  return r;
}

void DecodeSide::on_job_done(const Job& job) {
  JobRecord r = record(job.tag());
  r.start = job.begun_at();
  r.end = dispatcher_.fabric().now();
  r.queued = job.begun_at() - job.ready_at();
  r.bytes = job.bytes();
  sink_.on_job(r);
}

void DecodeSide::on_pass_done(std::uint32_t) {
  const Step step = std::move(in_flight_.front());
  in_flight_.pop_front();
  ++done_;
  if (!spec_.host.async) dispatcher_.reached(this, kStepDone);
  const Time now = dispatcher_.fabric().now();
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
