#include "workload/training/training_step.h"

#include <fmt/format.h>
#include <algorithm>
#include <set>
#include <tuple>

namespace railyard::workload::training {

namespace {

/// Slots of a pipeline rank whose jobs are emitted before they can begin.
constexpr std::uint32_t kSlotsAhead = 2;

collective::Request request(const Software& software, TrafficClass traffic) {
  collective::Request request;
  request.traffic_class = number(traffic);
  request.in_graph = software.launch == Launch::graph;
  request.nvls = software.nvls;
  request.most_channels = software.nccl_ctas.value_or(0);
  return request;
}

}  // namespace

TrafficClass TrainingStep::class_of(RankGroup group) {
  switch (group) {
    case RankGroup::tp: return TrafficClass::tp;
    case RankGroup::ep: return TrafficClass::ep;
    case RankGroup::cp: return TrafficClass::cp;
  }
  return TrafficClass::tp;
}

const std::vector<const char*> TrainingStep::kStreams{"compute", "tp", "dp", "weights", "host"};

TrainingStep::TrainingStep(const TrainingSpec& spec, const transformer::ModelShape& model, const Schedule& schedule,
                           const SlotPlans& plans, const MemoryPlan& memory, const gpu::KernelTimer& kernels,
                           const std::vector<Rank*>& ranks, Executor& executor)
    : spec_(spec),
      model_(model),
      schedule_(schedule),
      plans_(plans),
      memory_(memory),
      kernels_(kernels),
      executor_(executor),
      mesh_(ranks, spec.sizes, spec.order),
      tp_(mesh_.connect({Dimension::tp}, kCompute, request(spec.software, TrafficClass::tp), executor.fabric())),
      ep_(mesh_.connect({Dimension::ep}, kCompute, request(spec.software, TrafficClass::ep), executor.fabric())),
      cp_(mesh_.connect({Dimension::cp}, kCompute, request(spec.software, TrafficClass::cp), executor.fabric())),
      beside_(mesh_.connect({Dimension::tp}, kTp, request(spec.software, TrafficClass::tp), executor.fabric())),
      dp_(mesh_.connect({Dimension::cp, Dimension::ep, Dimension::dp}, kDp, request(spec.software, TrafficClass::dp),
                        executor.fabric())),
      weights_(mesh_.connect({Dimension::cp, Dimension::ep, Dimension::dp}, kWeights,
                             request(spec.software, spec.zero_stage == 3 ? TrafficClass::weights : TrafficClass::dp),
                             executor.fabric())),
      expert_dp_(mesh_.connect({Dimension::cp, Dimension::dp}, kDp, request(spec.software, TrafficClass::dp),
                               executor.fabric())),
      expert_weights_(mesh_.connect({Dimension::cp, Dimension::dp}, kWeights, request(spec.software, TrafficClass::dp),
                                    executor.fabric())),
      norm_(mesh_.connect({Dimension::cp, Dimension::ep, Dimension::dp, Dimension::pp}, kCompute,
                          request(spec.software, TrafficClass::dp), executor.fabric())),
      ranks_at_(spec.pp()),
      groups_at_(spec.pp()),
      weights_at_(spec.pp()),
      reduced_(ranks.size()),
      gathered_(ranks.size()),
      ranks_(ranks.size()),
      accounts_(ranks.size()) {
  connect_pipeline(executor.fabric());
  if (has_ring()) connect_ring(executor.fabric());
  for (const auto& [group, communicators] :
       {std::pair{RankGroup::tp, &tp_}, {RankGroup::ep, &ep_}, {RankGroup::cp, &cp_}})
    for (const auto& communicator : communicators->all())
      groups_at_[place(communicator->rank(0).number, Dimension::pp)][static_cast<std::size_t>(group)].push_back(
          communicator.get());
  for (const auto& communicator : weights_.all())
    if (communicator->size() > 1)
      weights_at_[place(communicator->rank(0).number, Dimension::pp)].push_back(communicator.get());
  for (std::uint32_t r = 0; r < ranks.size(); ++r) ranks_at_[place(r, Dimension::pp)].push_back(r);
  for (std::uint32_t r = 0; r < ranks.size(); ++r) ranks[r]->gpu->hbm().allocate(memory.fixed(place(r, Dimension::pp)));
  for (std::uint32_t p = 0; p < spec_.pp(); ++p) {
    std::vector<std::pair<std::uint32_t, transformer::Stage>> stages;  // in the order of their last gradients
    std::vector<std::uint32_t> last(schedule_.stages(), kNobody);
    for (std::uint32_t i = 0; i < schedule_.slots[p].size(); ++i) {
      const Slot& slot = schedule_.slots[p][i];
      if (slot.kind == SlotKind::backward || slot.kind == SlotKind::backward_weights) last[slot.stage] = i;
    }
    for (std::uint32_t i = 0; i < schedule_.slots[p].size(); ++i) {
      const std::uint32_t stage = schedule_.slots[p][i].stage;
      if (last[stage] == i) stages.emplace_back(stage, plans_.stage(stage));
    }
    buckets_.push_back(gradient_buckets(model_, stages, spec_.tp(), spec_.ep(), spec_.bucket_parameters));
    buckets_of_.emplace_back();
    for (std::uint32_t b = 0; b < buckets_[p].size(); ++b)
      for (const std::uint32_t layer : buckets_[p][b].layers) buckets_of_[p][layer].push_back(b);
    last_gradients_.push_back(std::move(last));
  }
}

Bytes TrainingStep::activation_bytes() const {
  const Bytes whole = transformer::hidden_bytes(model_, spec_.rank_tokens());
  const bool sharded = spec_.sequence_parallel || spec_.software.pp_send == PipelineSend::shard;
  return sharded ? ceil_div(whole, spec_.tp()) : whole;
}

std::uint32_t TrainingStep::source(const Slot& slot) const {
  std::uint32_t stage = kNobody;
  if (slot.kind == SlotKind::forward && slot.stage > 0) stage = slot.stage - 1;
  if ((slot.kind == SlotKind::backward || slot.kind == SlotKind::backward_inputs) &&
      slot.stage + 1 < schedule_.stages())
    stage = slot.stage + 1;
  const bool is_here = stage != kNobody && schedule_.rank_of[stage] == schedule_.rank_of[slot.stage];
  return is_here ? kNobody : stage;
}

std::uint32_t TrainingStep::destination(const Slot& slot) const {
  std::uint32_t stage = kNobody;
  if (slot.kind == SlotKind::forward && slot.stage + 1 < schedule_.stages()) stage = slot.stage + 1;
  if ((slot.kind == SlotKind::backward || slot.kind == SlotKind::backward_inputs) && slot.stage > 0)
    stage = slot.stage - 1;
  const bool is_here = stage != kNobody && schedule_.rank_of[stage] == schedule_.rank_of[slot.stage];
  return is_here ? kNobody : stage;
}

TrainingStep::Link TrainingStep::link(std::uint32_t from_stage, std::uint32_t to_stage) const {
  return {schedule_.rank_of[from_stage], schedule_.rank_of[to_stage], to_stage < from_stage};
}

void TrainingStep::connect_pipeline(transport::Fabric& fabric) {
  std::set<Link> links;
  for (const std::vector<Slot>& slots : schedule_.slots)
    for (const Slot& slot : slots)
      if (const std::uint32_t to = destination(slot); to != kNobody) links.insert(link(slot.stage, to));
  const std::vector<std::vector<std::uint32_t>> lines = mesh_.groups({Dimension::pp});
  for (const Link& l : links) {
    Communicators& communicators = pipeline_[l];
    const char* const what = l.gradients ? "grad" : "act";
    for (const std::vector<std::uint32_t>& line : lines) {
      Rank &from = mesh_.rank(line[l.from]), &to = mesh_.rank(line[l.to]);
      const std::vector<std::size_t> streams{from.streams.size(), to.streams.size()};
      from.add_stream(fmt::format("pp_{}_to_{}", what, l.to));
      to.add_stream(fmt::format("pp_{}_from_{}", what, l.from));
      communicators.add(std::make_unique<Communicator>(std::vector<Rank*>{&from, &to}, streams,
                                                       request(spec_.software, TrafficClass::pp), fabric),
                        {line[l.from], line[l.to]});
    }
  }
  // The slots of a receiver, in the order in which the sender runs the slots before them.
  std::map<std::pair<bool, std::pair<std::uint32_t, std::uint32_t>>, std::uint32_t> slot_of;
  for (const std::vector<Slot>& slots : schedule_.slots)
    for (std::uint32_t i = 0; i < slots.size(); ++i)
      if (slots[i].kind != SlotKind::backward_weights)
        slot_of[{slots[i].kind == SlotKind::forward, {slots[i].stage, slots[i].micro_batch}}] = i;
  place_in_order_.resize(schedule_.ranks());
  for (std::uint32_t p = 0; p < schedule_.ranks(); ++p) place_in_order_[p].resize(schedule_.slots[p].size());
  for (const std::vector<Slot>& slots : schedule_.slots)
    for (const Slot& slot : slots) {
      const std::uint32_t to = destination(slot);
      if (to == kNobody) continue;
      const std::uint32_t index = slot_of.at({slot.kind == SlotKind::forward, {to, slot.micro_batch}});
      std::vector<std::uint32_t>& order = arrivals_[link(slot.stage, to)];
      place_in_order_[schedule_.rank_of[to]][index] = static_cast<std::uint32_t>(order.size());
      order.push_back(index);
    }
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
                                                   request(spec_.software, TrafficClass::cp), fabric));
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

