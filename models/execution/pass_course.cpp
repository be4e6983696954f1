#include "execution/pass_course.h"

#include <algorithm>
#include <utility>

#include "execution/executor.h"

namespace railyard::execution {

namespace {

constexpr std::uint32_t kNoStep = ~0u;

}  // namespace

void PassCourse::prepare(Executor& executor, Communicator& communicator, const std::vector<CourseStep>& steps,
                         JobClient& client, CourseMemory* memory) {
  executor_ = &executor;
  communicator_ = &communicator;
  client_ = &client;
  steps_ = steps;
  hosts_.clear();
  members_.clear();
  left_ = 0;
  is_composed_ = false;
  open_step_ = kNoStep;
  own_.clear();
  memory_ = memory != nullptr ? memory : &own_;
}

void PassCourse::add_host(Job& job, Time before) {
  job.course_ = this;
  job.member_ = static_cast<std::uint32_t>(hosts_.size());
  hosts_.push_back({std::nullopt, before});
}

void PassCourse::add(Job& job) {
  job.course_ = this;
  job.member_ = static_cast<std::uint32_t>(members_.size());
  job.step_ = 0;
  members_.emplace_back().job = &job;
  ++left_;
}

void PassCourse::take(Job& job) {
  const CourseStep& step = steps_[job.step_];
  job.label_ = step.label;
  if (step.spec != nullptr) {
    job.kind_ = Job::Kind::collective;
    job.collective_ = executor_->runs_[open(job.step_)].collective;
    job.bytes_ = step.spec->bytes;
    job.chain_.reset();
    return;
  }
  job.kind_ = Job::Kind::kernel;
  job.label_.arguments = step.label.namer->of_member(step.label.arguments, job.member_);
  job.collective_ = nullptr;
  job.bytes_ = 0;
  job.chain_ = *step.kernels;
}

std::uint32_t PassCourse::open(std::uint32_t number) {
  if (open_step_ == number) return open_run_;
  const CourseStep& step = steps_[number];
  open_step_ = number;
  open_run_ = executor_->begin_run(*step.communicator, *step.spec, step.label, *client_, step.turn);
  Executor::Run& run = executor_->runs_[open_run_];
  run.course = this;
  for (std::uint32_t m = 0; m < members_.size(); ++m) run.jobs[m] = members_[m].job;
  return open_run_;
}

// -- Steps, one after the other

Time PassCourse::launched(std::uint32_t step, std::uint32_t member) const {
  if (hosts_.empty() || steps_[step].launched == Time()) return Time();
  const Host& host = hosts_[hosts_.size() == 1 ? 0 : member];
  return host.begun ? *host.begun + steps_[step].launched : Time::max();
}

bool PassCourse::launch_together() const {
  const Time now = executor_->fabric().now();
  Time last;
  for (const CourseStep& step : steps_) last = later(last, step.launched);
  const auto is_over = [&](const Host& host) { return host.begun && *host.begun + last <= now; };
  return std::all_of(hosts_.begin(), hosts_.end(), is_over) ||
         std::all_of(hosts_.begin(), hosts_.end(),
                     [&](const Host& host) { return host.begun == hosts_.front().begun; });
}

void PassCourse::wait(std::uint32_t member, Time until) {
  members_[member].waits = true;
  if (until != Time::max()) executor_->fabric().calendar().at(until, *this, 0, member);
}

void PassCourse::on_event(std::uint32_t, std::uint64_t member) {
  members_[member].waits = false;
  members_[member].job->begin();
}

bool PassCourse::may_begin(Job& job) {
  const Time now = executor_->fabric().now();
  if (job.kind_ == Job::Kind::host) {
    job.course_ = nullptr;
    Host& host = hosts_[job.member_];
    host.begun = since(now, host.before);
    for (std::uint32_t m = 0; m < members_.size(); ++m)
      if (members_[m].waits && (hosts_.size() == 1 || m == job.member_)) wait(m, launched(members_[m].job->step_, m));
    return true;
  }
  const Time launched = this->launched(job.step_, job.member_);
  if (launched > now) {
    wait(job.member_, launched);
    return false;
  }
  job.ready_at_ = later(job.ready_at_, launched);
  keep(members_[job.member_]);
  return true;
}

bool PassCourse::goes_on(Job& job) {
  if (job.step_ + 1 == steps_.size() || job.status_ != Status::ok) {
    job.course_ = nullptr;
    if (--left_ == 0) executor_->end_course(*this, is_composed_);
    return false;
  }
  executor_->write(job);
  client_->on_job_done(job);
  Member& member = members_[job.member_];
  stop_keeping(member);
  member.after = nullptr;
  if (job.collective_ != nullptr && job.collective_->replayed() != nullptr) {
    const Replay* const replayed = replay(job.step_);
    if (replayed != nullptr && replayed->known->recording.get() == job.collective_->replayed()) {
      member.after = replayed;
      member.replayed = job.collective_->last_entry() + replayed->spec->launch;
    }
  }
  ++job.step_;
  ++executor_->jobs_;
  take(job);
  job.reached();
  job.ready();
  job.begin();
  return true;
}

// -- What is known

std::optional<PassCourse::Begin> PassCourse::begin_of(const Replay& after, std::uint32_t member, Time replayed,
                                                      Time begun) {
  if (begun == replayed + after.done[member]) return CourseMemory::kAtOnce;
  if (begun > replayed + after.moved[member]) return CourseMemory::kUndisturbed;
  return std::nullopt;
}

void PassCourse::keep(Member& member) {
  const Job& job = *member.job;
  if (member.after == nullptr || steps_[job.step_].spec != nullptr || job.step_ + 1 == steps_.size()) return;
  const auto begin = begin_of(*member.after, job.member_, member.replayed, executor_->fabric().now());
  if (!begin) return;
  Kernels& kernels = kernels_of(job.step_, *member.after);
  gpu::SmArray& sms = job.rank().gpu->sms();
  Kept& kept = kernels.members[job.member_][*begin];
  if (kept.is_complete && kept.speed == sms.speed()) return;
  kernels.alike[*begin] = kept.is_complete = false;
  kept.speed = sms.speed();
  if (!sms.keep(kept.log)) return;
  member.keeps = &kept;
  member.begin = *begin;
}

void PassCourse::stop_keeping(Member& member) {
  Kept* const kept = std::exchange(member.keeps, nullptr);
  if (kept == nullptr) return;
  kept->is_complete = member.job->rank().gpu->sms().stop_keeping();
  kept->took = member.job->duration_;
  Kernels& kernels = kernels_of(member.job->step_, *member.after);
  const Kept& first = kernels.members.front()[member.begin];
  kernels.alike[member.begin] =
      first.is_complete && std::all_of(kernels.members.begin(), kernels.members.end(),
                                       [&](const auto& other) { return other[member.begin] == first; });
}

PassCourse::Kernels& PassCourse::kernels_of(std::uint32_t step, const Replay& after) {
  const gpu::KernelChain* const chain = steps_[step].kernels->get();
  for (Kernels& kernels : memory_->kernels)
    if (kernels.chain == chain && kernels.after == after.known->recording.get()) return kernels;
  Kernels& kernels = memory_->kernels.emplace_back();
  kernels.chain = chain;
  kernels.after = after.known->recording.get();
  kernels.members.resize(members_.size());
  return kernels;
}

bool PassCourse::is_alone() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const Member& member) { return member.job->rank().gpu->sms().has_only(member.job->claim_); });
}

