#include "workload/inference/engine.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

namespace railyard::workload::inference {

namespace {

constexpr Bytes kTokenIdBytes = 4;

}  // namespace

Engine::Engine(Instance& instance, const SchedulerSpec& spec, std::uint32_t blocks, const CudaGraphs& graphs,
               const Host& host, PpSend pp_send, Executor& executor, EngineClient& client)
    : instance_(instance),
      graphs_(graphs),
      host_(host),
      executor_(executor),
      client_(client),
      scheduler_(spec, blocks),
      pipeline_(instance, executor, PassNames::iteration, pp_send, *this),
      stages_(instance.pp(), spec.max_in_flight) {}

const StageTimes& Engine::stages() {
  stages_.count(executor_.fabric().now());
  return stages_;
}

void Engine::add(std::uint32_t number, const Request& request, PromptContent content) {
  scheduler_.add(number, request, std::move(content));
  stages_.occupied(true, executor_.fabric().now());
  executor_.reached(this, kMayCompose);
  wake();
}

void Engine::wake() {
  if (is_awake_ || in_flight_.size() >= scheduler_.spec().max_in_flight) return;
  is_awake_ = true;
  executor_.fabric().calendar().at(executor_.fabric().now(), *this, 0, 0);
}

void Engine::on_event(std::uint32_t, std::uint64_t) {
  is_awake_ = false;
  compose();
}

void Engine::compose() {
  executor_.passed(this, kMayCompose);
  while (in_flight_.size() < scheduler_.spec().max_in_flight) {
    Iteration next;
    next.batch = scheduler_.compose();
    if (next.batch.items.empty()) return;
    next.composed = executor_.fabric().now();
    next.running = scheduler_.running();
    next.waiting = scheduler_.waiting();
    next.blocks_held = scheduler_.pool().held();
    Pass pass = plan(next.batch, next);
    pass.index = composed_++;
    stages_.composed(next.composed);
    in_flight_.push_back(std::move(next));
    pipeline_.emit(pass);
  }
}

Pass Engine::plan(const ScheduledBatch& scheduled, Iteration& iteration) {
  Batch batch;
  for (const ScheduledBatch::Item& item : scheduled.items) {
    if (item.is_decode) {
      batch.contexts.push_back(item.start + 1);  // includes the token being decoded
    } else {
      batch.chunks.push_back({item.request, 0, item.start, item.tokens, item.samples});
    }
  }
  iteration.prompts = static_cast<std::uint32_t>(batch.chunks.size());
  iteration.decodes = static_cast<std::uint32_t>(batch.contexts.size());
  iteration.padded_tokens = graphs_.padded(batch.tokens());
  Pass pass = plan_pass(instance_, batch, host_, iteration.padded_tokens);
  pass.launch = graphs_.mode == CudaGraphs::Mode::none ? host_.layer() : Time();
  return pass;
}

void Engine::on_pass_begun(std::uint32_t pass) {
  Iteration& iteration = in_flight_[pass - completed_];
  iteration.begun = executor_.fabric().now();
  for (const ScheduledBatch::Item& item : iteration.batch.items)
    if (item.is_first) client_.on_begun(item.request);
}

void Engine::on_stage_begun(std::uint32_t pass, std::uint32_t stage) {
  stages_.begun(pass, stage, executor_.fabric().now());
}

void Engine::on_stage_done(std::uint32_t pass, std::uint32_t) { stages_.done(pass, executor_.fabric().now()); }

void Engine::on_stage_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, JobRef job) {
  if (instance_.pp() == 1 || !instance_.stage(stage).last) return;
  Rank& rank = instance_.rank(stage, t);
  const Transfer tokens{instance_.rank(0, t).gpu->window(), kTokenIdBytes * in_flight_.back().batch.items.size()};
  executor_.copy(rank, rank.stream(Instance::kPp), {{tokens}, number(TrafficClass::pp)},
                 JobLabel::of(*this, Fields{pass, stage, t}), *this, {job});
}

void Engine::on_job_done(const Job& job) {
  executor_.reached(this, kMayCompose);
  ++in_flight_[job.label().as<Fields>().iteration - completed_].tokens_back;
  if (in_flight_.front().tokens_back == instance_.tp()) complete();
}

void Engine::on_pass_done(std::uint32_t) {
  if (instance_.pp() > 1) return;
  executor_.reached(this, kMayCompose);
  complete();
}

void Engine::complete() {
  const Iteration iteration = std::move(in_flight_.front());
  in_flight_.pop_front();
  const Time now = executor_.fabric().now();
  stages_.completed(now);
  client_.on_iteration(completed_++, iteration);
  std::vector<Scheduler::Counts> counts;
  for (const ScheduledBatch::Item& item : iteration.batch.items) {
    if (!item.samples) continue;
    counts.push_back(scheduler_.counts(item.request));
    client_.on_token(item.request);
  }
  auto counted = counts.begin();
  const std::vector<std::uint32_t> finished = scheduler_.complete(iteration.batch);
  auto next = finished.begin();
  for (const ScheduledBatch::Item& item : iteration.batch.items) {
    if (!item.samples) continue;
    if (next != finished.end() && *next == item.request) {
      client_.on_finished(*next++, *counted);
    }
    ++counted;
  }
  if (scheduler_.empty()) stages_.occupied(false, now);
  wake();
}

std::string Engine::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  return fmt::format("PP_Token_FromP[{}]_ToP[0]_TP[{}]_It[{}]", std::uint32_t{f.stage}, std::uint32_t{f.tp},
                     f.iteration);
}

std::string Engine::task(std::uint64_t arguments) const {
  return fmt::format("pass {}", JobLabel::fields_of<Fields>(arguments).iteration);
}

std::string Engine::work(std::uint64_t arguments) const {
  return Pipeline::unit(PassNames::iteration, JobLabel::fields_of<Fields>(arguments).iteration, Pass::kOnly);
}

}  // namespace railyard::workload::inference
