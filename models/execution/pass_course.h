// The jobs of a pass on one stage, as one job for each rank: kernels of every rank, a collective of all, and so on. The
// ranks take these steps one after the other, exactly as if each were a job of its own. Steps may wait for a host, which
// launches them one after the other: one host for all ranks, or one for each.
//
// A course is also composed: where it is certain that nobody else uses the links or memories of its ranks until later
// (collective/reuse.h), and the collectives and kernels that follow are known, they are added in a plain loop, and the ranks
// go on at the collective after them. A run gives the same results either way. Composition begins where a recorded
// collective would be replayed, with all members in it. From there to the begin of the next collective:
//
//   members end the collective as recorded; each runs its kernels; the next one begins when the last member has come to it
//
// Kernels that begin after the last message of a collective at their member are foreseen if the GPUs are alike and nothing
// else runs there. Others, which follow a collective at once, are known when the course has run them before, after a replay
// of the same recording, because late messages of a collective take memory bandwidth from them. So their first layers of
// each kind run, and the others are composed. What the kernels added to the totals of their GPU is added again, number by number, because these are
// floating-point sums. Members are mostly alike: then the sums of the first one are those of the others.
//
// What may be sent beside a course limits how far it is composed, never its results; so does a GPU whose speed changes.
// Where details are asked for (listeners, rows of all jobs), generators emit jobs instead: Executor::not_composed().
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "execution/communicator.h"
#include "execution/course_memory.h"
#include "execution/course_step.h"

namespace railyard::execution {

class PassCourse final : private transport::CalendarClient {
 public:
  /// @param steps  at least one
  /// @param memory  null: of this course alone
  void prepare(Executor& executor, Communicator& communicator, const std::vector<CourseStep>& steps, JobClient& client,
               CourseMemory* memory);
  /// The job of the launches of a host: of all members, or of the next one.
  /// @param before  launches before it began
  void add_host(Job& job, Time before);
  /// A host that began its launches at this instant; they were over long ago.
  void add_host(Time begun) { hosts_.push_back({begun, {}}); }
  /// A member's job, which takes the first step.
  void add(Job& job);
  void take(Job& job);
  /// A job would begin: that of the host, or a step of a member.
  /// @return false if the host has not launched the step; then it begins later
  bool may_begin(Job& job);
  /// A step of a member's job is over. @return false if it was the last one: the job is over
  bool goes_on(Job& job);
  /// All members are in the step of this collective, and its recording is about to be replayed.
  /// @return whether the course has been composed from here on; the collective is released
  bool compose(collective::Collective& collective);

 private:
  using Kept = KeptKernels;
  using Begin = CourseMemory::Begin;
  using Kernels = CourseMemory::Kernels;
  using Replay = CourseMemory::Replay;
  struct Host {
    std::optional<Time> begun;  ///< its launches; none: not yet
    Time before;                ///< launches before its job
  };
  struct Member {
    Job* job = nullptr;
    bool waits = false;                   ///< for the host
    const Replay* after = nullptr;        ///< of the step before; null: not replayed
    Time replayed;                        ///< its begin
    Kept* keeps = nullptr;                ///< the kernels that it runs now are being kept
    Begin begin = CourseMemory::kAtOnce;  ///< of these
  };
  /// A collective and the steps of kernels after it, up to the next collective.
  struct Part {
    Time begin;  ///< of the collective
    Replay* replay = nullptr;
    std::uint32_t kernels = 0;  ///< steps
    std::size_t runs = 0;       ///< of the first member, in runs_; those of the others follow, unless all are alike
    std::size_t nexts = 0;      ///< the same, in nexts_
    bool alike = false;
  };
  /// A step of kernels on a member.
  struct Run {
    Time ended, begun;  ///< the step before them; they
    const Kept* kept = nullptr;
  };

  /// When the host of a member has launched a step; max: not known yet.
  Time launched(std::uint32_t step, std::uint32_t member) const;
  /// Whether hosts launch each step that is left for all members at the same instant, or before now.
  bool launch_together() const;
  void wait(std::uint32_t member, Time until);
  void on_event(std::uint32_t tag, std::uint64_t member) override;
  void keep(Member& member);
  void stop_keeping(Member& member);
  /// The kernels of this step, after this recording.
  Kernels& kernels_of(std::uint32_t step, const Replay& after);
  /// Whether nothing else runs on the GPUs of the members, beside the open collective.
  bool is_alone() const;
  /// Whether kernels of all members take the same time after the open collective.
  bool may_foresee() const;
  /// What the kernels of this step do on each member without messages; null: not known.
  const Kept* foresee(Kernels& kernels, std::uint32_t step) const;
  /// None: it depends on more than what is kept.
  static std::optional<Begin> begin_of(const Replay& after, std::uint32_t member, Time replayed, Time begun);
  /// The kernels of a member after the collective of a part. @return null: not known
  const Kept* known(const Part& part, Kernels& kernels, std::uint32_t step, std::uint32_t member, Time begun,
                    bool foresees) const;
  /// Null: the collective of this step cannot be replayed.
  Replay* replay(std::uint32_t step);
  /// The collective of this step; its members have no entry yet.
  std::uint32_t open(std::uint32_t step);
  /// Steps of kernels from the collective at this step to the next collective; none: no other one follows.
  std::optional<std::uint32_t> kernels_behind(std::uint32_t step) const;
  /// Adds the kernels of a part, whose collective is at this step, to runs_, and the begins of the next collective to nexts_.
  /// @return when the last member begins that one; max: not known
  Time run_kernels(Part& part, std::uint32_t step, bool foresees);
  /// Sets parts_: what can be composed from the open step on. @return the begin of the collective after them
  Time find_parts();
  /// Adds the parts to all members, from the open step on. They go on at the collective after them, at step `to`.
  void add_parts(std::uint32_t from, std::uint32_t to);
  /// Adds them to the totals of a member's GPU. Sets composed_ and next_.
  void add_up(const Member& member, std::uint32_t from);

  Executor* executor_ = nullptr;
  Communicator* communicator_ = nullptr;
  JobClient* client_ = nullptr;
  std::vector<CourseStep> steps_;
  std::vector<Host> hosts_;  ///< none, one for all members, or one for each
  std::vector<Member> members_;
  std::uint32_t left_ = 0;  ///< members that are not over
  bool is_composed_ = false;
  std::uint32_t open_step_ = 0, open_run_ = 0;  ///< the latest collective that a member has reached
  CourseMemory own_;
  CourseMemory* memory_ = &own_;
  std::vector<Part> parts_;
  std::vector<Run> runs_;
  std::vector<Time> nexts_;  ///< when members begin the collective after a part; it runs when the last one has begun
  std::vector<ComposedPart> composed_;
  Time next_;  ///< when the member begins the collective after the parts
};

}  // namespace railyard::execution
