#include "workload/prefill/decode_side.h"

#include <algorithm>

namespace railyard::workload::prefill {

namespace {

constexpr Passes::Kinds kKinds{JobRecord::Kind::decode, JobRecord::Kind::decode_all_reduce, JobRecord::Kind::decode_all_gather,
                               JobRecord::Kind::decode_activation};
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
  ready_.push_back({request, r.output_tokens - 1, r.prompt_tokens, false});
  schedule();
}

void DecodeSide::schedule() {
  if (scheduled_ || running_ || (ready_.empty() && batch_.empty())) return;
  scheduled_ = true;
  dispatcher_.fabric().calendar().at(dispatcher_.fabric().now(), *this, 0, 0);
}

void DecodeSide::on_event(std::uint32_t, std::uint64_t) {
  scheduled_ = false;
  step();
}

void DecodeSide::step() {
  if (steps_ != 0) dispatcher_.passed(this, kStepDone);
  while (!ready_.empty() && batch_.size() < spec_.max_batch) {
    dispatcher_.passed(this, ready_.front().request);
    batch_.push_back(ready_.front());
    ready_.pop_front();
  }
  running_ = true;
  step_begun_ = dispatcher_.fabric().now();
  context_.clear();
  for (Decoding& d : batch_) {
    if (!d.begun) {
      d.begun = true;
      client_.on_decode_begun(d.request);
    }
    context_.push_back(++d.context);  // the token being decoded included
  }
  LayerTimer& timer = grid_.timer();
  Pass pass;
  pass.index = steps_;
  pass.tokens = batch_.size();
  pass.embedding = timer.embedding(batch_.size()).chain();
  for (std::uint32_t kind = 0; kind < grid_.model().kinds.size(); ++kind) {
    pass.attention.push_back(timer.decode_attention(context_, kind).chain());
    pass.mlp.push_back(timer.mlp(batch_.size(), kind).chain());
  }
  pass.head = timer.head(batch_.size()).chain();
  ++steps_;
  const std::vector<JobRef> after = token_sends_;
  token_sends_.clear();
  passes_.emit(pass, after);
}

void DecodeSide::on_pass_begun(std::uint32_t) {}

void DecodeSide::on_stage_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, JobRef job) {
  if (grid_.pp() == 1 || !grid_.stage(stage).last) return;
  JobTag tag;
  tag.run = pass;
  tag.stage = static_cast<std::uint16_t>(stage);
  tag.tp = static_cast<std::uint16_t>(t);
  RankDevice& device = grid_.rank(stage, t);
  const Transfer tokens{grid_.rank(0, t).gpu->window(), kTokenIdBytes * batch_.size()};
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
  running_ = false;
  dispatcher_.reached(this, kStepDone);
  step_seconds_ += (dispatcher_.fabric().now() - step_begun_).seconds();
  tokens_ += batch_.size();
  std::vector<Decoding> rest;
  for (Decoding& d : batch_) {
    client_.on_token(d.request);
    if (--d.left == 0) {
      client_.on_decoded(d.request);
    } else {
      rest.push_back(d);
    }
  }
  batch_ = std::move(rest);
  schedule();
}

}  // namespace railyard::workload::prefill
