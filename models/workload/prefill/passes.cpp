#include "workload/prefill/passes.h"

#include <fmt/format.h>
#include <algorithm>

namespace railyard::workload::prefill {

std::string Passes::label(const Job& job) {
  static constexpr const char* kLabels[] = {"embedding", "attention", "mlp",        "head",    "AR attn",
                                            "AR mlp",    "AG",        "activation", "prepare", "launch"};
  const JobTag& tag = job.tag();
  if (job.kind() == Job::Kind::send) return fmt::format("pass {}", tag.run);
  if (tag.what == kEmbedding || tag.what == kHead || tag.what == kGather || tag.what == kPrepare)
    return kLabels[tag.what];
  return fmt::format("{} L{}", kLabels[tag.what], tag.layer);
}

Passes::Passes(Grid& grid, Dispatcher& dispatcher, const Kinds& kinds, PpSend pp_send, JobSink& sink,
               PassClient& client)
    : grid_(grid),
      dispatcher_(dispatcher),
      kinds_(kinds),
      pp_send_(pp_send),
      sink_(sink),
      client_(client),
      times_(grid.ranks()) {}

collective::Request Passes::request() {
  // As a serving engine does it: its own kernel for small vectors inside a server, NCCL for the rest, all in a CUDA graph.
  collective::Request request;
  request.library = collective::Library::vllm;
  request.in_graph = true;
  request.traffic_class = number(TrafficClass::tp);
  return request;
}

collective::CollectiveSpec Passes::collective_spec(std::uint32_t stage, collective::Operation operation, Bytes bytes) {
  collective::Request request = Passes::request();
  request.operation = operation;
  request.bytes = bytes;
  return collective::choose(request, grid_.tp_group(stage), grid_.tp_site(stage, dispatcher_.fabric()));
}

std::uint32_t Passes::emit(const Pass& pass, const std::vector<JobRef>& after) {
  retire();
  const auto number = static_cast<std::uint32_t>(first_state_ + states_.size());
  states_.emplace_back();
  State& s = states_.back();
  s.pass = pass;
  s.ranks.resize(grid_.ranks());
  s.launched.resize(grid_.pp());
  s.ranks_left = grid_.ranks();
  s.last_stage_left = grid_.tp();
  s.sends_left = (grid_.pp() - 1) * grid_.tp();
  std::vector<JobRef> incoming = after;
  const JobRef prepared =
      emit_host(number, kPrepare, 0, 0, pass.prepare, pass.host_is_async ? std::vector<JobRef>() : stage0_last_);
  for (std::uint32_t p = 0; p < grid_.pp(); ++p) emit_stage(number, p, incoming, prepared);
  return number;
}

JobRef Passes::emit_host(std::uint32_t number, What what, std::uint32_t stage, std::uint32_t layer, Time duration,
                         const std::vector<JobRef>& after) {
  if (duration == Time()) return {};
  JobTag tag;
  tag.run = number;
  tag.stage = static_cast<std::uint16_t>(stage);
  tag.layer = static_cast<std::uint16_t>(layer);
  tag.what = what;
  ++state(number).host_left;
  RankDevice& device = grid_.rank(stage, 0);
  return dispatcher_.host(device, device.host, duration, tag, *this, after);
}

void Passes::emit_stage(std::uint32_t number, std::uint32_t p, std::vector<JobRef>& incoming, JobRef prepared) {
  const std::uint32_t tp = grid_.tp();
  const Pass pass = state(number).pass;
  const Stage& stage = grid_.stage(p);
  const Bytes hidden = hidden_bytes(grid_.model(), pass.tokens);
  std::vector<JobRef> last(tp);
  bool first = true;

  const auto tag = [&](What what, std::uint32_t t, std::uint32_t layer, bool is_last) {
    JobTag result;
    result.run = number;
    result.stage = static_cast<std::uint16_t>(p);
    result.tp = static_cast<std::uint16_t>(t);
    result.layer = static_cast<std::uint16_t>(layer);
    result.what = what;
    result.first = first;
    result.last = is_last;
    return result;
  };
  const auto kernels = [&](What what, const gpu::SharedChain& chain, std::uint32_t layer, bool is_last,
                           JobRef launched = {}) {
    for (std::uint32_t t = 0; t < tp; ++t) {
      RankDevice& device = grid_.rank(p, t);
      std::vector<JobRef> on;
      if (first && t < incoming.size()) on.push_back(incoming[t]);
      if (first && p == 0) on.push_back(prepared);
      on.push_back(launched);
      last[t] = dispatcher_.kernel(device, device.compute, chain, tag(what, t, layer, is_last), *this, on);
    }
    first = false;
  };
  const auto reduce = [&](What what, std::uint32_t layer, bool is_last) {
    if (tp == 1) return;
    ++state(number).collectives_left;
    dispatcher_.collective(grid_.tp_devices(p), grid_.tp_group(p),
                           collective_spec(p, collective::Operation::all_reduce, hidden), grid_.reuse(p),
                           tag(what, 0, layer, is_last), *this, last);
  };

  if (p > 0 && tp > 1 && pp_send_ == PpSend::shard) {
    ++state(number).collectives_left;
    dispatcher_.collective(grid_.tp_devices(p), grid_.tp_group(p),
                           collective_spec(p, collective::Operation::all_gather, hidden), grid_.reuse(p),
                           tag(kGather, 0, 0, false), *this, last, incoming);
    first = false;
  }
  const bool has_head = stage.last && pass.head != nullptr;
  if (p == 0 && pass.embedding != nullptr) kernels(kEmbedding, pass.embedding, 0, false);
  for (std::uint32_t l = 0; l < stage.layers; ++l) {
    const std::uint32_t layer = grid_.first_layer(p) + l;
    const bool is_last = l + 1 == stage.layers && !has_head;
    const std::uint32_t kind = grid_.model().kind(layer);
    // Launches of a later stage begin as soon as the pass is prepared, beside those of stage 0.
    const JobRef launched = emit_host(number, kLaunch, p, layer, pass.launch,
                                      l == 0 && p > 0 ? std::vector<JobRef>{prepared} : std::vector<JobRef>());
    kernels(kAttention, pass.attention[kind], layer, false, launched);
    for (std::uint32_t t = 0; t < tp; ++t) client_.on_attention_emitted(number, p, t, layer, last[t]);
    reduce(kAttentionReduce, layer, false);
    kernels(kMlp, pass.mlp[kind], layer, is_last && tp == 1);
    reduce(kMlpReduce, layer, is_last);
  }
  if (has_head) kernels(kHead, pass.head, 0, true);

  if (p == 0) stage0_last_ = last;
  incoming.assign(tp, JobRef());
  for (std::uint32_t t = 0; t < tp; ++t) {
    client_.on_stage_emitted(number, p, t, last[t]);
    if (stage.last) continue;
    RankDevice& device = grid_.rank(p, t);
    Transfer transfer{grid_.rank(p + 1, t).gpu->window(), hidden};
    if (pp_send_ == PpSend::shard) transfer.bytes = hidden / tp + (t < hidden % tp ? 1 : 0);
    incoming[t] = dispatcher_.send(device, device.pp, {transfer}, railyard::number(TrafficClass::pp),
                                   tag(kActivation, t, 0, false), *this, {last[t]});
  }
}

JobRecord Passes::record(JobKind kind, const JobTag& tag) const {
  const Pass& pass = states_[tag.run - first_state_].pass;
  JobRecord r;
  switch (kind) {
    case JobKind::kernel: r.kind = kinds_.compute; break;
    case JobKind::collective: r.kind = tag.what == kGather ? kinds_.all_gather : kinds_.all_reduce; break;
    case JobKind::send: r.kind = kinds_.activation; break;
    case JobKind::host: r.kind = tag.what == kPrepare ? kinds_.prepare : kinds_.launch; break;
    case JobKind::delay: break;
  }
  if (r.kind == kinds_.all_reduce || tag.what == kLaunch) r.layer = tag.layer;
  r.mlp = tag.what == kMlpReduce;
  r.stage = tag.stage;
  r.tp = tag.tp;
  r.index = pass.index;
  r.request = pass.request;
  r.rank = tag.stage * grid_.tp() + tag.tp;
  return r;
}

void Passes::begin_rank(const Job& job, State& s, RankState& rank) {
  rank.has_begun = true;
  rank.begun = job.begun_at();
  rank.ready = job.ready_at();
  first_begun_ = sooner(first_begun_, job.begun_at());
  const JobTag& tag = job.tag();
  if (tag.stage > 0) {
    const Time sent = s.ranks[(tag.stage - 1) * grid_.tp() + tag.tp].send_begun;
    times_[tag.stage * grid_.tp() + tag.tp].pp_s += since(rank.begun, later(job.reached_at(), sent)).seconds();
  }
  if (tag.stage == 0 && tag.tp == 0) client_.on_pass_begun(tag.run);
}

void Passes::count_host_wait(const Job& job, const State& s, RankState& rank) {
  const JobTag& tag = job.tag();
  // The first job of a later stage waits for activations; the host has launched it long before.
  if (!(tag.what == kAttention && !tag.first) && !(tag.first && tag.stage == 0)) return;
  const Time waited = since(sooner(job.begun_at(), s.launched[tag.stage]), job.reached_at());
  times_[tag.stage * grid_.tp() + tag.tp].host_s += waited.seconds();
  if (!tag.first) rank.host_waits += waited;
}

void Passes::on_job_begun(const Job& job) {
  if (job.kind() == Job::Kind::host) return;
  const JobTag& tag = job.tag();
  State& s = state(tag.run);
  RankState& rank = s.ranks[tag.stage * grid_.tp() + tag.tp];
  if (job.kind() == Job::Kind::send) {
    rank.send_begun = job.begun_at();
    return;
  }
  if (job.kind() == Job::Kind::kernel && !rank.has_kernel) {
    rank.has_kernel = true;
    rank.first_kernel = job.begun_at();
  }
  if (job.kind() == Job::Kind::kernel) count_host_wait(job, s, rank);
  if (tag.first) begin_rank(job, s, rank);
}

void Passes::end_rank(const Job& job, State& s, RankState& rank) {
  const JobTag& tag = job.tag();
  const Time now = dispatcher_.fabric().now();
  times_[tag.stage * grid_.tp() + tag.tp].occupied_s += (now - rank.begun - rank.host_waits).seconds();
  last_done_ = later(last_done_, now);
  JobRecord r = record(JobKind::kernel, tag);
  r.start = rank.first_kernel;
  r.end = rank.last_kernel_end;
  r.queued = rank.begun - rank.ready;
  sink_.on_job(r);
  --s.ranks_left;
  if (tag.stage + 1u != grid_.pp()) return;
  dispatcher_.reached(this, tag.run);
  if (--s.last_stage_left != 0) return;
  dispatcher_.passed(this, tag.run);
  client_.on_pass_done(tag.run);
}

void Passes::on_job_done(const Job& job) {
  const JobTag& tag = job.tag();
  State& s = state(tag.run);
  RankState& rank = s.ranks[tag.stage * grid_.tp() + tag.tp];
  RankTimes& times = times_[tag.stage * grid_.tp() + tag.tp];
  const Time now = dispatcher_.fabric().now();
  switch (job.kind()) {
    case Job::Kind::kernel:
      times.kernels_s += job.duration().seconds();
      rank.last_kernel_end = now;
      break;
    case Job::Kind::collective: {
      const collective::Collective& c = *job.collective();
      times.tp_sync_s += (c.last_entry() - c.entered(job.member())).seconds();
      times.tp_s += (now - c.last_entry()).seconds();
      break;
    }
    case Job::Kind::send: {
      JobRecord r = record(JobKind::send, tag);
      r.start = job.begun_at();
      r.end = now;
      r.queued = job.begun_at() - job.ready_at();
      r.bytes = job.bytes();
      sink_.on_job(r);
      --s.sends_left;
      break;
    }
    case Job::Kind::host: {
      s.launched[tag.stage] = now;
      JobRecord r = record(JobKind::host, tag);
      r.start = job.begun_at();
      r.end = now;
      r.queued = job.begun_at() - job.ready_at();
      sink_.on_job(r);
      --s.host_left;
      return;
    }
    case Job::Kind::delay: break;
  }
  if (tag.last) end_rank(job, s, rank);
}

void Passes::on_collective_done(const collective::Collective& c, const JobTag& tag) {
  JobRecord r = record(JobKind::collective, tag);
  r.start = c.first_entry();
  r.queued = c.last_entry() - c.first_entry();
  r.end = dispatcher_.fabric().now();
  r.bytes = c.spec().bytes;
  sink_.on_job(r);
  --state(tag.run).collectives_left;
}

void Passes::retire() {
  while (!states_.empty() && states_.front().over()) {
    states_.pop_front();
    ++first_state_;
  }
}

}  // namespace railyard::workload::prefill