void TrainingStep::allow_reuse() {
  const std::vector<transport::Traffic> all = traffic();
  const auto allow = [&](const Communicators& communicators, TrafficClass of) {
    if (communicators.all().front()->size() == 1) return;
    std::vector<Communicator*> groups;
    for (const auto& communicator : communicators.all()) groups.push_back(communicator.get());
    std::vector<Communicator::OtherTraffic> others;
    for (const transport::Traffic& t : all)
      if (t.traffic_class != number(of)) others.emplace_back(t.source, t.destination, t.traffic_class);
    Communicator::allow_reuse(groups, others, executor_.fabric());
  };
  allow(tp_, TrafficClass::tp);
  allow(ep_, TrafficClass::ep);
  if (!has_ring()) allow(cp_, TrafficClass::cp);
  // A collective beside kernels ends before the next collective of its member begins.
  for (std::size_t g = 0; g < tp_.all().size(); ++g) beside_.all()[g]->share_reuse(*tp_.all()[g]);
}

std::vector<transport::Traffic> TrainingStep::traffic() const {
  std::vector<transport::Traffic> all;
  const auto among = [&](const Communicators& communicators, TrafficClass c, double bytes_per_rank, bool reused) {
    std::int64_t group = 0;
    for (const auto& communicator : communicators.all()) {
      const std::vector<transport::Window>& members = communicator->group().members;
      const double to_each = bytes_per_rank / static_cast<double>(members.size());
      for (const transport::Window a : members)
        for (const transport::Window b : members)
          if (a != b) all.push_back({a, b, number(c), to_each, reused ? group : transport::Traffic::kNobody});
      ++group;
    }
  };
  double tp_bytes = 0;
  const std::vector<transformer::LayerStep> collectives = layer_collectives(model_, spec_.rank_tokens(), spec_.split());
  for (const transformer::LayerStep& step : collectives)
    if (step.group == RankGroup::tp)
      tp_bytes +=
          2 * static_cast<double>(step.bytes) * model_.layers / spec_.pp() * spec_.micro_batches() * spec_.steps;
  among(tp_, TrafficClass::tp, tp_bytes, true);
  if (has_ring()) {
    for (const auto& pair : ring_)
      all.push_back({pair->rank(0).gpu->window(), pair->rank(1).gpu->window(), number(TrafficClass::cp),
                     most_bytes(RankGroup::cp)});
  } else if (spec_.cp() > 1) {
    among(cp_, TrafficClass::cp, most_bytes(RankGroup::cp), true);
  }
  if (spec_.ep() > 1) among(ep_, TrafficClass::ep, most_bytes(RankGroup::ep), true);
  const double gradient_bytes = bytes_of(spec_.gradients) + bytes_of(model_.dtype);
  for (const bool experts : {false, true}) {
    double most_parameters = 0;
    for (const std::vector<GradientBucket>& buckets : buckets_) {
      double parameters = 0;
      for (const GradientBucket& bucket : buckets)
        if (bucket.experts == experts) parameters += static_cast<double>(bucket.parameters);
      most_parameters = std::max(most_parameters, parameters);
    }
    if (most_parameters > 0)
      among(experts ? expert_dp_ : dp_, TrafficClass::dp, most_parameters * gradient_bytes * spec_.steps, false);
  }
  among(norm_, TrafficClass::dp, kNormBytes, false);
  for (const auto& [l, communicators] : pipeline_)
    for (const auto& c : communicators.all())
      all.push_back(
          {c->rank(0).gpu->window(), c->rank(1).gpu->window(), number(TrafficClass::pp),
           static_cast<double>(activation_bytes()) * spec_.micro_batches() * spec_.virtual_stages() * spec_.steps});
  return all;
}

