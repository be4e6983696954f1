// TrainingStep: the jobs of a slot, and of pairs of slots that run interleaved.
#include <algorithm>

#include "workload/training/run/training_step.h"

namespace railyard::workload::training {

using Jobs = TrainingJobs;

void TrainingStep::emit_slots(std::uint32_t p) {
  Progress& progress = progress_[p];
  const bool pair = begins_pair(p, progress.emitted);
  pair ? emit_pair(p, progress.emitted) : emit_slot(p, progress.emitted);
  progress.emitted += pair ? 2 : 1;
  if (leaves_head(p, progress.emitted - 1))  // gradients of layers are reduced beside the head's slots
    progress.wanted = static_cast<std::uint32_t>(schedule_.slots[p].size());
  if (progress.emitted < schedule_.slots[p].size()) return;
  progress.ended = true;
  if (spec_.grad_norm != GradientNorm::before)  // the end of the step must not wait for slots of other stages
    for (std::uint32_t other = 0; other < spec_.pp(); ++other)
      progress_[other].wanted = static_cast<std::uint32_t>(schedule_.slots[other].size());
  if (!spec_.software.dp_overlap && spec_.zero_stage < 2) gradients_.reduce(p, std::nullopt, {});
  if (++ended_ < spec_.pp()) return;
  gradients_.end_step();
  jobs_.next_step();
  if (jobs_.step() < spec_.steps) begin_step();
}

bool TrainingStep::leaves_head(std::uint32_t p, std::uint32_t index) const {
  const auto is_same = [&](const Slot& slot) {
    return slot.kind == SlotKind::backward && plans_.stage(slot.stage).last;
  };
  const std::vector<Slot>& slots = schedule_.slots[p];
  return spec_.defer_embedding_wgrad && is_same(slots[index]) &&
         std::none_of(slots.begin() + index + 1, slots.end(), is_same);
}

namespace {

/// Copies of tokens to experts or back, or their weights. Several in a row run beside the same kernels.
bool sends_copies(const SlotStep& step) {
  return step.group == RankGroup::ep && step.kernels == nullptr && step.coupled == nullptr &&
         step.operation == collective::Operation::all_to_all &&
         step.tokens.leg != collective::TokenExchange::Leg::notify;
}

}  // namespace

struct TrainingStep::Emission {
  std::uint32_t p, index;
  const Slot& slot;
  const SlotPlan& plan;  ///< of the first expert-parallel rank; the others have the same steps
  const std::vector<std::uint32_t>& ranks;
  std::size_t begins;            ///< step with the first job of the compute streams
  bool gives_gradients;          ///< of weights
  bool completes;                ///< the gradients of its virtual stage
  bool before_head;              ///< only deferred gradients of the head follow
  std::size_t next = 0;          ///< step
  std::size_t beside_until = 0;  ///< step that waits for a collective beside kernels
  std::uint32_t layer = SlotStep::kEnds;
  GradientSync::LayerEnds layer_ends = {};
  std::vector<JobRef> awaited = {};    ///< by rank of `ranks`: kernels for which the host waits after the next launch
  std::vector<JobRef> exchanged = {};  ///< jobs of an exchange beside kernels that the next step waits for