bool PassCourse::may_foresee() const {
  const gpu::SmArray& first = members_.front().job->rank().gpu->sms();
  return std::all_of(members_.begin(), members_.end(), [&first](const Member& member) {
    const gpu::SmArray& sms = member.job->rank().gpu->sms();
    return sms.is_like(first) && sms.is_without_traffic();
  });
}

const PassCourse::Kept* PassCourse::foresee(Kernels& kernels, std::uint32_t step) const {
  const gpu::SmArray& sms = members_.front().job->rank().gpu->sms();
  Kept& kept = kernels.foreseen;
  if (!std::exchange(kernels.is_foreseen, true) || kept.speed != sms.speed()) {
    kept.speed = sms.speed();
    kept.log.clear();
    kept.is_complete = sms.foresee(*steps_[step].kernels, kept.log, kept.took);
  }
  return kept.is_complete ? &kept : nullptr;
}

const PassCourse::Kept* PassCourse::known(const Part& part, Kernels& kernels, std::uint32_t step, std::uint32_t member,
                                          Time begun, bool foresees) const {
  const Replay& after = *part.replay;
  if (foresees && begun > part.begin + after.moved[member])
    if (const Kept* const foreseen = foresee(kernels, step)) return foreseen;
  const auto begin = begin_of(after, member, part.begin, begun);
  if (!begin) return nullptr;
  const Kept& kept = kernels.members[member][*begin];
  return kept.is_complete && kept.speed == members_[member].job->rank().gpu->sms().speed() ? &kept : nullptr;
}