double TrainingStep::most_bytes(RankGroup group) const {
  double most = 0;
  for (const std::vector<Slot>& slots : schedule_.slots) {
    double bytes = 0;
    for (const Slot& slot : slots)
      for (const SlotStep& step : plans_.plan(slot.kind, slot.stage).steps)
        if (step.kernels == nullptr && step.group == group) bytes += static_cast<double>(step.bytes);
    most = std::max(most, bytes);
  }
  return most * spec_.steps;
}

void TrainingStep::begin_step() {
  progress_.assign(spec_.pp(), {});
  flushed_ = 0;
  for (std::uint32_t r = 0; r < mesh_.size(); ++r)
    reduced_[r].assign(buckets_[place(r, Dimension::pp)].size(), JobRef());
  for (Progress& progress : progress_) progress.wanted = kSlotsAhead;
  for (RankState& state : ranks_) state.received.clear();
}

void TrainingStep::emit() {
  if (std::exchange(emitting_, true)) return;
  for (bool again = true; std::exchange(again, false);) {
    for (std::uint32_t p = 0; p < spec_.pp(); ++p) {
      const Progress& progress = progress_[p];
      if (progress.flushed || progress.emitted >= progress.wanted) continue;
      emit_slots(p);
      again = true;
    }
  }
  emitting_ = false;
}

