#include "workload/inference/engine/engine.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

namespace railyard::workload::inference {

namespace {

constexpr Bytes kTokenIdBytes = 4;

StageHop hop_of(const EngineSpec& spec, const Grid& grid) {
  StageHop hop = spec.hop;
  hop.returns_ids = spec.token_ids != TokenIds::stay && grid.pp() > 1;
  return hop;
}

/// One decode, with nothing before it.
Pass least_pass(Grid& grid, const Host& host) {
  ScheduledBatch batch;
  ScheduledBatch::Item& item = batch.items.emplace_back();
  item.tokens = 1;
  item.is_decode = true;
  Pass pass = plan_pass(grid, batch, host);
  pass.head = nullptr;  // chunks before the last one of a prompt have none
  return pass;
}

}  // namespace

Engine::Engine(Grid& grid, Scheduler& scheduler, const EngineSpec& spec, Executor& executor, EngineClient& client)
    : grid_(grid),
      scheduler_(scheduler),
      spec_(spec),
      executor_(executor),
      client_(client),
      pipeline_(grid, executor, spec.names, hop_of(spec, grid), *this, least_pass(grid, spec.host), spec.suffix),
      stages_(grid.pp(), spec.max_in_flight) {}

const StageTimes& Engine::stages() {
  stages_.count(executor_.fabric().now());
  return stages_;
}

void Engine::added(std::uint32_t request) {
  arrived(request);
  seen();
}

void Engine::seen() {
  stages_.occupied(true, executor_.fabric().now());
  wake();
}

void Engine::cancelled(std::uint32_t request) {
  for (Iteration& iteration : in_flight_) {
    std::vector<ScheduledBatch::Item>& items = iteration.batch.items;
    items.erase(std::remove_if(items.begin(), items.end(),
                               [&](const ScheduledBatch::Item& item) { return item.request == request; }),
                items.end());
  }
  if (scheduler_.empty()) stages_.occupied(false, executor_.fabric().now());
}

void Engine::wake() {
  // Never during an emission: the jobs of two passes must not interleave in a stream.
  if (is_awake_ || !scheduler_.may_compose()) return;
  is_awake_ = true;
  executor_.fabric().calendar().at(executor_.fabric().now(), *this, 0, 0);
}

void Engine::on_event(std::uint32_t, std::uint64_t) {
  is_awake_ = false;
  compose();
}

void Engine::compose() {
  while (scheduler_.may_compose()) {
    Iteration next;
    next.batch = scheduler_.compose();
    tell_composed(next.batch);
    client_.on_asked(next.batch);
    if (next.batch.items.empty()) {
      if (next.batch.preempted.empty()) return;
      continue;  // the next step may start others
    }
    const std::uint32_t group = next.batch.group;
    next.composed = executor_.fabric().now();
    next.running = scheduler_.running();
    next.waiting = scheduler_.waiting();
    next.blocks_held = scheduler_.memory().held();
    Pass pass = plan(next);
    client_.on_composed(composed_, next);
    ++composed_;
    stages_.composed(next.composed);
    in_flight_.push_back(std::move(next));
    if (token_sends_.size() <= group) token_sends_.resize(group + 1);
    const std::vector<JobRef> after = std::exchange(token_sends_[group], {});
    pipeline_.emit(pass, after);
  }
}

void Engine::tell_composed(const ScheduledBatch& batch) const {
  std::vector<std::uint32_t> first, reserved;
  for (const ScheduledBatch::Item& item : batch.items)
    if (item.is_first) first.push_back(item.request);
  for (const Reservation& each : batch.reservations) reserved.push_back(each.request);
  reserved.insert(reserved.end(), batch.awaits.begin(), batch.awaits.end());
  if (batch.items.empty() && (spec_.in_turn || reserved.empty())) return;
  if (spec_.in_turn) {
    executor_.passed(this, group_gate(batch.group));
    for (const std::uint32_t request : first) executor_.passed(this, request);
  } else {
    executor_.composed(this, group_gate(batch.group), first, reserved, scheduler_.running() > first.size());
  }
}

Pass Engine::plan(Iteration& iteration) {
  const ScheduledBatch& batch = iteration.batch;
  for (const ScheduledBatch::Item& item : batch.items) ++(item.is_decode ? iteration.decodes : iteration.prompts);
  const bool decodes = std::all_of(batch.items.begin(), batch.items.end(), [&](const ScheduledBatch::Item& item) {
    return item.is_decode && item.tokens == spec_.graphs.decode_tokens;
  });
  const std::uint32_t tokens = grid_.replicas() == 1 ? batch.tokens() : batch.fullest_replica().tokens();
  const bool is_captured = spec_.graphs.is_captured(decodes, tokens);
  iteration.padded_tokens = spec_.graphs.padded(decodes, tokens);
  Pass pass = plan_pass(grid_, batch, spec_.host, iteration.padded_tokens, spec_.graphs.pads && is_captured);
  if (const auto halves = divide(batch, grid_.replicas(), spec_.micro_batches,
                                 is_captured ? std::optional(iteration.padded_tokens) : std::nullopt, spec_.graphs))
    plan_halves(pass, grid_, *halves, spec_.micro_batches.turns);
  pass.launch = spec_.host.layer(spec_.graphs.launch(decodes, tokens), pass.layer_kernels);
  if (drafter_) drafter_->add(pass, batch, spec_.graphs, spec_.host);
  pass.index = composed_;
  if (spec_.names == PassNames::prefill) {
    pass.index = batch.items.front().chunk;
    if (spec_.names_requests) pass.request = batch.items.front().request;
  }
  return pass;
}

void Engine::on_pass_begun(std::uint32_t pass) {
  Iteration& iteration = in_flight_[pass - completed_];
  iteration.begun = executor_.fabric().now();
  ++begun_;
  if (spec_.needs_begin) executor_.reached(this, group_gate(iteration.batch.group));
  scheduler_.begun(iteration.batch);
  client_.on_batch_begun(pass, iteration.batch);
  for (const ScheduledBatch::Item& item : iteration.batch.items)
    if (item.is_first) client_.on_begun(item.request);
  wake();
}

void Engine::on_stage_begun(std::uint32_t pass, std::uint32_t stage) {
  stages_.begun(pass, stage, executor_.fabric().now());
}

void Engine::on_stage_done(std::uint32_t pass, std::uint32_t) { stages_.done(pass, executor_.fabric().now()); }

void Engine::on_stage_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, JobRef job) {
  if (!pipeline_.returns_ids() || !grid_.stage(stage).last) return;
  const ScheduledBatch& batch = in_flight_.back().batch;
  const JobRef send = send_token_ids(t, batch, JobLabel::of(*this, Fields{pass, stage, t}), job);
  if (spec_.token_ids == TokenIds::to_next_batch) token_sends_[batch.group].push_back(send);
}

