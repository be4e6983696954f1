#include "workload/inference/engine/instance.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "workload/inference/scheduler/paged_strategies.h"
#include "workload/inference/scheduler/replicas.h"
#include "workload/inference/scheduler/whole_sequences.h"

namespace railyard::workload::inference {

Instance::Instance(std::uint32_t id, const InstanceSpec& spec, const Setting& setting,
                   const std::vector<gpu::Gpu*>& gpus, std::uint32_t blocks, const HostKv& host, Executor& executor,
                   InstanceClient& client)
    : id_(id),
      spec_(spec),
      suffix_(setting.is_one_of_role ? fmt::format("_Inst[{}]", spec.name) : ""),
      brings_first_token_(setting.brings_first_token),
      kv_follows_promise_(setting.handoff != HandoffGrain::fetched),
      sees_kv_at_step_(setting.sees_kv_at_step),
      executor_(executor),
      client_(client),
      grid_(spec_.name, setting.shares_group ? fmt::format("[{}]", spec.name) : "", model_of(setting.model, spec),
            spec_.mapping, spec_.host, spec_.engine, gpus, executor),
      scheduler_(load(blocks, host, setting.seed)),
      engine_(grid_, *scheduler_, engine_spec(setting), executor, *this) {
  if (!is_paged()) return;
  if (spec_.speculation && spec_.speculation->has_model())
    engine_.add_drafts(std::make_unique<Drafter>(*spec_.speculation, spec_.scheduler.drafts.tokens,
                                                 gpus.front()->datasheet(), spec_.engine, grid_.split()));
  grid_.connect_stages();
  if (spec_.rules.micro_batches.turns != transformer::MicroBatchTurns::none) grid_.connect_halves();
  KvOffloadClient& offloads = *this;
  if (host.stores != nullptr)
    offload_.emplace(host, spec_.rules.kv_copies, spec_.scheduler.block_tokens, suffix_, grid_, executor, offloads);
  if (role() != InstanceRole::decode || setting.keeps_prompts || setting.brings_first_token) ttft_.emplace(grid_.pp());
}

EngineSpec Instance::engine_spec(const Setting& setting) const {
  EngineSpec engine;
  engine.hop.send = setting.pp_send;
  engine.host = spec_.host;
  if (spec_.speculation && spec_.speculation->method == DraftMethod::ngram) {
    engine.host.async = false;
    engine.host.sequence_us += spec_.host.is_modelled() ? spec_.rules.speculation.ngram_sequence_us : 0;
  }
  engine.max_in_flight = is_paged() ? spec_.scheduler.max_in_flight : spec_.whole->groups * spec_.whole->max_in_flight;
  engine.graphs = spec_.cudagraph;
  engine.micro_batches = spec_.rules.micro_batches;
  engine.graphs.decode_tokens = 1 + spec_.scheduler.drafts.tokens;
  engine.suffix = suffix_;
  if (role() == InstanceRole::prefill) engine.handoff = setting.handoff;
  if (is_paged()) {
    engine.hop.tensors = spec_.rules.passes_residual ? 2 : 1;
    engine.hop.by_kernels = true;
    if (spec_.rules.sampled_ids == SampledIds::host) engine.token_ids = TokenIds::stay;
    return engine;
  }
  engine.needs_begin = spec_.whole->is_eager;
  engine.needs_tokens = !spec_.whole->is_eager;
  engine.in_turn = spec_.whole->prompts_in_turn;
  if (role() == InstanceRole::decode) {
    engine.names = PassNames::decode;
    engine.token_ids = TokenIds::to_next_batch;
  } else {
    engine.names = PassNames::prefill;
    engine.token_ids = TokenIds::stay;
    engine.names_requests = setting.names_requests;
  }
  return engine;
}

std::unique_ptr<Scheduler> Instance::load(std::uint32_t paged_blocks, const HostKv& host, std::uint64_t seed) {
  if (is_paged()) {
    SchedulerSpec s = spec_.scheduler;
    grid_.load_paged(s.max_batched_tokens, std::min(s.max_seqs, s.max_batched_tokens), paged_blocks, s.block_tokens,
                     spec_.speculation ? draft_memory(*spec_.speculation, spec_.mapping.dp) : DraftMemory());
    std::vector<std::unique_ptr<Scheduler>> replicas;
    for (std::uint32_t i = 0; i < grid_.replicas(); ++i) {
      if (host.stores != nullptr) s.below = host.below(i);
      replicas.push_back(make_paged_scheduler(s, paged_blocks));
    }
    if (replicas.size() == 1) return std::move(replicas.front());
    const ReplicaRule rule = role() == InstanceRole::prefill ? spec_.rules.prefill_replica : spec_.rules.replica;
    return std::make_unique<Replicas>(std::move(replicas), make_replica_choice(rule, seed), s.max_in_flight);
  }
  const WholeSequencesSpec& s = *spec_.whole;
  const std::uint32_t tokens = std::min(s.max_batched_tokens, s.longest_pass);
  if (role() == InstanceRole::decode) {
    grid_.load(spec_.memory.memory_limit_ratio, tokens, s.max_seqs, 1);
  } else {
    grid_.load(spec_.memory.memory_limit_ratio, tokens, 1, tokens);
  }
  return std::make_unique<WholeSequences>(s, grid_.kv().blocks(), grid_.kv());
}

void Instance::add(std::uint32_t request, const Request& what, RequestContent content, RequestPart part,
                   bool is_timed) {
  const bool has_prompt = part != RequestPart::answer;
  scheduler_->add(request, what, std::move(content), part);
  if (ttft_ && is_timed && (has_prompt || (brings_first_token_ && !kv_follows_promise_)))
    ttft_->queued(request, part, now());
  if (is_paged()) {
    if (has_prompt) client_.on_promised(*this, {request, 0});
    engine_.added(request);
  }
  for (const Reservation& reservation : scheduler_->reserve()) promised(reservation);
  report();
}

void Instance::promised(const Reservation& reservation) {
  const bool has_prompt = !is_paged() && role() != InstanceRole::decode;
  if (ttft_ && !kv_follows_promise_) ttft_->posts(reservation.request, now());
  client_.on_promised(*this, reservation);
  if (has_prompt) engine_.added(reservation.request);
}

void Instance::awaits_kv(std::uint32_t request) {
  if (ttft_ && brings_first_token_) ttft_->awaits(request, now());
}

void Instance::kv_meets(std::uint32_t request) {
  if (ttft_) ttft_->meets(request, now());
}

void Instance::kv_met(std::uint32_t request) {
  if (ttft_) ttft_->posts(request, now());
}

void Instance::kv_posted(std::uint32_t request) {
  if (ttft_) ttft_->posted(request, now());
}

void Instance::kv_arrived(std::uint32_t request) {
  if (sees_kv_at_step_ && engine_.in_flight() > 0) {
    if (ttft_) ttft_->aligns(request, now());
    engine_.arrived(request);
    unseen_.push_back(request);
    return;
  }
  scheduler_->arrived(request);
  if (ttft_) ttft_->fetched(request, now());
  engine_.added(request);
}

void Instance::release(std::uint32_t request) {
  scheduler_->release(request);
  report();
}

Instance::Cancelled Instance::cancel(std::uint32_t request) {
  Cancelled cancelled;
  if (offload_) offload_->cancel(request);
  unseen_.erase(std::remove(unseen_.begin(), unseen_.end(), request), unseen_.end());
  cancelled.tokens = scheduler_->cancel(request);
  engine_.cancelled(request);
  if (ttft_) cancelled.times = ttft_->left(request, now());
  report();
  return cancelled;
}

std::uint64_t Instance::keep(std::uint32_t request, std::uint64_t lease) { return scheduler_->keep(request, lease); }

void Instance::end_lease(std::uint64_t lease) {
  scheduler_->end_lease(lease);
  promise();
  engine_.changed();
}

void Instance::forget() {
  if (offload_) offload_->forget();
  scheduler_->forget();
  report();
}

void Instance::promise() {
  report();
  for (const Reservation& reservation : scheduler_->reserve()) promised(reservation);
  report();
}

TtftTimes Instance::first_token(std::uint32_t request) {
  return ttft_ ? ttft_->first_token(request, now()) : TtftTimes();
}

void Instance::report() {
  if (!is_paged()) {
    if (grid_.kv().held(0) == reported_kv_) return;
    reported_kv_ = grid_.kv().held(0);
    client_.on_kv_promised(*this);
    return;
  }
  const EngineLoad load{scheduler_->running(), scheduler_->waiting(), scheduler_->memory().held()};
  if (load == reported_) return;
  reported_ = load;
  client_.on_load(*this, load);
}

void Instance::on_composed(std::uint32_t pass, const Iteration& iteration) {
  client_.on_composed(*this, pass, iteration.batch);
}

void Instance::on_asked(const ScheduledBatch& batch) {
  if (ttft_) ttft_->composed(batch, *scheduler_, now());
  for (const Reservation& reservation : batch.reservations) {
    if (reservation.loads.empty()) {
      promised(reservation);
      continue;
    }
    if (ttft_) ttft_->loads(reservation.request, now());
    offload_->load(reservation.request, scheduler_->replica(reservation.request), reservation.loads);
  }
  for (const std::uint32_t request : batch.awaits)
    if (ttft_) ttft_->loads(request, now());
  for (const HostRead& read : batch.reads) offload_->read(read);
  report();
}

void Instance::on_kv_stored(std::uint32_t replica, const KvTier::Contents& contents) {
  KvTier::Contents writes = scheduler_->stored(replica, contents);
  if (!writes.empty()) offload_->write(replica, std::move(writes));
}

void Instance::on_kv_read(std::uint32_t replica, std::uint32_t read) {
  for (const std::uint32_t request : scheduler_->read(replica, read)) {
    if (ttft_) ttft_->fetched(request, now());
    engine_.added(request);
  }
  report();
}

Time Instance::next_offload() {
  const bool has_room = engine_.in_flight() < spec_.scheduler.max_in_flight;
  if (!has_room) return scheduler_->may_compose() ? now() : engine_.next_complete();
  // A request that comes is composed at once. What is here is looked at when a batch begins or ends.
  if (engine_.looks_soon()) return now();
  if (engine_.in_flight() == 0) return scheduler_->empty() ? client_.next_added() : now();
  return sooner(client_.next_added(), engine_.next_complete());
}

void Instance::on_attention_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t layer,
                                    JobRef job) {
  client_.on_attention_emitted(*this, pass, stage, t, layer, job);
}