void TrainingStep::emit_slots(std::uint32_t p) {
  Progress& progress = progress_[p];
  emit_slot(p, progress.emitted++);
  if (progress.emitted < schedule_.slots[p].size()) return;
  progress.flushed = true;
  if (!spec_.software.dp_overlap && spec_.zero_stage < 2)
    for (std::uint32_t b = 0; b < buckets_[p].size(); ++b) reduce(p, b, {});
  if (++flushed_ == spec_.pp()) emit_flush();
}

bool TrainingStep::ends_pair(std::uint32_t p, std::uint32_t index) const {
  if (spec_.pp_overlap || spec_.virtual_stages() == 1) return false;
  const std::vector<Slot>& slots = schedule_.slots[p];
  const auto is = [&](std::uint32_t i, SlotKind kind) { return i < slots.size() && slots[i].kind == kind; };
  if (index == 0 || !is(index - 1, SlotKind::forward) || !is(index, SlotKind::backward)) return false;
  return is(index + 1, SlotKind::forward) || (index > 1 && is(index - 2, SlotKind::backward));
}

void TrainingStep::emit_slot(std::uint32_t p, std::uint32_t index) {
  const Slot& slot = schedule_.slots[p][index];
  const SlotPlan& plan = plans_.plan(slot.kind, slot.stage);
  const std::vector<std::uint32_t>& ranks = ranks_at_[p];
  const bool gives_gradients = slot.kind == SlotKind::backward || slot.kind == SlotKind::backward_weights;
  const bool completes = gives_gradients && (spec_.zero_stage >= 2 || last_gradients_[p][slot.stage] == index);
  const bool gathers = spec_.zero_stage == 3 && (slot.kind == SlotKind::forward || spec_.reshard_after_forward);
  const bool begins_pair = ends_pair(p, index + 1);
  for (const std::uint32_t rank : ranks) {
    RankState& state = ranks_[rank];
    state.waits.clear();
    if (ends_pair(p, index)) continue;
    if (!spec_.pp_overlap) state.waits = state.sends;
    state.sends.clear();
    receive(slot, index, rank);
    if (begins_pair) receive(schedule_.slots[p][index + 1], index + 1, rank);
    if (!spec_.pp_overlap && !state.waits.empty()) wait_on_host(rank, state.waits, index);
    state.before = state.last;
  }
  layer_ends_.clear();
  const auto begins =
      std::find_if(plan.steps.begin(), plan.steps.end(), [](const SlotStep& step) { return !step.beside_next; });
  std::size_t beside_until = 0;
  std::uint32_t layer = SlotStep::kEnds;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const SlotStep& step = plan.steps[i];
    if (i > 0 && step.layer != layer)
      for (const std::uint32_t rank : ranks) {
        RankState& state = ranks_[rank];
        state.layers.push_back(state.last);
        if (state.layers.size() > spec_.prefetch_layers + 1) state.layers.pop_front();
      }
    if (gathers && (i == 0 || step.layer != layer))
      gather(p, index, step.layer, (i == 0) != (slot.kind == SlotKind::forward));
    if (step.layer != layer && step.layer != SlotStep::kEnds && slot.kind == SlotKind::forward)
      for (const std::uint32_t rank : ranks)
        if (const auto& gathered = gathered_[rank]; !gathered.empty())
          for (const std::uint32_t b : buckets_of_[p].at(step.layer)) ranks_[rank].waits.push_back(gathered[b]);
    layer = step.layer;
    if (i > 0 && i == beside_until)
      for (const std::uint32_t rank : ranks)
        for (const JobRef& beside : ranks_[rank].beside) ranks_[rank].waits.push_back(beside);
    if (step.beside_next) {
      step.operation == collective::Operation::send_recv ? emit_ring(p, index, static_cast<std::uint32_t>(i), step)
                                                         : emit_beside(p, index, static_cast<std::uint32_t>(i), step);
      beside_until = i + 2;
      continue;
    }
    emit_step(p,
              label(step.kernels != nullptr ? kKernels : kCollective, index, static_cast<std::uint32_t>(i), 0,
                    &step == &*begins, i + 1 == plan.steps.size()),
              step);
    if (completes && step.layer != SlotStep::kEnds)
      for (const std::uint32_t rank : ranks) layer_ends_[{rank, step.layer}] = ranks_[rank].last;
  }
  for (const std::uint32_t rank : ranks) {
    if (begins_pair) break;
    if (ends_pair(p, index)) send(schedule_.slots[p][index - 1], index - 1, rank);
    send(slot, index, rank);
  }
  if (!spec_.software.dp_overlap) layer_ends_.clear();
  if (!completes || (!spec_.software.dp_overlap && spec_.zero_stage < 2)) return;
  for (std::uint32_t b = 0; b < buckets_[p].size(); ++b)
    if (buckets_[p][b].stage == slot.stage) reduce(p, b, layer_ends_);
}

