#include "workload/inference/serving.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

namespace railyard::workload::inference {

namespace {

EngineSpec engine_spec(const ServingSpec& spec, const InstanceSpec& instance) {
  EngineSpec engine;
  engine.pp_send = spec.pp_send;
  engine.host = spec.host;
  engine.graphs = spec.cudagraph;
  engine.max_in_flight = instance.scheduler.max_in_flight;
  return engine;
}

}  // namespace

Serving::Side::Side(Serving& owner, std::size_t its_place, const transformer::ModelShape& model, const Placed& placed,
                    Executor& executor)
    : serving(owner),
      place(its_place),
      instance(spec().name, model, spec().mapping, owner.spec_.host, placed.gpus, executor),
      scheduler(spec().scheduler, placed.blocks),
      engine(instance, scheduler, engine_spec(owner.spec_, spec()), executor, *this),
      ttft(instance.pp()) {
  const SchedulerSpec& s = spec().scheduler;
  instance.load_paged(s.max_batched_tokens, std::min(s.max_seqs, s.max_batched_tokens), placed.blocks, s.block_tokens);
}

Serving::Serving(const transformer::ModelShape& model, const ServingSpec& spec, const std::vector<Placed>& placed,
                 Executor& executor)
    : spec_(spec),
      fabric_(executor.fabric()),
      executor_(executor),
      api_server_(spec.requests(), spec.host, true, executor, *this) {
  for (std::size_t i = 0; i < placed.size(); ++i)
    sides_.push_back(std::make_unique<Side>(*this, i, model, placed[i], executor));
  KvTransferClient& client = *this;
  if (sides_.size() > 1) transfer_.emplace(sides_[0]->instance, sides_[1]->instance, executor, client);
}

std::vector<transport::Traffic> Serving::traffic() {
  std::vector<transport::Traffic> all;
  constexpr std::uint64_t kTokensOfARequest =
      1500;  // an answered prompt of a conversation, for the choice of fidelity only
  std::int64_t group = 0;
  for (const auto& side : sides_) {
    side->instance.add_traffic(all, static_cast<double>(kTokensOfARequest * api_server_.count()),
                               executor_.replays() ? group : transport::Traffic::kNobody);
    group += side->instance.pp();
  }
  if (!transfer_) return all;
  for (std::uint32_t r = 0; r < sides_[0]->instance.ranks(); ++r)
    for (const HandoffPlan::Share& share : transfer_->plan().shares(r))
      all.push_back({sides_[0]->instance.rank(r).gpu->window(),
                     sides_[1]->instance.rank(share.decode_rank).gpu->window(), number(TrafficClass::kv),
                     static_cast<double>(transfer_->plan().bytes(share, {0, kTokensOfARequest, kTokensOfARequest})) *
                         api_server_.count()});
  return all;
}

void Serving::start() {
  if (executor_.replays()) {
    std::vector<Instance*> instances;
    for (const auto& side : sides_) instances.push_back(&side->instance);
    allow_reuse(instances, traffic(), fabric_);
  }
  api_server_.start();
}

bool Serving::can_hold(const Request& request) const {
  return std::all_of(sides_.begin(), sides_.end(), [&](const auto& side) { return side->scheduler.can_hold(request); });
}

void Serving::on_queued(std::uint32_t request, PromptContent content) {
  if (transfer_) contents_.emplace(request, content);
  sides_[0]->add(request, api_server_.on_way(request).request, std::move(content));
}

void Serving::Side::add(std::uint32_t request, const Request& what, PromptContent content) {
  scheduler.add(request, what, std::move(content), spec().part);
  if (place == 0) ttft.queued(request, serving.fabric_.now());
  engine.added(request);
  report_load();
}

void Serving::Side::report_load() {
  const EngineLoad load{scheduler.running(), scheduler.waiting(), scheduler.pool().held()};
  if (serving.engine_listeners_.empty() || load == reported) return;
  reported = load;
  for (EngineListener* listener : serving.engine_listeners_) listener->on_load(place, load, serving.fabric_.now());
}

void Serving::Side::on_composed(std::uint32_t, Iteration& iteration) {
  iteration.running = scheduler.running();
  iteration.waiting = scheduler.waiting();
  iteration.blocks_held = scheduler.pool().held();
}

void Serving::Side::on_begun(std::uint32_t request) {
  RequestTimes& times = serving.api_server_.on_way(request).times;
  (place == 0 ? times.prefill_begun : times.decode_begun) = serving.fabric_.now();
  serving.api_server_.tell(request, place == 0 ? RequestPhase::prefill : RequestPhase::decode);
}

void Serving::Side::on_iteration(std::uint32_t number, const Iteration& iteration) {
  for (ServingSink* sink : serving.sinks_) sink->on_iteration(place, number, iteration, serving.fabric_.now());
}

void Serving::Side::on_finished(std::uint32_t request) {
  Scheduler::Counts& all = serving.api_server_.on_way(request).counts;
  const Scheduler::Counts& counts = scheduler.counts(request);
  all.preemptions += counts.preemptions;
  all.recomputed_tokens += counts.recomputed_tokens;
  if (place == 0) all.cached_tokens = counts.cached_tokens;
  place + 1 < serving.sides_.size() ? serving.hand_over(request) : serving.api_server_.leave(request);
}

void Serving::hand_over(std::uint32_t request) {
  const Request& what = api_server_.on_way(request).request;
  auto content = contents_.extract(request);
  if (what.output_tokens == 1) {
    sides_[0]->scheduler.release(request);
    api_server_.leave(request);
    return;
  }
  sides_[1]->add(request, what, std::move(content.mapped()));
}

void Serving::Side::on_asked(const ScheduledBatch& batch) {
  if (place == 0) ttft.composed(batch, scheduler, serving.fabric_.now());
  for (const ScheduledBatch::Fetch& fetch : batch.fetches) {
    const std::uint64_t prompt = serving.api_server_.on_way(fetch.request).request.prompt_tokens;
    serving.transfer_->send(fetch.request, {fetch.from, prompt, prompt});
  }
  report_load();
}

void Serving::Side::on_batch_begun(std::uint32_t pass, const ScheduledBatch& batch) {
  if (place == 0) ttft.begun(pass, batch, serving.fabric_.now());
}

void Serving::Side::on_activity(std::uint32_t pass, std::uint32_t stage, PassActivity activity) {
  if (place == 0) ttft.acts(pass, stage, activity, serving.fabric_.now());
}

void Serving::Side::on_batch_done(const ScheduledBatch& batch) {
  if (place == 0) ttft.completed(batch, serving.fabric_.now());
  report_load();
}

void Serving::Side::on_token(std::uint32_t request) {
  ApiServer& api_server = serving.api_server_;
  if (!api_server.has_token(request)) {
    const Time now = serving.fabric_.now();
    Served& served = api_server.on_way(request);
    served.ttft.add(ttft.first_token(request, now), {});
    served.times.kv_landed = served.times.decode_begun = now;
    if (served.request.output_tokens > 1)
      api_server.tell(request, serving.transfer_ ? RequestPhase::handoff : RequestPhase::decode);
  }
  api_server.deliver(request);
}

void Serving::on_kv_arrived(std::uint32_t request) {
  api_server_.on_way(request).times.kv_landed = fabric_.now();
  api_server_.tell(request, RequestPhase::decode_queued);
  sides_[0]->scheduler.release(request);
  sides_[0]->report_load();
  sides_[0]->engine.changed();
  sides_[1]->scheduler.fetched(request);
  sides_[1]->engine.added(request);
}

std::vector<std::string> Serving::blocked() const {
  std::vector<std::string> lines;
  for (const auto& side : sides_) {
    const Scheduler& scheduler = side->scheduler;
    if (scheduler.waiting() > 0)
      lines.push_back(fmt::format("{} requests wait in the queue of {}, request {} first: {} of {} blocks are free",
                                  scheduler.waiting(), side->spec().name, scheduler.first_waiting(),
                                  scheduler.pool().free(), scheduler.pool().total()));
  }
  return lines;
}

}  // namespace railyard::workload::inference
