#include "workload/training/run/training_step.h"

#include <algorithm>

#include "workload/training/plan/nccl_request.h"

namespace railyard::workload::training {

using Jobs = TrainingJobs;

namespace {

/// Slots of a pipeline rank whose jobs are emitted before they can begin.
constexpr std::uint32_t kSlotsAhead = 2;

RankPrograms::Host host_of(const Software& software, const TrainingJobs& jobs) {
  return {software.launch == Launch::eager ? software.host_us : 0, TrainingStep::kHostStream,
          [&jobs](std::uint32_t rank) { return jobs.label(Jobs::kHost, 0, 0, rank); }};
}

}  // namespace

const std::vector<const char*> TrainingStep::kStreams{"compute", "tp", "dp", "weights", "host"};

TrainingStep::TrainingStep(const TrainingSpec& spec, const transformer::ModelShape& model, const Schedule& schedule,
                           const SlotPlans& plans, const MemoryPlan& memory,
                           const std::vector<gpu::KernelTimer>& kernels, const std::vector<Rank*>& ranks,
                           Executor& executor, const HostSide& hosts)
    : spec_(spec),
      model_(model),
      schedule_(schedule),
      plans_(plans),
      executor_(executor),
      mesh_(ranks, spec.running_sizes(), spec.order, spec.copies),
      memory_(memory, mesh_, spec_.gtp() > 1 && spec_.software.launch == Launch::eager),
      jobs_(spec_, schedule_, plans, mesh_),
      programs_(ranks, kCompute, host_of(spec.software, jobs_), executor, *this),
      tp_(mesh_.connect({Dimension::tp}, kCompute, nccl_request(spec.software, TrafficClass::tp), executor.fabric())),
      ep_(mesh_.connect(spec.expert_dimensions(), kCompute, nccl_request(spec.software, TrafficClass::ep),
                        executor.fabric())),
      cp_(mesh_.connect({Dimension::cp}, kCompute, nccl_request(spec.software, TrafficClass::cp), executor.fabric())),
      gradients_(spec_, model_, schedule_, plans, kernels, mesh_, {kCompute, kDp, kWeights}, tp_, executor.fabric(),
                 jobs_, programs_),
      shards_(spec_, model_, mesh_, gradients_.weights(), gradients_.expert_weights(), jobs_, programs_),
      pipeline_(spec_, schedule_, pipeline_bytes(model_, spec_), mesh_, nccl_request(spec.software, TrafficClass::pp),
                executor.fabric(), jobs_, programs_),
      coupled_at_(spec.pp()),
      ranks_at_(spec.pp()),
      groups_at_(spec.pp()),
      beside_jobs_(ranks.size()),
      slot_begins_(ranks.size()),
      accounts_(ranks.size()) {
  if (has_ring()) connect_ring(executor.fabric());
  if (spec.gtp() > 1) divide_weights(kernels.front(), executor.fabric());
  if (spec.offload.has_any()) connect_hosts(hosts, memory);
  if (spec.exchanges_beside()) {
    const std::size_t stream = mesh_.rank(0).streams.size();
    for (Rank* rank : ranks) rank->add_stream("ep");
    ep_beside_ = mesh_.connect(spec.expert_dimensions(), stream, nccl_request(spec.software, TrafficClass::ep),
                               executor.fabric());
  }
  for (const auto& [group, communicators] :
       {std::pair{RankGroup::tp, &tp_}, {RankGroup::ep, &ep_}, {RankGroup::cp, &cp_}})
    for (const auto& communicator : communicators->all())
      groups_at_[coordinate(communicator->rank(0).number, Dimension::pp)][static_cast<std::size_t>(group)].push_back(
          communicator.get());
  // A collective beside kernels ends before the next collective of its member begins, so both share what is replayed.
  for (const auto& tp : tp_.all())
    coupled_at_[coordinate(tp->rank(0).number, Dimension::pp)].push_back(std::make_unique<linear::CoupledRanks>(
        tp->ranks(), linear::Streams{kCompute, kTp, kTp}, tp->request(), executor.fabric(), tp.get()));
  set_priorities();
  for (std::uint32_t r = 0; r < ranks.size(); ++r) ranks_at_[coordinate(r, Dimension::pp)].push_back(r);
  for (const std::vector<Slot>& slots : schedule.slots) last_step_.emplace_back(slots.size());
}

void TrainingStep::connect_ring(transport::Fabric& fabric) {
  std::vector<std::size_t> to, from;  // streams by rank
  for (std::uint32_t r = 0; r < mesh_.size(); ++r) {
    Rank& rank = mesh_.rank(r);
    to.push_back(rank.streams.size());
    rank.add_stream("cp_to");
    from.push_back(rank.streams.size());
    rank.add_stream("cp_from");
  }
  for (std::uint32_t r = 0; r < mesh_.size(); ++r) {
    const std::uint32_t next = around(r, 1);
    ring_.push_back(std::make_unique<Communicator>(std::vector<Rank*>{&mesh_.rank(r), &mesh_.rank(next)},
                                                   std::vector<std::size_t>{to[r], from[next]},
                                                   nccl_request(spec_.software, TrafficClass::cp), fabric));
  }
}

void TrainingStep::divide_weights(const gpu::KernelTimer& kernels, transport::Fabric& fabric) {
  const std::size_t first = mesh_.rank(0).streams.size();
  std::vector<const char*> streams{"weights_again", "scatter"};
  std::optional<DividedWeights::Streams> experts;
  if (spec_.gtp_shards.experts_size > 1) {
    streams.insert(streams.end(), {"experts", "experts_again", "experts_scatter"});
    experts = {first + 2, first + 3, first + 4};
  }
  for (std::uint32_t r = 0; r < mesh_.size(); ++r)
    for (const char* stream : streams) mesh_.rank(r).add_stream(stream);
  divided_ = std::make_unique<DividedWeights>(spec_, model_, kernels, mesh_,
                                              DividedWeights::Streams{kWeights, first, first + 1}, experts, fabric,
                                              jobs_, programs_, memory_);
}

void TrainingStep::connect_hosts(const HostSide& hosts, const MemoryPlan& memory) {
  hosts_ = std::make_unique<HostRanks>(hosts, mesh_, executor_, programs_);
  if (spec_.offload.activations > 0)
    activations_ =
        std::make_unique<ActivationOffload>(spec_, schedule_, memory, mesh_, *hosts_, jobs_, programs_, memory_);
  if (!spec_.offload.optimizer) return;
  optimizer_ = std::make_unique<OptimizerOffload>(spec_, spec_.precision(model_.dtype), mesh_, *hosts_, jobs_);
  gradients_.set_offload(*optimizer_);
}

void TrainingStep::set_priorities() {
  const auto uses = [&](OverlapWord method) { return spec_.tp_overlap.uses(method); };
  const bool overlaps = uses(OverlapWord::ring) || uses(OverlapWord::pipelined) || uses(OverlapWord::bulk);
  for (std::uint32_t r = 0; r < mesh_.size(); ++r) {
    Rank& rank = mesh_.rank(r);
    for (Rank::NamedStream& named : rank.streams) named.stream.set_comm_priority(spec_.software.comm_priority);
    if (overlaps) rank.stream(kTp).set_comm_priority(spec_.overlap_priority);
    if (divided_ == nullptr) continue;
    for (const std::size_t stream : divided_->streams()) rank.stream(stream).set_comm_priority(spec_.overlap_priority);
  }
}

std::uint64_t TrainingStep::slots() const {
  std::uint64_t slots = 0;
  for (const std::vector<Slot>& of_rank : schedule_.slots) slots += of_rank.size();
  return slots * (mesh_.size() / spec_.pp()) * spec_.steps;
}

void TrainingStep::start() {
  executor_.members_begin_together();
  allow_reuse();
  begin_step();
  emit();
}

void TrainingStep::begin_step() {
  progress_.assign(spec_.pp(), {0, kSlotsAhead, false});
  ended_ = 0;
  gradients_.begin_step();
  shards_.begin_step();
  if (divided_ != nullptr) divided_->begin_step();
  pipeline_.begin_step();
}

void TrainingStep::emit() {
  if (std::exchange(emitting_, true)) return;
  for (bool again = true; std::exchange(again, false);) {
    for (std::uint32_t p = 0; p < spec_.pp(); ++p) {
      const Progress& progress = progress_[p];
      if (progress.ended || progress.emitted >= progress.wanted) continue;
      emit_slots(p);
      again = true;
    }
  }
  emitting_ = false;
}

void TrainingStep::on_job_begun(const Job& job) {
  const Jobs::Fields f = Jobs::fields_of(job);
  if (f.what == Jobs::kActivations) return activations_->on_copy_begun(job, executor_.fabric().now());
  if (f.what == Jobs::kStateCopy || f.what == Jobs::kHostUpdate) return;
  const std::uint32_t r = job.rank().number;
  programs_.begun(job, announced_for(job));
  if (divided_ != nullptr) check_order(f, r);
  if (f.what == Jobs::kHost || f.what == Jobs::kHostWait) accounts_[r].begin_launches(executor_.fabric().now());
  if (&job.stream() != &mesh_.rank(r).stream(kCompute)) return;
  constexpr std::uint32_t kPpBit = RankAccount::bit(TrafficClass::pp), kDpBit = RankAccount::bit(TrafficClass::dp);
  std::uint32_t waits = 0;
  if (f.what == Jobs::kNorm || f.what == Jobs::kSharedGradients || f.what == Jobs::kTiedGradients) waits = kDpBit;
  if (f.what == Jobs::kOptimizer) waits = spec_.grad_norm == GradientNorm::post_validation ? kDpBit | kPpBit : kDpBit;
  if (f.what == Jobs::kKernels || f.what == Jobs::kCollective) waits = waits_before(f);
  if (f.what == Jobs::kOptimizer && optimizer_ != nullptr) waits |= RankAccount::bit(TrafficClass::offload);
  if (f.what == Jobs::kAddGradient) waits = RankAccount::bit(TrafficClass::weights);
  accounts_[r].begin(executor_.fabric().now(), waits);
  if (f.what == Jobs::kOptimizer) memory_.begin_optimizer(r, job.label(), executor_.fabric().now());
  if (activations_ != nullptr && (f.what == Jobs::kKernels || f.what == Jobs::kCollective))
    activations_->on_step_begun(r, f, executor_.fabric().now());
  if (!f.first) return;
  slot_begins_[r][f.slot % 2] = {job.begun_at(), job.ready_at()};
  memory_.begin_slot(r, jobs_.slot_of(f), jobs_.slot_row(f, r), executor_.fabric().now());
  if (f.step != jobs_.step()) return;
  Progress& progress = progress_[coordinate(r, Dimension::pp)];
  progress.wanted = std::max<std::uint32_t>(progress.wanted, f.slot + 1 + kSlotsAhead);
  emit();
}

std::uint32_t TrainingStep::waits_before(const Jobs::Fields& f) const {
  std::uint32_t waits = f.first ? RankAccount::bit(TrafficClass::pp)
                                : RankAccount::bit(TrafficClass::tp) | RankAccount::bit(TrafficClass::cp);
  if (spec_.zero_stage == 3 || divided_ != nullptr) waits |= RankAccount::bit(TrafficClass::weights);
  if (spec_.schedule.overlap_pairs) waits |= RankAccount::bit(TrafficClass::ep);
  const Slot& slot = jobs_.slot_of(f);
  if (slot.kind == SlotKind::forward && slot.micro_batch == 0)
    waits |= RankAccount::bit(TrafficClass::dp);  // weights are being gathered
  if (activations_ != nullptr) waits |= RankAccount::bit(TrafficClass::offload);
  return waits;
}

void TrainingStep::check_order(const Jobs::Fields& f, std::uint32_t rank) {
  const Time now = executor_.fabric().now();
  if (f.what == Jobs::kKernels) divided_->kernels_begin(rank, jobs_.step_of(f), jobs_.slot_of(f).kind, now);
  if (f.what == Jobs::kMatrixGather) divided_->gather_begins(rank, jobs_.step_of(f), jobs_.slot_of(f).kind, now);
  if (f.what == Jobs::kInputGather) divided_->input_gather_begins(rank, jobs_.step_of(f), now);
  if (f.what == Jobs::kGradients)
    divided_->reduction_begins(rank, gradients_.buckets(coordinate(rank, Dimension::pp))[f.detail]);
}

void TrainingStep::on_job_done(const Job& job) {
  const Jobs::Fields f = Jobs::fields_of(job);
  end_ = executor_.fabric().now();
  f.what == Jobs::kHostWait ? programs_.host_waited(job.rank().number) : programs_.done();
  f.what == Jobs::kActivations || f.what == Jobs::kStateCopy || f.what == Jobs::kHostUpdate ? end_host_job(job)
                                                                                            : end_rank_job(job);
  if (done())
    for (RankAccount& each : accounts_) each.begin(end_, RankAccount::bit(TrafficClass::dp));
}

void TrainingStep::end_rank_job(const Job& job) {
  const Jobs::Fields f = Jobs::fields_of(job);
  const std::uint32_t rank = job.rank().number;
  programs_.ended(job, announced_for(job));
  if (activations_ != nullptr) activations_->on_step_done(rank, job, end_);
  if (divided_ != nullptr && f.what == Jobs::kKernels)
    divided_->kernels_end(rank, jobs_.step_of(f), jobs_.slot_of(f).kind);
  account(job);
  if ((f.what == Jobs::kKernels || f.what == Jobs::kCollective) && f.last) end_slot(job);
}

void TrainingStep::end_host_job(const Job& job) {
  const Jobs::Fields f = Jobs::fields_of(job);
  if (f.what == Jobs::kActivations) activations_->on_copy_done(job, end_);
  RankAccount& account = accounts_[f.rank];
  f.what == Jobs::kHostUpdate ? account.launched(job.begun_at(), end_)
                              : account.transferred(TrafficClass::offload, job.begun_at(), end_);
}

void TrainingStep::account(const Job& job) {
  const Jobs::Fields f = Jobs::fields_of(job);
  const Time now = end_;
  RankAccount& account = accounts_[job.rank().number];
  switch (f.what) {
    case Jobs::kAddGradient: divided_->added(job.rank().number, jobs_.step_of(f)); [[fallthrough]];
    case Jobs::kKernels: account.end_kernel(now, RankAccount::Busy::kernel); break;
    case Jobs::kOptimizer:
      memory_.end_optimizer(job.rank().number, job.label(), now);
      if (divided_ != nullptr) divided_->step_ends(job.rank().number);
      [[fallthrough]];
    case Jobs::kNorm: account.end_kernel(now, RankAccount::Busy::optimizer); break;
    case Jobs::kCollective:
      account.end_collective(now, Jobs::class_of(jobs_.step_of(f).group), job.collective()->last_entry(), false);
      break;
    case Jobs::kHost:
    case Jobs::kHostWait: account.end_launches(now); break;
    case Jobs::kExpertGather:
    case Jobs::kLayerGather: account.transferred(TrafficClass::weights, job.collective()->last_entry(), now); break;
    case Jobs::kNarrowShard:
    case Jobs::kShardMaximum:
    case Jobs::kMatrixGather:
    case Jobs::kMatrixScatter: {
      const SlotStep& step = jobs_.step_of(f);
      const std::uint32_t tag = divided_->tag(step, DividedWeights::use_of(step, jobs_.slot_of(f).kind));
      const Time begun = f.what == Jobs::kNarrowShard ? job.begun_at() : job.collective()->last_entry();
      account.transferred(TrafficClass::weights, begun, now, tag);
      if (f.what == Jobs::kMatrixGather) divided_->gathered(job.rank().number, step, jobs_.slot_of(f).kind);
      if (f.what == Jobs::kMatrixScatter) divided_->scattered(job.rank().number);
      break;
    }
    case Jobs::kInputGather: {
      const SlotStep& step = jobs_.step_of(f);
      divided_->input_gathered(job.rank().number, step);
      account.transferred(TrafficClass::weights, job.collective()->last_entry(), now,
                          divided_->tag(step, DividedWeights::kBackward));
      break;
    }
    case Jobs::kNarrowShards: account.end_kernel(now, RankAccount::Busy::optimizer); break;
    case Jobs::kMaxima: account.end_collective(now, TrafficClass::dp, job.collective()->last_entry(), false); break;
    case Jobs::kNormReduce:
      account.end_collective(now, f.detail == 0 ? TrafficClass::tp : TrafficClass::dp, job.collective()->last_entry(),
                             true);
      break;
    case Jobs::kBeside:
      account.transferred(Jobs::class_of(jobs_.step_of(f).group), job.collective()->last_entry(), now);
      break;
    case Jobs::kShard: accounts_[f.rank].transferred(TrafficClass::tp, job.begun_at(), now); break;
    case Jobs::kSharedGradients:
      account.end_collective(now, TrafficClass::tp, job.collective()->last_entry(), false);
      break;
    case Jobs::kTiedGradients:
      account.end_collective(now, TrafficClass::pp, job.collective()->last_entry(), true);
      break;
    case Jobs::kNormPass:
    case Jobs::kSend:
    case Jobs::kReceive: account.transferred(TrafficClass::pp, job.collective()->last_entry(), now); break;
    case Jobs::kGradients:
    case Jobs::kShardGradients:
    case Jobs::kGather: account.transferred(TrafficClass::dp, job.collective()->last_entry(), now); break;
    default: break;
  }
}

void TrainingStep::end_slot(const Job& job) {
  const Jobs::Fields f = Jobs::fields_of(job);
  const std::uint32_t rank = job.rank().number;
  ++slots_done_;
  if (divided_ != nullptr) divided_->slot_ends(rank);
  memory_.end_slot(rank, jobs_.slot_of(f), jobs_.slot_row(f, rank), end_);
  const SlotBegin& times = slot_begins_[rank][f.slot % 2];
  const std::uint32_t p = coordinate(rank, Dimension::pp);
  if (rank == ranks_at_[p].front()) last_step_[p][f.slot] = {times.begun, end_};
  JobRecord record;
  record.label = jobs_.slot_row(f, rank);
  record.rank = rank;
  record.start = times.begun;
  record.end = end_;
  record.queued = times.begun - times.ready;
  executor_.record(record);
}

ScheduleTimes TrainingStep::slot_times() const {
  ScheduleTimes all;
  all.slots = last_step_;
  Time first = Time::max(), last;
  for (const auto& slots : last_step_)
    for (const SlotTimes& slot : slots) {
      first = std::min(first, slot.start);
      last = std::max(last, slot.end);
    }
  for (auto& slots : all.slots)
    for (SlotTimes& slot : slots) slot = {slot.start - first, slot.end - first};
  all.makespan = last - first;
  return all;
}

}  // namespace railyard::workload::training