Bytes TrainingStep::weight_bytes(std::uint32_t layer, bool is_head) const {
  const transformer::Stage part = layer == SlotStep::kEnds ? transformer::Stage{0, !is_head, is_head, 0}
                                                           : transformer::Stage{1, false, false, layer};
  return rank_weight_bytes(model_, part, spec_.tp());
}

void TrainingStep::gather(std::uint32_t p, std::uint32_t index, std::uint32_t layer, bool is_head) {
  const Bytes bytes = weight_bytes(layer, is_head);
  for (Communicator* communicator : weights_at_[p]) {
    std::vector<JobRef> after;
    for (const Rank* rank : communicator->ranks()) {
      const RankState& state = ranks_[rank->number];
      after.push_back(state.layers.size() > spec_.prefetch_layers ? state.layers.front() : JobRef());
    }
    executor_.collective(
        *communicator, communicator->choose(collective::Operation::all_gather, bytes),
        label(kLayerGather, index, layer == SlotStep::kEnds ? kEndsDetail : layer, communicator->rank(0).number), *this,
        jobs_, after);
    live_ += static_cast<std::int64_t>(jobs_.size());
    for (std::size_t m = 0; m < jobs_.size(); ++m) ranks_[communicator->rank(m).number].waits.push_back(jobs_[m]);
  }
}

