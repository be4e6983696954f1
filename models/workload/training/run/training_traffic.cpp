// TrainingStep: what its ranks send, which collectives are computed once, and how many jobs it has.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "workload/training/run/training_step.h"

namespace railyard::workload::training {

using Jobs = TrainingJobs;

const Communicator* TrainingStep::announced_for(const Job& job) const {
  const Jobs::Fields f = Jobs::fields_of(job);
  const std::uint32_t rank = job.rank().number;
  switch (f.what) {
    case Jobs::kSend:
    case Jobs::kReceive: return &pipeline_.communicator_of(job);
    case Jobs::kCollective:
      if (spec_.expert_ranks() == 1 && spec_.cp() == 1) return nullptr;
      if (jobs_.step_of(f).group == RankGroup::ep) return &ep_.of(rank);
      return jobs_.step_of(f).group == RankGroup::cp ? &cp_.of(rank) : nullptr;
    case Jobs::kBeside:
      if (jobs_.step_of(f).operation != collective::Operation::send_recv) return nullptr;
      return ring_[job.member() == 0 ? rank : around(rank, spec_.cp() - 1)].get();
    default: return gradients_.communicator_of(job);
  }
}

void TrainingStep::allow_reuse() {
  if (spec_.exchanges_beside()) return;  // with experts, beside all others
  if (spec_.tp() == 1 && spec_.expert_ranks() == 1 && (spec_.cp() == 1 || has_ring())) return;  // none
  pipeline_.announce();
  gradients_.announce(announces_replicas());
  for (const auto& pair : ring_) programs_.announce(*pair, true);
  for (const auto& communicator : ep_.all()) programs_.announce(*communicator);
  for (const auto& communicator : cp_.all())
    if (!has_ring()) programs_.announce(*communicator);
  const std::vector<transport::Traffic> all = traffic();
  const auto is_announced = [&](std::uint8_t c) {
    const auto is = [&](TrafficClass which) { return c == number(which); };
    return is(TrafficClass::pp) || is(TrafficClass::ep) || is(TrafficClass::cp) ||
           (is(TrafficClass::dp) && announces_replicas());
  };
  // Ranks of a tensor-parallel group exchange tokens for whole experts together, before and after its own collectives.
  const auto follows = [&](std::uint8_t c, TrafficClass of) {
    const auto is = [&](TrafficClass which) { return c == number(which) || of == which; };
    return c == number(of) || (spec_.whole_experts && is(TrafficClass::tp) && is(TrafficClass::ep));
  };
  const auto allow = [&](const Communicators& communicators, TrafficClass of) {
    if (communicators.all().front()->size() == 1) return;
    std::vector<Communicator*> groups;
    for (const auto& communicator : communicators.all()) groups.push_back(communicator.get());
    std::vector<collective::OtherTraffic> others;
    for (const transport::Traffic& t : all)
      if (!follows(t.traffic_class, of) && !is_announced(t.traffic_class))
        others.push_back({t.source, t.destination, t.traffic_class});
    std::vector<collective::OtherTraffic> announced;
    programs_.add_announced(announced);
    for (const collective::OtherTraffic& t : announced)
      if (!follows(t.traffic_class, of)) others.push_back(t);
    Communicator::allow_reuse(groups, others, executor_.fabric(), true);
  };
  allow(tp_, TrafficClass::tp);
  allow(ep_, TrafficClass::ep);
  if (!has_ring()) allow(cp_, TrafficClass::cp);
}

std::vector<transport::Traffic> TrainingStep::traffic() const {
  std::vector<transport::Traffic> all;
  const auto among = [&](const Communicators& communicators, TrafficClass c, double bytes_per_rank, bool reused) {
    std::int64_t group = 0;
    for (const auto& communicator : communicators.all()) {
      const std::vector<transport::Window>& members = communicator->group().members;
      const double to_each = bytes_per_rank / static_cast<double>(members.size());
      std::map<transport::Window, double> destinations;  // copies of a member have one
      for (const transport::Window b : members) destinations[b] += to_each;
      for (const Rank* a : communicator->ranks())
        for (const auto& [b, bytes] : destinations)
          if (a->gpu->window() != b)
            all.push_back({a->gpu->window(), b, number(c), bytes, reused ? group : transport::Traffic::kNobody});
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
  if (const double shards = most_shard_bytes(); shards > 0) among(tp_, TrafficClass::tp, shards, false);
  if (has_ring()) {
    for (const auto& pair : ring_)
      all.push_back({pair->rank(0).gpu->window(), pair->rank(1).gpu->window(), number(TrafficClass::cp),
                     most_bytes(RankGroup::cp)});
  } else if (spec_.cp() > 1) {
    among(cp_, TrafficClass::cp, most_bytes(RankGroup::cp), true);
  }
  if (spec_.expert_ranks() > 1) among(ep_, TrafficClass::ep, most_bytes(RankGroup::ep), !spec_.exchanges_beside());
  for (const GroupTraffic& group : gradients_.traffic())
    among(*group.communicators, TrafficClass::dp, group.bytes_per_rank, false);
  if (divided_ != nullptr) {
    double most = 0;
    for (std::uint32_t p = 0; p < spec_.pp(); ++p)
      most = std::max(most, (divided_weight_bytes(p, false) + divided_weight_bytes(p, true)) * spec_.steps);
    for (const Communicators* communicators : divided_->communicators())
      among(*communicators, TrafficClass::weights, most, false);
    double inputs = 0;
    for (std::uint32_t p = 0; p < spec_.pp(); ++p) inputs = std::max(inputs, divided_input_bytes(p) * spec_.steps);
    if (inputs > 0) among(divided_->inputs(), TrafficClass::weights, inputs, false);
  }
  if (!gradients_.tied().all().empty())
    among(gradients_.tied(), TrafficClass::pp, static_cast<double>(gradients_.tied_bytes()) * spec_.steps, false);
  pipeline_.add_traffic(all);
  if (activations_ != nullptr) activations_->add_traffic(all);
  for (std::uint32_t r = 0; optimizer_ != nullptr && r < mesh_.size(); ++r)
    optimizer_->add_traffic(all, r, static_cast<double>(gradients_.owned(r)));
  return all;
}

double TrainingStep::divided_weight_bytes(std::uint32_t p, bool experts) const {
  return divided_->bytes_of(schedule_.slots[p], plans_, experts);
}

double TrainingStep::divided_input_bytes(std::uint32_t p) const {
  return divided_->input_bytes_of(schedule_.slots[p], plans_);
}

double TrainingStep::most_shard_bytes() const {
  double most = 0;
  for (const std::vector<Slot>& slots : schedule_.slots) {
    double bytes = 0;
    for (const Slot& slot : slots)
      for (const SlotStep& step : plans_.plan(slot.kind, slot.stage).steps)
        if (step.coupled != nullptr)
          for (const linear::Action& action : step.coupled->actions)
            if (action.work == linear::Action::Work::shard) bytes += static_cast<double>(action.bytes);
    most = std::max(most, bytes);
  }
  return most * spec_.steps;
}

double TrainingStep::most_bytes(RankGroup group) const {
  std::unordered_map<const SlotPlan*, double> bytes_of;  // a plan is that of many micro-batches
  const auto bytes_in = [&](const SlotPlan& plan) {
    const auto [found, is_new] = bytes_of.try_emplace(&plan, 0.0);
    if (is_new)
      for (const SlotStep& step : plan.steps)
        if (step.kernels == nullptr && step.group == group) found->second += static_cast<double>(step.bytes);
    return found->second;
  };
  double most = 0;
  for (const std::vector<Slot>& slots : schedule_.slots) {
    double bytes = 0;
    for (const Slot& slot : slots) bytes += bytes_in(plans_.plan(slot.kind, slot.stage));
    most = std::max(most, bytes);
  }
  return most * spec_.steps;
}

std::uint64_t TrainingStep::expected_jobs() const {
  std::uint64_t jobs = 0;
  for (std::uint32_t p = 0; p < spec_.pp(); ++p) {
    std::uint64_t of_rank = 2 + 2 * gradients_.buckets(p).size();
    for (const Slot& slot : schedule_.slots[p]) {
      of_rank += 2;
      for (const SlotStep& step : plans_.plan(slot.kind, slot.stage).steps)
        of_rank += step.coupled != nullptr ? step.coupled->actions.size() : 1;
    }
    if (optimizer_ != nullptr) of_rank += 3 * gradients_.buckets(p).size();
    jobs += of_rank * mesh_.size() / spec_.pp();
  }
  return jobs * spec_.steps + (activations_ != nullptr ? activations_->copies() : 0);
}

}  // namespace railyard::workload::training