PassCourse::Replay* PassCourse::replay(std::uint32_t number) {
  const collective::CollectiveSpec* const spec = steps_[number].spec;
  for (Replay& replay : memory_->replays)
    if (replay.spec == spec) return &replay;
  const collective::KnownRecording* const known =
      communicator_->reuse()->find_own({spec->key(), std::vector<Time>(members_.size())});
  if (known == nullptr || !known->recording->apart) return nullptr;
  Replay& replay = memory_->replays.emplace_back();
  replay.spec = spec;
  replay.known = known;
  replay.done.resize(members_.size());
  replay.moved.resize(members_.size());
  for (const auto& [when, member] : known->recording->done) replay.done[member] = when;
  for (std::uint32_t m = 0; m < members_.size(); ++m)
    for (std::size_t i = 0; i < known->memories.size(); ++i)
      if (known->memories[i] == communicator_->group().members[m] &&
          !known->recording->memory->memories[i].steps.empty())
        replay.moved[m] = known->recording->memory->memories[i].steps.back().after;
  const auto same = [](const std::vector<Time>& times) {
    return std::all_of(times.begin(), times.end(), [&](Time time) { return time == times.front(); });
  };
  replay.alike = same(replay.done) && same(replay.moved);
  return &replay;
}

// -- Composition

std::optional<std::uint32_t> PassCourse::kernels_behind(std::uint32_t step) const {
  std::uint32_t next = step + 1;
  while (next < steps_.size() && steps_[next].spec == nullptr) ++next;
  if (next == steps_.size()) return std::nullopt;
  return next - step - 1;
}

Time PassCourse::run_kernels(Part& part, std::uint32_t step, bool foresees) {
  const auto members = static_cast<std::uint32_t>(members_.size());
  bool alike = foresees && part.replay->alike && launch_together();
  Time last = part.begin;
  for (std::uint32_t m = 0; m < (part.alike ? 1 : members); ++m) {
    Time ended = part.begin + part.replay->done[m];
    for (std::uint32_t k = 1; k <= part.kernels; ++k) {
      Kernels& kernels = kernels_of(step + k, *part.replay);
      const Time begun = later(ended, launched(step + k, m));
      if (begun == Time::max()) return begun;
      const Kept* const kept = known(part, kernels, step + k, m, begun, foresees);
      if (kept == nullptr) return Time::max();
      if (m == 0)
        alike = alike && (kept == &kernels.foreseen || kernels.alike[*begin_of(*part.replay, 0, part.begin, begun)]);
      runs_.push_back({ended, begun, kept});
      ended = begun + kept->took;
    }
    part.alike = alike;
    nexts_.push_back(later(ended, launched(step + part.kernels + 1, m)));
    last = later(last, nexts_.back());
  }
  return last;
}

Time PassCourse::find_parts() {
  const Time until = sooner(communicator_->reuse()->undisturbed_until(), executor_->unchanged_until());
  const bool foresees = may_foresee();
  std::uint32_t step = open_step_;
  Time begin = executor_->fabric().now();
  parts_.clear();
  runs_.clear();
  nexts_.clear();
  for (std::optional<std::uint32_t> kernels; (kernels = kernels_behind(step)); step += *kernels + 1) {
    Part part{begin, replay(step), *kernels, runs_.size(), nexts_.size()};
    if (part.replay == nullptr) break;
    const Time last = run_kernels(part, step, foresees);
    if (last == Time::max()) break;
    const Time next = last + steps_[step + *kernels + 1].spec->launch;
    if (next > until) break;
    parts_.push_back(part);
    begin = next;
  }
  return begin;
}