bool TrainingStep::host_launches() const {
  return spec_.software.launch == Launch::eager && spec_.software.host_us > 0;
}

void TrainingStep::wait_on_host(std::uint32_t rank, std::vector<JobRef>& jobs, std::uint32_t slot) {
  if (!host_launches()) return;
  RankState& state = ranks_[rank];
  Rank& r = mesh_.rank(rank);
  ++live_;
  ++state.host_waits;
  state.queued = Time();
  jobs.push_back(executor_.host(r, r.stream(kHostStream), Time::seconds(spec_.software.host_us * 1e-6),
                                label(kHostWait, slot, 0, rank), *this, jobs));
}

void TrainingStep::launch(std::uint32_t rank, std::uint32_t kernels) {
  if (!host_launches()) return;
  RankState& state = ranks_[rank];
  const Time duration = Time::seconds(kernels * spec_.software.host_us * 1e-6), now = executor_.fabric().now();
  Time takes = duration;
  if (state.host_waits > 0) {
    state.queued += duration;
  } else {
    const Time before = later(state.launched, now);
    state.launched += duration;
    if (state.launched <= now) return;  // launched long ago
    takes = state.launched - before;
  }
  Rank& r = mesh_.rank(rank);
  ++live_;
  state.waits.push_back(executor_.host(r, r.stream(kHostStream), takes, label(kHost, 0, 0, rank), *this));
}

void TrainingStep::emit_step(std::uint32_t p, const JobLabel& of_step, const SlotStep& step) {
  auto fields = of_step.as<Fields>();
  if (step.kernels != nullptr) {
    for (const std::uint32_t rank : ranks_at_[p]) {
      Rank& r = mesh_.rank(rank);
      fields.rank = rank;
      launch(rank, step.launches);
      ++live_;
      ranks_[rank].last =
          executor_.kernel(r, r.stream(kCompute), step.kernels, JobLabel::of(*this, fields), *this, ranks_[rank].waits);
      ranks_[rank].waits.clear();
    }
    return;
  }
  for (Communicator* communicator : groups_at_[p][static_cast<std::size_t>(step.group)]) {
    const std::vector<Rank*>& members = communicator->ranks();
    std::size_t longest = 0;
    for (const Rank* rank : members) launch(rank->number, 1);
    for (const Rank* rank : members) longest = std::max(longest, ranks_[rank->number].waits.size());
    std::vector<JobRef> after;
    for (std::size_t n = 0; n < longest; ++n)
      for (const Rank* rank : members) {
        const std::vector<JobRef>& waits = ranks_[rank->number].waits;
        after.push_back(n < waits.size() ? waits[n] : JobRef());
      }
    fields.rank = members.front()->number;
    live_ += static_cast<std::int64_t>(members.size());
    executor_.collective(*communicator, communicator->choose(step.operation, step.bytes), JobLabel::of(*this, fields),
                         *this, jobs_, after);
    for (std::size_t m = 0; m < members.size(); ++m) {
      ranks_[members[m]->number].last = jobs_[m];
      ranks_[members[m]->number].waits.clear();
    }
  }
}

