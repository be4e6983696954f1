#include "workload/inference/engine/pipeline.h"

#include <fmt/format.h>
#include <algorithm>

namespace railyard::workload::inference {

Pipeline::Pipeline(Grid& grid, Executor& executor, PassNames names, const StageHop& hop, PassClient& client,
                   const Pass& least, std::string suffix)
    : grid_(grid),
      executor_(executor),
      names_(names),
      hop_(hop),
      client_(client),
      suffix_(std::move(suffix)),
      times_(grid.ranks()) {
  const LeastTimes times = least_times(least);
  const auto half = [](Time time) { return Time::fs(time.fs() / 2); };
  for (std::uint32_t p = 0; p < grid.pp(); ++p) {
    const StageSends::Least any{half(times.stages[p].all), half(times.stages[p].after_kv)};
    grid_.add_sends(sends_.emplace_back(fmt::format("PP[{}]{}", p, suffix_), executor.fabric(), grid.width(), any));
  }
}

std::uint32_t Pipeline::emit(const Pass& pass, const std::vector<JobRef>& after) {
  retire();
  const auto number = static_cast<std::uint32_t>(first_state_ + states_.size());
  states_.emplace_back();
  State& s = states_.back();
  s.pass = pass;
  s.least = least_times(pass);
  for (std::uint32_t p = 0; p < grid_.pp(); ++p) sends_[p].emitted(s.least.stages[p]);
  s.ranks.resize(grid_.ranks());
  s.launched.resize(grid_.pp());
  s.stage_begun.assign(grid_.pp(), 0);
  s.stage_left.assign(grid_.pp(), grid_.width());
  s.ranks_left = grid_.ranks();
  s.last_stage_left = grid_.width();
  s.sends_left = (grid_.pp() - 1) * grid_.width();
  std::vector<JobRef> incoming = after;
  const JobRef prepared =
      emit_host(number, kPrepare, 0, 0, pass.prepare, pass.host_is_async ? std::vector<JobRef>() : stage0_last_);
  for (std::uint32_t p = 0; p < grid_.pp(); ++p) emit_stage(number, p, incoming, prepared);
  return number;
}

Pipeline::What Pipeline::what_of(const Pass::Step& collective) {
  switch (collective.operation) {
    case collective::Operation::reduce_scatter: return kScatterTokens;
    case collective::Operation::all_gather: return kGatherTokens;
    default: return collective.part == transformer::LayerPart::mlp ? kMlpReduce : kAttentionReduce;
  }
}

JobRef Pipeline::emit_host(std::uint32_t number, What what, std::uint32_t stage, std::uint32_t layer, Time duration,
                           const std::vector<JobRef>& after, std::uint32_t half) {
  if (duration == Time()) return {};
  Fields fields{};
  fields.pass = number;
  fields.stage = stage;
  fields.layer = layer;
  fields.what = what;
  fields.half = half;
  ++state(number).host_left;
  Rank& rank = grid_.rank(stage, 0);
  return executor_.host(rank, rank.stream(Grid::kHost), duration, JobLabel::of(*this, fields), *this, after);
}

void Pipeline::emit_stage(std::uint32_t number, std::uint32_t p, std::vector<JobRef>& incoming, JobRef prepared) {
  const std::uint32_t tp = grid_.width();
  const Pass& pass = state(number).pass;
  const transformer::Stage& stage = grid_.stage(p);
  const Bytes hidden = hop_.tensors * hidden_bytes(grid_.model(), pass.tokens);
  Communicator& communicator = grid_.communicator(p);
  std::vector<JobRef> last(tp);
  bool first = true;

  const auto label = [&](What what, std::uint32_t t, std::uint32_t layer, bool is_last) {
    Fields fields{};
    fields.pass = number;
    fields.stage = p;
    fields.tp = t;
    fields.layer = layer;
    fields.what = what;
    fields.first = first;
    fields.last = is_last;
    return JobLabel::of(*this, fields);
  };
  const auto kernels = [&](What what, const gpu::SharedChain& chain, std::uint32_t layer, bool is_last,
                           JobRef launched = {}) {
    for (std::uint32_t t = 0; t < tp; ++t) {
      Rank& rank = grid_.rank(p, t);
      std::vector<JobRef> on;
      if (first && t < incoming.size()) on.push_back(incoming[t]);
      if (first && p == 0) on.push_back(prepared);
      on.push_back(launched);
      last[t] = executor_.kernel(rank, rank.stream(Grid::kCompute), chain, label(what, t, layer, is_last), *this, on);
    }
    first = false;
  };
  const char* jobs_run = pass.is_divided() ? "its two micro-batches take turns" : executor_.not_composed(communicator);
  const bool is_pushed = client_.handoff() != HandoffGrain::fetched;
  if (jobs_run == nullptr && is_pushed && (client_.handoff() == HandoffGrain::per_layer || stage.layers == 1))
    jobs_run = "its KV is pushed layer by layer";
  if (jobs_run != nullptr) executor_.count_pass(jobs_run);
  const std::uint32_t course_layers = jobs_run != nullptr ? 0 : stage.layers - (is_pushed ? 1 : 0);
  bool composes = course_layers > 0;  // the steps that follow belong to the course
  steps_.clear();
  const collective::CollectiveSpec* spec = nullptr;  // mostly, all are of one size
  Communicator* of_spec = nullptr;
  const auto collective = [&](What what, const Pass::Step& step, std::uint32_t layer, bool is_last) {
    ++state(number).collectives_left;
    Communicator& ranks = grid_.communicator(p, step.group);
    if (of_spec != &ranks || spec->operation != step.operation || spec->bytes != step.bytes)
      spec = &ranks.choose(step.operation, step.bytes);
    of_spec = &ranks;
    if (composes) {
      steps_.push_back({nullptr, &ranks, spec, label(what, 0, layer, is_last)});
      executor_.take_turn(steps_.back());
      return;
    }
    executor_.collective(ranks, *spec, label(what, 0, layer, is_last), *this, last);
  };

  if (p > 0 && tp > 1 && hop_.send == PpSend::shard) {
    ++state(number).collectives_left;
    executor_.collective(communicator, communicator.choose(collective::Operation::all_gather, hidden),
                         label(kGather, 0, 0, false), *this, last, incoming);
    first = false;
  }
  const bool has_head = stage.last && pass.head != nullptr, has_drafts = stage.last && !pass.drafts.empty();
  if (p == 0 && pass.embedding != nullptr) kernels(kEmbedding, pass.embedding, 0, false);
  std::vector<JobRef> waits;  // of the course
  if (composes && first) waits = incoming;
  if (composes && first && p == 0) waits.insert(waits.end(), tp, prepared);
  std::vector<execution::CourseLaunches> launches;
  if (composes && pass.launch != Time()) {
    Rank& host = grid_.rank(p, 0);
    launches.push_back({&host,
                        &host.stream(Grid::kHost),
                        pass.launch * course_layers,
                        {},
                        course_layers,
                        label(kLaunch, 0, 0, false)});
    if (p > 0) launches.back().after.push_back(prepared);
    ++state(number).host_left;
  }
  if (pass.is_divided()) emit_turns(number, last);
  for (std::uint32_t l = 0; l < stage.layers && !pass.is_divided(); ++l) {
    if (composes && l == course_layers) {
      executor_.course(communicator, steps_, launches, *this, last, waits);
      composes = false;
    }
    const std::uint32_t layer = grid_.first_layer(p) + l;
    const std::vector<Pass::Step>& steps = pass.layers[grid_.model().kind(layer)];
    // Launches of a later stage begin when the pass is prepared, at the same time as those of stage 0.
    JobRef launched = emit_host(number, kLaunch, p, layer, composes ? Time() : pass.launch,
                                l == 0 && p > 0 ? std::vector<JobRef>{prepared} : std::vector<JobRef>());
    bool is_back = false;  // of the exchanges of experts in a layer, the second one
    for (const Pass::Step& step : steps) {
      const bool is_last = l + 1 == stage.layers && !has_head && !has_drafts && &step == &steps.back();
      const bool is_mlp = step.part == transformer::LayerPart::mlp;
      if (step.kernels == nullptr) {
        const bool exchanges = step.group == transformer::RankGroup::ep;
        collective(exchanges ? (is_back ? kCombine : kDispatch) : what_of(step), step, layer, is_last);
        is_back = exchanges != is_back;
        continue;
      }
      const What what = is_mlp ? kMlp : kAttention;
      if (composes) {
        const bool waits = !launches.empty() && &step == &steps.front();
        steps_.push_back(
            {&step.kernels, nullptr, nullptr, label(what, 0, layer, is_last), waits ? pass.launch * (l + 1) : Time()});
        first = false;
        continue;
      }
      kernels(what, step.kernels, layer, is_last, launched);
      launched = {};
      if (is_mlp) continue;
      for (std::uint32_t t = 0; t < tp; ++t) client_.on_attention_emitted(number, p, t, layer, last[t]);
    }
  }
  if (composes) executor_.course(communicator, steps_, launches, *this, last, waits);
  if (pass.is_divided()) join_halves(number, !has_head && !has_drafts, last);
  if (has_head) kernels(kHead, pass.head, 0, !has_drafts);
  if (has_drafts) emit_drafts(number, prepared, last);

  if (p == 0) stage0_last_ = last;
  incoming.assign(tp, JobRef());
  for (std::uint32_t t = 0; t < tp; ++t) {
    client_.on_stage_emitted(number, p, t, last[t]);
    if (stage.last) continue;
    const Bytes bytes = hop_.send == PpSend::shard ? hidden / tp + (t < hidden % tp ? 1 : 0) : hidden;
    if (hop_.by_kernels) {
      ++state(number).collectives_left;
      incoming[t] = grid_.exchange(p, t, bytes, label(kActivation, t, 0, false), *this, last[t]);
      continue;
    }
    Rank& rank = grid_.rank(p, t);
    const CopyTarget transfer{grid_.rank(p + 1, t).gpu->window(), bytes};
    incoming[t] = executor_.copy(rank, rank.stream(Grid::kPp), {{transfer}, railyard::number(TrafficClass::pp)},
                                 label(kActivation, t, 0, false), *this, {last[t]});
  }
}

void Pipeline::begin_rank(const Job& job, State& s, RankState& rank) {
  rank.has_begun = true;
  rank.begun = job.begun_at();
  rank.ready = job.ready_at();
  first_begun_ = sooner(first_begun_, job.begun_at());
  const Fields f = fields_of(job);
  const std::uint32_t r = rank_of(job);
  if (f.stage > 0) {
    const Time sent = s.ranks[r - grid_.width()].send_begun;
    times_[r].pp_s += since(rank.begun, later(job.reached_at(), sent)).seconds();
  }
  if (s.stage_begun[f.stage]++ == 0) client_.on_stage_begun(f.pass, f.stage);
  if (r == 0) client_.on_pass_begun(f.pass);
}

void Pipeline::count_host_wait(const Job& job, const State& s, RankState& rank) {
  const Fields f = fields_of(job);
  // The first job of a later stage waits for activations; the host has launched it long before they arrive.
  const bool is_launched = f.what == kAttention || f.what == kDraft;
  if (!(is_launched && !f.first) && !(f.first && f.stage == 0)) return;
  // Other kernels wait for nothing but their launch.
  const Time ready = f.first ? sooner(job.begun_at(), s.launched[f.stage]) : job.begun_at();
  const Time waited = since(ready, later(job.reached_at(), rank.exchanged));
  times_[rank_of(job)].host_s += waited.seconds();
  if (!f.first) rank.host_waits += waited;
}

void Pipeline::tell(const Job& job, PassActivity activity, Time when) {
  if (rank_of(job) % grid_.width() == 0) client_.on_activity(fields_of(job).pass, fields_of(job).stage, activity, when);
}

void Pipeline::on_job_begun(const Job& job) {
  if (job.kind() == Job::Kind::host) return;
  const Fields f = fields_of(job);
  State& s = state(f.pass);
  RankState& rank = s.ranks[rank_of(job)];
  if (f.what == kActivation) {
    if (job.kind() == Job::Kind::copy || is_sender(job)) rank.send_begun = job.begun_at();
    return;
  }
  if (is_beside(job)) {
    ++rank.exchanges;
    return;
  }
  if (s.pass.is_divided()) count_exchange_wait(job, rank);
  ++rank.running;
  if (job.kind() == Job::Kind::kernel && !rank.has_kernel) {
    rank.has_kernel = true;
    rank.first_kernel = job.begun_at();
  }
  if (job.kind() == Job::Kind::kernel) {
    count_host_wait(job, s, rank);
    sends_[f.stage].begun(rank_of(job) % grid_.width(), least_time(f));
  }
  tell(job, job.kind() == Job::Kind::kernel ? PassActivity::kernels : PassActivity::collective, job.begun_at());
  if (f.first) begin_rank(job, s, rank);
}

void Pipeline::end_rank(const Job& job, State& s, RankState& rank) {
  const std::uint32_t r = rank_of(job);
  const Time now = executor_.fabric().now();
  times_[r].occupied_s += (now - rank.begun - rank.host_waits).seconds();
  last_done_ = later(last_done_, now);
  Fields f = fields_of(job);
  f.tp = r % grid_.width();
  f.what = kRank;
  JobRecord record;
  record.label = JobLabel::of(*this, f);
  record.rank = r;
  record.start = rank.first_kernel;
  record.end = rank.last_kernel_end;
  record.queued = rank.begun - rank.ready;
  executor_.record(record);
  const bool is_last_stage = f.stage + 1u == grid_.pp();
  sends_[f.stage].left(r % grid_.width(), is_last_stage ? hop_.returns_ids : true);
  --s.ranks_left;
  const std::uint32_t pass = f.pass;
  if (--s.stage_left[f.stage] == 0) client_.on_stage_done(pass, f.stage);
  if (!is_last_stage) return;
  executor_.reached(this, pass);
  if (--s.last_stage_left != 0) return;
  executor_.passed(this, pass);
  client_.on_pass_done(pass);
}

void Pipeline::on_job_done(const Job& job) {
  const Fields f = fields_of(job);
  State& s = state(f.pass);
  if (f.what == kActivation) {
    if (is_sender(job)) return;
    --s.sends_left;
    if (job.kind() == Job::Kind::copy) sends_[f.stage].arrived();
    if (f.tp == 0) client_.on_activity(f.pass, f.stage, PassActivity::before_stage, executor_.fabric().now());
    return;
  }
  RankState& rank = s.ranks[rank_of(job)];
  RankTimes& times = times_[rank_of(job)];
  const Time now = executor_.fabric().now();
  if (is_beside(job)) {
    rank.exchanged = now;
    --rank.exchanges;
    if (rank.running == 0) tell(job, PassActivity::launch, now);
    return;
  }
  if (job.kind() != Job::Kind::host) --rank.running;
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
    case Job::Kind::host:
      s.launched[f.stage] = now;
      --s.host_left;
      return;
    default: break;  // no time of these
  }
  const PassActivity next = rank.exchanges > 0 ? PassActivity::collective : PassActivity::launch;
  tell(job, f.last ? PassActivity::left_stage : next, now);
  if (f.last) end_rank(job, s, rank);
}