  bool ended() const { return next == plan.steps.size(); }
  bool is_forward() const { return slot.kind == SlotKind::forward; }
  const SlotStep& step() const { return plan.steps[next]; }
};

TrainingStep::Emission TrainingStep::begin_slot(std::uint32_t p, std::uint32_t index) {
  const Slot& slot = schedule_.slots[p][index];
  const SlotPlan& plan = plans_.plan(slot.kind, slot.stage);
  const bool gives_gradients = slot.kind == SlotKind::backward || slot.kind == SlotKind::backward_weights;
  const bool completes =
      gives_gradients && (spec_.zero_stage >= 2 || gradients_.has_last_gradients(p, slot.stage, index));
  pipeline_.before_slot(p, index);
  if (divided_ != nullptr) divided_->begin_slot(p);
  const auto begins =
      std::find_if(plan.steps.begin(), plan.steps.end(), [](const SlotStep& step) { return !step.beside_next; });
  return {p,
          index,
          slot,
          plan,
          ranks_at_[p],
          static_cast<std::size_t>(begins - plan.steps.begin()),
          gives_gradients,
          completes,
          leaves_head(p, index)};
}

void TrainingStep::emit_next_step(Emission& e) {
  const std::uint32_t p = e.p, index = e.index;
  // A layer ends with the kernel that adds its last gradient. The embedding counts as part of the first layer.
  const auto add_gradients = [&](const SlotStep* added) {
    if (added == nullptr || !e.completes) return;
    const transformer::Stage& stage = plans_.stage(e.slot.stage);
    const std::uint32_t of = added->layer != SlotStep::kEnds ? added->layer
                             : added->use->linear == transformer::Linear::embedding
                                 ? stage.first_layer
                                 : stage.first_layer + stage.layers - 1;
    for (const std::uint32_t rank : e.ranks) e.layer_ends[{rank, of}] = {programs_.last(rank), programs_.place(rank)};
  };
  const bool gathers = spec_.zero_stage == 3 && (e.is_forward() || spec_.reshard_after_forward);
  const std::size_t i = e.next;
  const SlotStep& step = e.step();
  const auto detail = static_cast<std::uint32_t>(i);
  const bool begins_layer = i > 0 && step.layer != e.layer;
  if (begins_layer) shards_.end_layer(e.ranks);
  if (activations_ != nullptr && (i == 0 || begins_layer)) {
    if (i > 0) activations_->after_layer(p, index, e.layer);
    activations_->before_layer(p, index, step.layer, i == 0);
  }
  if (gathers && (i == 0 || begins_layer)) shards_.gather(p, index, step.layer, (i == 0) != e.is_forward());
  if (e.is_forward() && step.layer != e.layer && step.layer != SlotStep::kEnds)
    for (const std::uint32_t rank : e.ranks) gradients_.wait_for_weights(rank, step.layer);
  e.layer = step.layer;
  if (i > 0 && i == e.beside_until)
    for (const std::uint32_t rank : e.ranks) programs_.wait_for(rank, beside_jobs_[rank]);
  ++e.next;
  if (step.beside_next) {
    if (step.operation == collective::Operation::send_recv)
      emit_ring(p, index, detail, step);
    else if (step.group == RankGroup::ep)
      emit_exchange(e, detail);
    else
      emit_beside(p, index, detail, step);
    e.beside_until = i + 2;
    return;
  }
  if (divided_ != nullptr) divided_->before_step(p, index, detail, step, e.slot.kind);
  emit_step(p, index, detail, step, i == e.begins, e.ended());
  const auto wait = [&](std::uint32_t rank, const JobRef& job) {
    std::vector<JobRef> jobs{job};
    programs_.wait_on_host(rank, jobs, jobs_.label(Jobs::kHostWait, index, detail, rank));
  };
  for (std::size_t n = 0; n < e.awaited.size(); ++n) wait(e.ranks[n], e.awaited[n]);
  e.awaited.clear();
  for (const std::uint32_t rank : e.ranks) {
    if (step.host_waits == transformer::HostWait::after_next) e.awaited.push_back(programs_.last(rank));
    if (step.host_waits == transformer::HostWait::at_once) wait(rank, programs_.last(rank));
  }
  if (e.completes || e.before_head) {
    const bool is_head = step.layer == SlotStep::kEnds && e.layer_ends.empty();
    const std::uint32_t layer =
        step.layer == SlotStep::kEnds ? plans_.stage(e.slot.stage).first_layer : step.layer;  // with the embedding
    if (!is_head)
      for (const std::uint32_t rank : e.ranks)
        e.layer_ends[{rank, layer}] = {programs_.last(rank), programs_.place(rank)};
  }
  if (divided_ != nullptr && e.gives_gradients) add_gradients(divided_->after_step(p, index, detail, step));
  if (divided_ != nullptr && e.ended()) add_gradients(divided_->end_slot(p));
}

void TrainingStep::end_slot(Emission& e) {
  const std::uint32_t p = e.p;
  if (activations_ != nullptr) activations_->after_layer(p, e.index, e.layer);
  pipeline_.after_slot(p, e.index);
  if (e.before_head) ends_before_head_ = std::move(e.layer_ends);
  if (e.completes && spec_.defer_embedding_wgrad && plans_.stage(e.slot.stage).last) {
    e.layer_ends = std::move(ends_before_head_);
    for (const GradientBucket& bucket : gradients_.buckets(p))
      if (gradients_.has_deferred_head(bucket) && !bucket.layers.empty())
        for (const std::uint32_t rank : e.ranks) e.layer_ends.erase({rank, bucket.layers.back()});
  }
  if (!spec_.software.dp_overlap) e.layer_ends.clear();
  if (e.completes && (spec_.software.dp_overlap || spec_.zero_stage >= 2))
    gradients_.reduce(p, e.slot.stage, e.layer_ends);
}

void TrainingStep::emit_slot(std::uint32_t p, std::uint32_t index) {
  Emission slot = begin_slot(p, index);
  if (!slot.completes && !slot.before_head && may_compose(p, index)) {
    emit_courses(p, index);
    slot.next = slot.plan.steps.size();
  } else {
    while (!slot.ended()) emit_next_step(slot);
  }
  end_slot(slot);
}

bool TrainingStep::begins_pair(std::uint32_t p, std::uint32_t index) const {
  const std::vector<Slot>& slots = schedule_.slots[p];
  return spec_.schedule.overlap_pairs && index + 1 < slots.size() &&
         overlap_in_pairs(spec_.schedule, p, slots[index], slots[index + 1]);
}

void TrainingStep::emit_pair(std::uint32_t p, std::uint32_t index) {
  Emission forward = begin_slot(p, index);
  emit_part(forward);
  Emission backward = begin_slot(p, index + 1);
  while (!forward.ended() || !backward.ended())
    for (Emission* slot : {&backward, &forward})
      if (!slot->ended()) emit_part(*slot);
}

void TrainingStep::emit_part(Emission& e) {
  for (const JobRef& job : e.exchanged) programs_.wait_for(job.job->rank().number, job);
  e.exchanged.clear();
  while (!e.ended()) {
    const SlotStep& step = e.step();
    const bool exchanges = sends_copies(step);
    const bool is_inside = e.next > e.begins && e.next + 1 < e.plan.steps.size() && e.next > e.beside_until;
    const bool waits =
        std::any_of(e.ranks.begin(), e.ranks.end(), [&](std::uint32_t rank) { return !programs_.waits(rank).empty(); });
    if (!exchanges || !is_inside || waits) {
      emit_next_step(e);
      continue;
    }
    for_exchanges(e.p, [&](Communicator& communicator) {
      for (std::size_t n = e.next; n < e.plan.steps.size() && sends_copies(e.plan.steps[n]); ++n) {
        const std::vector<JobRef>& jobs = start_exchange(communicator, e, static_cast<std::uint32_t>(n));
        e.exchanged.insert(e.exchanged.end(), jobs.begin(), jobs.end());
      }
    });
    while (sends_copies(e.step())) ++e.next;
    return;
  }
  end_slot(e);
}

template <class With>
void TrainingStep::for_exchanges(std::uint32_t p, With with) {
  for (const auto& communicator : ep_beside_.all())
    if (coordinate(communicator->rank(0).number, Dimension::pp) == p) with(*communicator);
}

const std::vector<JobRef>& TrainingStep::start_exchange(Communicator& communicator, const Emission& e,
                                                        std::uint32_t detail) {
  return programs_.start(communicator, choose(communicator, e.plan.steps[detail]),
                         jobs_.label(Jobs::kBeside, e.index, detail, communicator.rank(0).number),
                         programs_.last_of(communicator));
}

void TrainingStep::emit_exchange(const Emission& e, std::uint32_t detail) {
  take_calls(e.p, e.plan.steps[detail]);
  for_exchanges(e.p, [&](Communicator& communicator) {
    const std::vector<JobRef>& jobs = start_exchange(communicator, e, detail);
    for (std::uint32_t m = 0; m < communicator.size(); ++m) beside_jobs_[communicator.rank(m).number] = {jobs[m]};
  });
}

void TrainingStep::take_calls(std::uint32_t p, const SlotStep& step) {
  const Time calls = Time::seconds(step.calls * spec_.software.expert_call_us * 1e-6);
  for (const std::uint32_t rank : ranks_at_[p]) programs_.wait_for(rank, programs_.take_host(rank, calls));
}

void TrainingStep::emit_step(std::uint32_t p, std::uint32_t index, std::uint32_t detail, const SlotStep& step,
                             bool first, bool last) {
  if (step.coupled != nullptr) return emit_coupled(p, index, detail, step, first, last);
  const Slot& slot = schedule_.slots[p][index];
  const auto of_rank = [&](std::uint32_t rank) -> const SlotStep& {
    return plans_.plan(slot.kind, slot.stage, coordinate(rank, Dimension::ep)).steps[detail];
  };
  take_calls(p, step);
  if (step.kernels != nullptr) {
    for (const std::uint32_t rank : ranks_at_[p])
      programs_.kernels(rank, of_rank(rank).kernels, step.launches,
                        jobs_.label(Jobs::kKernels, index, detail, rank, first, last));
    return;
  }
  for (Communicator* communicator : groups_at_[p][static_cast<std::size_t>(step.group)]) {
    const std::uint32_t rank = communicator->rank(0).number;
    programs_.collective(*communicator, choose(*communicator, of_rank(rank)),
                         jobs_.label(Jobs::kCollective, index, detail, rank, first, last));
  }
}

const collective::CollectiveSpec& TrainingStep::choose(Communicator& communicator, const SlotStep& step) {
  if (step.tokens.runs()) return communicator.choose_tokens(step.bytes, step.shares, step.tokens);
  return step.shares.is_even() ? communicator.choose(step.operation, step.bytes)
                               : communicator.choose_all_to_all(step.bytes, step.shares);
}

void TrainingStep::emit_coupled(std::uint32_t p, std::uint32_t index, std::uint32_t detail, const SlotStep& step,
                                bool first, bool last) {
  using Work = linear::Action::Work;
  for (const auto& group : coupled_at_[p])
    group->emit(
        *step.coupled, programs_, [&](const linear::Action& action, bool is_first, bool is_last, std::uint32_t rank) {
          const Jobs::What what = action.work == Work::shard        ? Jobs::kShard
                                  : action.work == Work::main_loop  ? Jobs::kMainLoop
                                  : action.work != Work::collective ? Jobs::kKernels
                                  : action.beside                   ? Jobs::kBeside
                                                                    : Jobs::kCollective;
          const std::size_t to = (rank + action.to) % group->ranks().size();  // of a shard
          return jobs_.label(what, index, detail, group->ranks()[to]->number, first && is_first, last && is_last);
        });
}

void TrainingStep::emit_beside(std::uint32_t p, std::uint32_t index, std::uint32_t detail, const SlotStep& step) {
  for (const auto& group : coupled_at_[p]) {
    Communicator& tp = group->communicator(true, step.comm_sms);
    const std::vector<JobRef>& jobs =
        programs_.start(tp, step.operation, step.bytes, jobs_.label(Jobs::kBeside, index, detail, tp.rank(0).number),
                        programs_.last_of(tp));
    for (std::uint32_t m = 0; m < tp.size(); ++m) beside_jobs_[tp.rank(m).number] = {jobs[m]};
  }
}

void TrainingStep::emit_ring(std::uint32_t p, std::uint32_t index, std::uint32_t detail, const SlotStep& step) {
  const execution::Exchange exchange{0, 1, 0, step.bytes};
  for (const std::uint32_t rank : ranks_at_[p]) {
    const JobLabel label = jobs_.label(Jobs::kBeside, index, detail, rank);
    const std::vector<JobRef> after{programs_.last(rank)};
    beside_jobs_[rank] = {programs_.send(*ring_[rank], exchange, label, after),
                          programs_.receive(*ring_[around(rank, spec_.cp() - 1)], exchange, label, after)};
  }
}

}  // namespace railyard::workload::training