void TrainingStep::emit_beside(std::uint32_t p, std::uint32_t index, std::uint32_t detail, const SlotStep& step) {
  for (Communicator* tp : groups_at_[p][static_cast<std::size_t>(RankGroup::tp)]) {
    const std::uint32_t first = tp->rank(0).number;
    Communicator& communicator = beside_.of(first);
    std::vector<JobRef> after;
    for (const Rank* rank : tp->ranks()) after.push_back(ranks_[rank->number].last);
    live_ += static_cast<std::int64_t>(tp->size());
    executor_.collective(communicator, communicator.choose(step.operation, step.bytes),
                         label(kBeside, index, detail, first), *this, jobs_, after);
    for (std::uint32_t m = 0; m < tp->size(); ++m) ranks_[tp->rank(m).number].beside = {jobs_[m]};
  }
}

void TrainingStep::emit_ring(std::uint32_t p, std::uint32_t index, std::uint32_t detail, const SlotStep& step) {
  const execution::Exchange exchange{0, 1, 0, step.bytes};
  for (const std::uint32_t rank : ranks_at_[p]) {
    RankState& state = ranks_[rank];
    const JobLabel of_rank = label(kBeside, index, detail, rank);
    state.beside = {executor_.send(*ring_[rank], exchange, of_rank, *this, {state.last}),
                    executor_.receive(*ring_[around(rank, spec_.cp() - 1)], exchange, of_rank, *this, {state.last})};
    live_ += 2;
  }
}

void TrainingStep::receive(const Slot& slot, std::uint32_t index, std::uint32_t rank) {
  const std::uint32_t from = source(slot);
  if (from == kNobody) return;
  const Link& l = link(from, slot.stage);
  RankState& state = ranks_[rank];
  // A stream receives in the order in which the other rank sends, so what comes before this is received now, too.
  const std::vector<std::uint32_t>& order = arrivals_.at(l);
  std::uint32_t& received = state.received[l];
  const std::uint32_t place_in_order = place_in_order_[place(rank, Dimension::pp)][index];
  for (; received <= place_in_order; ++received) {
    const std::uint32_t earlier = order[received];
    const Slot& other = schedule_.slots[place(rank, Dimension::pp)][earlier];
    const execution::Exchange exchange{0, 1, (std::uint64_t(other.stage) << 32) + other.micro_batch,
                                       activation_bytes()};
    state.arrivals[earlier] = executor_.receive(pipeline_.at(l).of(rank), exchange, label(kReceive, earlier, 0, rank),
                                                *this, {spec_.pp_overlap ? state.before : state.last});
    ++live_;
  }
  state.waits.push_back(state.arrivals.at(index));
  state.arrivals.erase(index);
}

void TrainingStep::send(const Slot& slot, std::uint32_t index, std::uint32_t rank) {
  const std::uint32_t to = destination(slot);
  if (to == kNobody) return;
  Communicator& pair = pipeline_.at(link(slot.stage, to)).of(rank);
  RankState& state = ranks_[rank];
  const execution::Exchange exchange{0, 1, (std::uint64_t(to) << 32) + slot.micro_batch, activation_bytes()};
  state.sends.push_back(executor_.send(pair, exchange, label(kSend, index, 0, rank), *this, {state.last}));
  ++live_;
}

JobLabel TrainingStep::label(What what, std::uint32_t slot, std::uint32_t detail, std::uint32_t rank, bool first,
                             bool last) const {
  return JobLabel::of(*this, Fields{what, slot, detail, rank, first, last, steps_emitted_});
}

const Slot& TrainingStep::slot_of(const Fields& f) const {
  return schedule_.slots[place(f.rank, Dimension::pp)][f.slot];
}

const SlotStep& TrainingStep::step_of(const Fields& f) const {
  return plans_.plan(slot_of(f).kind, slot_of(f).stage).steps[f.detail];
}