JobRef Engine::send_token_ids(std::uint32_t t, const ScheduledBatch& batch, const JobLabel& label, JobRef after) {
  const std::uint32_t last = grid_.pp() - 1;
  const Bytes bytes = kTokenIdBytes * batch.items.size();
  if (spec_.hop.by_kernels) return grid_.exchange(last, t, bytes, label, *this, after);
  Rank& rank = grid_.rank(last, t);
  const CopyTarget tokens{grid_.rank(0, t).gpu->window(), bytes};
  return executor_.copy(rank, rank.stream(Grid::kPp), {{tokens}, number(TrafficClass::pp)}, label, *this, {after});
}

void Engine::on_collective_done(const collective::Collective&, const JobLabel&) { pipeline_.ids_returned(); }

void Engine::on_job_done(const Job& job) {
  if (job.kind() == Job::Kind::copy) pipeline_.ids_returned();
  if (spec_.token_ids != TokenIds::to_first_stage || is_sender(job)) return;
  // Ranks of the last stage may be a batch apart.
  Iteration& iteration = in_flight_[job.label().as<Fields>().pass - completed_];
  ++iteration.tokens_back;
  executor_.reached(this, group_gate(iteration.batch.group));
  if (in_flight_.front().tokens_back == grid_.width()) complete();
}

void Engine::on_pass_done(std::uint32_t) {
  if (grid_.pp() == 1 || spec_.token_ids != TokenIds::to_first_stage) complete();
}

void Engine::complete() {
  Iteration iteration = std::move(in_flight_.front());
  in_flight_.pop_front();
  scheduler_.verify(iteration.batch);
  stages_.completed(executor_.fabric().now());
  if (spec_.needs_tokens) executor_.reached(this, group_gate(iteration.batch.group));
  tokens_done_ += iteration.batch.tokens();
  const Time now = executor_.fabric().now();
  step_seconds_ += (now - later(iteration.composed, step_done_)).seconds();
  step_done_ = now;
  client_.on_iteration(completed_++, iteration);
  const std::vector<std::uint32_t> finished = scheduler_.complete(iteration.batch);
  auto next = finished.begin();
  for (const ScheduledBatch::Item& item : iteration.batch.items) {
    for (std::uint32_t token = 0; token < item.produces; ++token) client_.on_token(item.request);
    if (next != finished.end() && *next == item.request) client_.on_finished(*next++);
  }
  client_.on_batch_done(iteration.batch);
  if (scheduler_.empty()) stages_.occupied(false, executor_.fabric().now());
  wake();
}

std::string Engine::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  return fmt::format("{}_Token_FromP[{}]_ToP[0]_TP[{}]_{}{}", spec_.names == PassNames::decode ? "D" : "PP",
                     std::uint32_t{f.stage}, std::uint32_t{f.tp}, work(arguments), spec_.suffix);
}

std::string Engine::task(std::uint64_t arguments) const {
  return fmt::format("pass {}", JobLabel::fields_of<Fields>(arguments).pass);
}

std::string Engine::work(std::uint64_t arguments) const {
  return Pipeline::unit(spec_.names, JobLabel::fields_of<Fields>(arguments).pass, Pass::kOnly);
}

}  // namespace railyard::workload::inference