void Pipeline::on_composed(const Job& next, const std::vector<execution::ComposedPart>& parts, const Job* like) {
  const Fields f = fields_of(next);
  State& s = state(f.pass);
  RankState& rank = s.ranks[rank_of(next)];
  RankTimes& times = times_[rank_of(next)];
  sends_[f.stage].begun(rank_of(next) % grid_.width(),
                        since(next.begun_at(), executor_.fabric().now()) + least_time_after(f));
  if (like != nullptr && times == first_times_ && rank.host_waits == first_host_waits_) {  // so are the sums
    const RankState& as = s.ranks[rank_of(*like)];
    times = times_[rank_of(*like)];
    rank.last_kernel_end = as.last_kernel_end;
    rank.host_waits = as.host_waits;
    return;
  }
  const bool is_first = next.member() == 0, tells = is_first && client_.follows_activity(f.pass);
  if (is_first) {
    first_times_ = times;
    first_host_waits_ = rank.host_waits;
  }
  for (const execution::ComposedPart& part : parts) {
    if (is_first && part.has_collective) --s.collectives_left;
    times.tp_s += (part.ended - part.entered).seconds();  // its members entered together, so none was at the gate
    times.kernels_s += (part.done - part.begun).seconds();
    const Time waited = part.begun - part.ended;
    if (waited != Time()) {
      times.host_s += waited.seconds();
      rank.host_waits += waited;
      if (tells) client_.on_activity(f.pass, f.stage, PassActivity::launch, part.ended);
    }
    if (!part.has_kernels) continue;
    rank.last_kernel_end = part.done;
    if (!tells) continue;
    client_.on_activity(f.pass, f.stage, PassActivity::kernels, part.begun);
    client_.on_activity(f.pass, f.stage, PassActivity::collective, part.done);
  }
}

void Pipeline::on_collective_done(const collective::Collective&, const JobLabel& label) {
  const auto f = label.as<Fields>();
  if (f.what == kActivation) sends_[f.stage].arrived();
  --state(f.pass).collectives_left;
}

void Pipeline::retire() {
  while (!states_.empty() && states_.front().over()) {
    states_.pop_front();
    ++first_state_;
  }
}

}  // namespace railyard::workload::inference
