// TrainingStep: slots whose steps may be composed (execution/pass_course.h): kernels and the collectives of tensor-parallel
// groups, one after the other, without anything beside them.
#include <algorithm>

#include "workload/training/run/training_step.h"

namespace railyard::workload::training {

using Jobs = TrainingJobs;

namespace {

bool is_plain(const SlotStep& step) {
  return step.coupled == nullptr && !step.beside_next && step.calls == 0 &&
         step.host_waits == transformer::HostWait::none && (step.kernels != nullptr || step.group == RankGroup::tp);
}

}  // namespace

bool TrainingStep::may_compose(std::uint32_t p, std::uint32_t index) {
  if (spec_.tp() == 1 || spec_.zero_stage == 3 || divided_ != nullptr || activations_ != nullptr || plans_.places() > 1)
    return false;
  const Slot& slot = schedule_.slots[p][index];
  const SlotPlan& plan = plans_.plan(slot.kind, slot.stage);
  const auto [plain, is_new] = is_plain_.try_emplace(&plan, false);
  if (is_new) plain->second = std::all_of(plan.steps.begin(), plan.steps.end(), is_plain);
  if (!plain->second) return false;
  for (const Communicator* group : groups_at_[p][static_cast<std::size_t>(RankGroup::tp)])
    if (executor_.not_composed(*group) != nullptr) return false;
  if (slot.kind != SlotKind::forward) return true;
  return std::all_of(ranks_at_[p].begin(), ranks_at_[p].end(),
                     [&](std::uint32_t rank) { return gradients_.has_weights(rank); });
}

void TrainingStep::emit_courses(std::uint32_t p, std::uint32_t index) {
  const Slot& slot = schedule_.slots[p][index];
  const std::vector<SlotStep>& steps = plans_.plan(slot.kind, slot.stage).steps;
  const std::vector<Communicator*>& groups = groups_at_[p][static_cast<std::size_t>(RankGroup::tp)];
  std::vector<std::vector<execution::CourseStep>> courses(groups.size());
  std::vector<std::uint32_t> launches;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    const SlotStep& step = steps[i];
    const bool is_first = i == 0, is_last = i + 1 == steps.size();
    launches.push_back(step.kernels != nullptr ? step.launches : 1);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const std::uint32_t rank = groups[g]->rank(0).number;
      if (step.kernels != nullptr) {
        courses[g].push_back(
            {&step.kernels, nullptr, nullptr, jobs_.label(Jobs::kKernels, index, i, rank, is_first, is_last)});
        continue;
      }
      courses[g].push_back({nullptr, groups[g], &choose(*groups[g], step),
                            jobs_.label(Jobs::kCollective, index, i, rank, is_first, is_last)});
      executor_.take_turn(courses[g].back());
    }
  }
  for (std::size_t g = 0; g < groups.size(); ++g)
    programs_.course(*groups[g], courses[g], launches, course_memories_[groups[g]]);
}

void TrainingStep::on_composed(const Job& next, const std::vector<execution::ComposedPart>& parts, const Job*) {
  const Jobs::Fields f = Jobs::fields_of(next);
  const std::uint32_t rank = next.rank().number, waits = waits_before(f);
  const std::vector<SlotStep>& steps = plans_.plan(jobs_.slot_of(f).kind, jobs_.slot_of(f).stage).steps;
  RankAccount& account = accounts_[rank];
  std::uint32_t jobs = 0;
  for (const execution::ComposedPart& part : parts) {
    if (part.has_collective) {
      if (jobs > 0) account.begin(part.began, waits);
      account.end_collective(part.ended, TrafficClass::tp, part.entered, false);
    }
    if (part.has_kernels) {
      account.begin(part.begun, waits);
      account.end_kernel(part.done, RankAccount::Busy::kernel);
    }
    jobs += (part.has_collective ? 1 : 0) + (part.has_kernels ? 1 : 0);
  }
  account.begin(next.begun_at(), waits);
  Time least;
  for (std::uint32_t i = f.detail - jobs; i < f.detail; ++i)
    if (steps[i].kernels != nullptr) least += least_time(steps[i].kernels);
  programs_.composed(rank, jobs, least, next.begun_at());
}

}  // namespace railyard::workload::training