bool PassCourse::compose(collective::Collective& collective) {
  if (!is_alone()) return false;
  const Time begin = find_parts();
  if (parts_.empty()) return false;
  is_composed_ = true;
  const std::uint32_t from = open_step_;
  std::uint32_t to = from;
  for (const Part& part : parts_) to += part.kernels + 1;
  const auto ended = static_cast<std::uint32_t>(collective.cookie);
  collective::Collective& next = *executor_->runs_[open(to)].collective;
  add_parts(from, to);
  for (const Part& part : parts_) ++part.replay->times;
  transport::Fabric& fabric = executor_->fabric();
  for (Replay& replay : memory_->replays) {
    const std::uint64_t times = std::exchange(replay.times, 0);
    if (times == 0) continue;
    const collective::Recording& recording = *replay.known->recording;
    if (fabric.memories() != nullptr) fabric.memories()->on_composed(*recording.memory, replay.known->memories, times);
    fabric.replay(replay.spec->traffic_class, recording.messages * times,
                  communicator_->reuse()->replay_often(recording, times));
  }
  executor_->composed_ += std::uint64_t{to - from} * members_.size();
  next.enter_all(begin - steps_[to].spec->launch);
  executor_->free_runs_.push_back(ended);
  executor_->collectives_.release(collective);
  return true;
}

void PassCourse::add_parts(std::uint32_t from, std::uint32_t to) {
  bool alike = std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.alike; });
  const Job& first = *members_.front().job;
  const gpu::SmArray& firsts = first.rank().gpu->sms();
  const gpu::SmTotals before = firsts.totals();
  const Time claimed = firsts.claims_since();
  for (Member& member : members_) {
    Job& job = *member.job;
    gpu::SmArray& sms = job.rank().gpu->sms();
    const bool is_first = &job == &first;
    alike = alike &&
            (is_first || (sms.totals() == before && sms.claims_since() == claimed && sms.count() == firsts.count()));
    if (alike && !is_first) {
      sms.set_totals(firsts.totals());
    } else {
      add_up(member, from);
    }
    member.after = nullptr;
    job.step_ = to;
    take(job);
    job.reached_at_ = composed_.back().done;
    job.ready_at_ = job.begun_at_ = next_;
    sms.move_claim(job.claim_, steps_[to].spec->channels, collective::cta_of(*steps_[to].spec), job.begun_at_);
    client_->on_composed(job, composed_, alike && !is_first ? &first : nullptr);
  }
}

void PassCourse::add_up(const Member& member, std::uint32_t from) {
  const Job& job = *member.job;
  gpu::SmArray& sms = job.rank().gpu->sms();
  composed_.clear();
  // Beside its claim there may have been another one, which is over.
  Time claimed = sms.claims_since(), began = job.begun_at_, entered = job.collective_->last_entry();
  for (const Part& part : parts_) {
    const collective::CollectiveSpec& spec = *steps_[from].spec;
    const Run* run = runs_.data() + part.runs + (part.alike ? 0 : std::size_t{job.member_} * part.kernels);
    const Time ended = part.begin + part.replay->done[job.member_];
    if (&part != &parts_.front()) entered = part.begin - spec.launch;
    sms.add_claim(spec.channels, claimed, ended);
    claimed = ended;
    if (part.kernels == 0) composed_.push_back({true, false, began, entered, ended, ended, ended});
    for (std::uint32_t k = 0; k < part.kernels; ++k, ++run) {
      sms.add(run->kept->log);
      composed_.push_back({k == 0, true, k == 0 ? began : run->ended, k == 0 ? entered : run->ended, run->ended,
                           run->begun, run->begun + run->kept->took});
    }
    claimed = began = next_ = nexts_[part.nexts + (part.alike ? 0 : job.member_)];
    from += part.kernels + 1;
  }
}

}  // namespace railyard::execution