void TrainingStep::on_job_begun(const Job& job) {
  const Fields f = fields_of(job);
  const std::uint32_t r = job.rank().number;
  if (&job.stream() != &mesh_.rank(r).stream(kCompute)) return;
  constexpr std::uint32_t kTpBit = RankAccount::bit(TrafficClass::tp), kPpBit = RankAccount::bit(TrafficClass::pp),
                          kDpBit = RankAccount::bit(TrafficClass::dp), kCpBit = RankAccount::bit(TrafficClass::cp);
  std::uint32_t waits = 0;
  if (f.what == kNorm || f.what == kOptimizer) waits = kDpBit;
  if (f.what == kKernels || f.what == kCollective) {
    waits = f.first ? kPpBit : kTpBit | kCpBit;
    if (spec_.zero_stage == 3) waits |= RankAccount::bit(TrafficClass::weights);
    if (f.step > 0) waits |= kDpBit;  // weights of the step before are being gathered
  }
  accounts_[r].begin(executor_.fabric().now(), waits);
  if (!f.first) return;
  ranks_[r].slot_begun = job.begun_at();
  ranks_[r].slot_ready = job.ready_at();
  job.rank().gpu->hbm().allocate(memory_.taken(slot_of(f)));
  if (f.step != steps_emitted_) return;
  Progress& progress = progress_[place(r, Dimension::pp)];
  progress.wanted = std::max<std::uint32_t>(progress.wanted, f.slot + 1 + kSlotsAhead);
  emit();
}

void TrainingStep::on_job_done(const Job& job) {
  const Fields f = fields_of(job);
  const std::uint32_t r = job.rank().number;
  const Time now = executor_.fabric().now();
  RankAccount& account = accounts_[r];
  --live_;
  end_ = now;
  switch (f.what) {
    case kKernels: account.end_kernel(now, RankAccount::Busy::kernel); break;
    case kNorm:
    case kOptimizer: account.end_kernel(now, RankAccount::Busy::optimizer); break;
    case kCollective:
      account.end_collective(now, class_of(step_of(f).group), job.collective()->last_entry(), false);
      break;
    case kHost: account.launched(job.begun_at(), now); break;
    case kHostWait:
      account.launched(job.begun_at(), now);
      if (--ranks_[r].host_waits > 0) break;
      ranks_[r].launched = now + ranks_[r].queued;
      ranks_[r].queued = Time();
      break;
    case kLayerGather: account.transferred(TrafficClass::weights, job.collective()->last_entry(), now); break;
    case kNormReduce:
      account.end_collective(now, f.detail == 0 ? TrafficClass::tp : TrafficClass::dp, job.collective()->last_entry(),
                             true);
      break;
    case kBeside: account.transferred(class_of(step_of(f).group), job.collective()->last_entry(), now); break;
    case kSend:
    case kReceive: account.transferred(TrafficClass::pp, job.collective()->last_entry(), now); break;
    case kGradients:
    case kGather: account.transferred(TrafficClass::dp, job.collective()->last_entry(), now); break;
    default: break;
  }
  if ((f.what == kKernels || f.what == kCollective) && f.last) {
    ++slots_done_;
    job.rank().gpu->hbm().free(memory_.freed(slot_of(f)));
    JobRecord record;
    Fields slot = f;
    slot.what = kSlot;
    slot.rank = r;
    record.label = JobLabel::of(*this, slot);
    record.rank = r;
    record.start = ranks_[r].slot_begun;
    record.end = now;
    record.queued = ranks_[r].slot_begun - ranks_[r].slot_ready;
    executor_.record(record);
  }
  if (done())
    for (RankAccount& each : accounts_) each.begin(now, RankAccount::bit(TrafficClass::dp));
}

std::uint64_t TrainingStep::expected_jobs() const {
  std::uint64_t jobs = 0;
  for (std::uint32_t p = 0; p < spec_.pp(); ++p) {
    std::uint64_t of_rank = 2 + 2 * buckets_[p].size();
    for (const Slot& slot : schedule_.slots[p]) of_rank += plans_.plan(slot.kind, slot.stage).steps.size() + 2;
    jobs += of_rank * mesh_.size() / spec_.pp();
  }
  return jobs * spec_.steps;
}

}  // namespace railyard::workload::training