void Instance::on_batch_begun(std::uint32_t pass, const ScheduledBatch& batch) {
  if (ttft_) ttft_->begun(pass, batch, now());
}

void Instance::on_activity(std::uint32_t pass, std::uint32_t stage, PassActivity activity, Time when) {
  if (ttft_) ttft_->acts(pass, stage, activity, when, now());
}

void Instance::on_begun(std::uint32_t request) { client_.on_begun(*this, request); }

void Instance::on_iteration(std::uint32_t number, const Iteration& iteration) {
  client_.on_iteration(*this, number, iteration);
}

void Instance::on_token(std::uint32_t request) { client_.on_token(*this, request); }

void Instance::on_finished(std::uint32_t request) { client_.on_finished(*this, request, scheduler_->counts(request)); }

void Instance::on_batch_done(const ScheduledBatch& batch) {
  if (ttft_) ttft_->completed(batch, now());
  for (std::uint32_t replica = 0; offload_ && replica < grid_.replicas(); ++replica)
    if (KvTier::Contents stores = scheduler_->take_stores(replica); !stores.empty())
      offload_->store(replica, std::move(stores));
  for (const std::uint32_t request : std::exchange(unseen_, {})) {
    scheduler_->arrived(request);
    if (ttft_) ttft_->fetched(request, now());
    engine_.seen();
  }
  report();
}

}  // namespace railyard::workload::inference
