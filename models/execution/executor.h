// The room `execution` has the only executor of a simulation. Workloads create Ranks with named streams, Communicators,
// and Jobs (kernel, collective, send and receive, host step); the Executor begins a job on its device when its stream
// and its dependencies allow, writes its JobRecord, and calls its JobClient. A failed job cancels those that wait for
// it. JobListener and JobSink are for probes and results; stall.cpp says what waits for what.
//
// Runs all jobs; a simulation has one executor. The executor owns ranks and jobs. It gives a job to its device when the
// job is at the front of its stream and all jobs for which it waits are done. When a job ends, the executor writes its
// record and notifies its client and its dependents.
//
//   Rank& rank = executor.add_rank("node", 0, "[0]", &gpu);
//   gpu::Stream& compute = rank.add_stream("compute");
//   const JobRef product = executor.kernel(rank, compute, chain, label, *this);
//   executor.collective(communicator, communicator.choose(Operation::all_reduce, bytes), label, *this, jobs, {product});
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "execution/communicator.h"
#include "execution/course_memory.h"
#include "execution/course_step.h"
#include "execution/job.h"
#include "execution/job_listener.h"
#include "execution/job_record.h"

namespace railyard::execution {

class Executor final : private collective::CollectiveClient {
 public:
  Executor(transport::Fabric& fabric, JobSink& sink);
  ~Executor();

  Rank& add_rank(std::string group, std::uint32_t number, std::string index, gpu::Gpu& gpu) {
    return ranks_.emplace_back(std::move(group), number, std::move(index), gpu);
  }
  /// @param memory  none: the host sends no bytes
  Rank& add_host(std::string group, std::uint32_t number, std::optional<transport::Window> memory = std::nullopt) {
    return ranks_.emplace_back(std::move(group), number, std::string(), memory);
  }
  /// All ranks, in the order in which they were added.
  std::deque<Rank>& ranks() { return ranks_; }
  const std::deque<Rank>& ranks() const { return ranks_; }

  JobRef kernel(Rank& rank, gpu::Stream& stream, gpu::SharedChain chain, const JobLabel& label, JobClient& client,
                const std::vector<JobRef>& after = {});
  /// Occupies a stream for `duration` and does nothing else.
  JobRef delay(Rank& rank, gpu::Stream& stream, Time duration, const JobLabel& label, JobClient& client,
               const std::vector<JobRef>& after = {});
  /// Occupies a stream until all links are quiet, so that later jobs do not depend on earlier traffic.
  JobRef quiet(Rank& rank, gpu::Stream& stream, const JobLabel& label, JobClient& client,
               const std::vector<JobRef>& after = {}) {
    return push(acquire(Job::Kind::quiet, rank, stream, label, client), after);
  }
  /// A delay that counts as work of host software.
  JobRef host(Rank& rank, gpu::Stream& stream, Time duration, const JobLabel& label, JobClient& client,
              const std::vector<JobRef>& after = {});
  /// Emits one job for every member, in the communicator's stream.
  /// @param jobs   set to the members' jobs
  /// @param after  job for which member i waits, for each member; then, if there are more, a second job for each, and
  ///               so on
  void collective(Communicator& communicator, const collective::CollectiveSpec& spec, const JobLabel& label,
                  JobClient& client, std::vector<JobRef>& jobs, const std::vector<JobRef>& after = {});
  /// Emits one job for every member of a communicator that takes these steps (pass_course.h). @pre !not_composed(communicator)
  /// @param steps  each collective has taken its turn
  /// @param launches  none, of one host for all members, or of a host for each
  /// @param jobs   set to the members' jobs
  /// @param after  as for a collective, before the first step
  /// @param memory  of earlier courses of the communicator with the same chains of kernels; null: none
  void course(Communicator& communicator, const std::vector<CourseStep>& steps,
              const std::vector<CourseLaunches>& launches, JobClient& client, std::vector<JobRef>& jobs,
              const std::vector<JobRef>& after, CourseMemory* memory = nullptr);
  /// Of the collective of a step, as if it were emitted now.
  void take_turn(CourseStep& step) {
    step.turn = fabric_.calendar().take_turns(collective::Collective::turns(step.communicator->group()));
  }
  /// Why no pass of these ranks can be composed, so that jobs are to be emitted; null: it may be.
  const char* not_composed(const Communicator& communicator);
  /// Counts a pass on a stage that has not been composed.
  void count_pass(const char* reason) { ++not_composed_[reason]; }
  /// Sends messages from the rank's memory, or reads other memories into it; no job runs there. @pre the rank has a
  /// memory
  JobRef copy(Rank& rank, gpu::Stream& stream, Copy copy, const JobLabel& label, JobClient& client,
              const std::vector<JobRef>& after = {});
  /// The two sides of a transfer between members of a communicator, in its streams, like ncclSend() and ncclRecv().
  /// They are matched by sender, receiver and tag, in the order of their emission; either side can come first. Bytes
  /// are sent when both sides have begun. Both sides are done when the last byte has arrived. With a copy engine, the
  /// sender leaves its stream when the message is posted; the receiver occupies its stream until arrival. With SMs,
  /// both sides occupy their streams and the SMs of NCCL's kernels.
  JobRef send(Communicator& communicator, const Exchange& exchange, const JobLabel& label, JobClient& client,
              const std::vector<JobRef>& after = {}) {
    return exchange_side(communicator, exchange, true, label, client, after);
  }
  JobRef receive(Communicator& communicator, const Exchange& exchange, const JobLabel& label, JobClient& client,
                 const std::vector<JobRef>& after = {}) {
    return exchange_side(communicator, exchange, false, label, client, after);
  }
  /// Also if there is no job.
  static bool is_done(const JobRef& of) { return of.job == nullptr || of.job->generation_ != of.generation; }
  /// Writes a row for a unit of work that consists of several jobs.
  void record(const JobRecord& record) { sink_.on_job(record); }

  /// Call before the first job. Both listeners must outlive the run.
  void follow(JobListener& jobs, collective::CauseListener& causes) {
    listener_ = &jobs;
    collectives_.follow(causes);
  }
  // Events that generators report to the listener: gates that they count themselves, and metrics (job_listener.h).
  void reached(const void* owner, std::uint32_t gate) const {
    if (listener_ != nullptr) listener_->on_reached(owner, gate);
  }
  void passed(const void* owner, std::uint32_t gate) const {
    if (listener_ != nullptr) listener_->on_passed(owner, gate);
  }
  void composed(const void* owner, std::uint32_t ready, const std::vector<std::uint32_t>& taken,
                const std::vector<std::uint32_t>& reserved, bool has_others) const {
    if (listener_ != nullptr) listener_->on_composed(owner, ready, taken, reserved, has_others);
  }
  void arrived(std::optional<std::uint32_t> after) const {
    if (listener_ != nullptr) listener_->on_arrived(after);
  }
  void answered(std::uint32_t request, std::uint32_t awaiting) const {
    if (listener_ != nullptr) listener_->on_answered(request, awaiting);
  }
  void measure(const char* metric, std::uint32_t number) const {
    if (listener_ != nullptr) listener_->on_measure_begun(metric, number);
  }
  void held(const char* metric, std::uint32_t number, Time since) const {
    if (listener_ != nullptr) listener_->on_held(metric, number, since);
  }
  void measured(const char* metric, std::uint32_t number, std::uint32_t parts = 1) const {
    if (listener_ != nullptr) listener_->on_measured(metric, number, parts);
  }

  /// Before the first job: members of a collective enter it together, when the last of them is ready. Otherwise each
  /// enters by itself. Then small differences between members last from one collective to the next: no collective equals
  /// an earlier one, and none is replayed. A member that enters early sends at most what its peers' buffers take.
  void members_begin_together() { members_begin_together_ = true; }
  bool begin_together() const { return members_begin_together_; }
  /// Before the first job: replays no collective, not even where communicators allow it. Results are the same.
  void simulate_every_collective() { replays_ = false; }
  /// The same for collectives that cross one of these links: a recording that was recorded before a link changes is wrong after.
  void simulate_collectives_over(std::vector<transport::LinkEnd> links) { changing_ = std::move(links); }
  bool replays() const { return replays_; }
  /// Before the first job: composes no pass. Results are the same. @param why  for the results
  void simulate_every_pass(const char* why) { why_not_composed_ = why; }
  /// The speeds of GPUs change at these instants. No pass is composed across one of them.
  void gpus_change_at(std::vector<Time> instants);

  transport::Fabric& fabric() { return fabric_; }
  std::size_t live() const { return live_; }
  /// Jobs that have been run, and those that have been composed instead.
  std::uint64_t jobs() const { return jobs_; }
  std::uint64_t composed_jobs() const { return composed_; }
  /// Passes on a stage, most of whose jobs have been composed; and others, by reason.
  std::uint64_t composed_passes() const { return composed_passes_; }
  const std::map<std::string, std::uint64_t>& passes_not_composed() const { return not_composed_; }
  /// For a stall report: collectives whose CTAs wait for SMs, the jobs that hold these SMs, and a cycle among them.
  std::vector<std::string> sm_waits() const;
  /// For a stall report: the front job of every stream that is not empty, and what this job waits for; then copies with
  /// bytes that have not arrived; then sm_waits().
  std::vector<std::string> blocked() const;

 private:
  friend class Job;
  friend class PassCourse;
  struct Run {
    std::vector<Job*> jobs;            ///< by member; null: not emitted
    std::vector<std::uint32_t> ready;  ///< members that wait for the others to enter with them
    collective::Collective* collective = nullptr;
    JobLabel label;
    std::uint32_t rank = 0;  ///< of the first member
    JobClient* client = nullptr;
    PassCourse* course = nullptr;  ///< null: every member has a job of its own
  };
  Job& acquire(Job::Kind kind, Rank& rank, gpu::Stream& stream, const JobLabel& label, JobClient& client);
  JobRef keep(Job::Kind kind, Rank& rank, gpu::Stream& stream, Time duration, const JobLabel& label, JobClient& client,
              const std::vector<JobRef>& after);
  JobRef exchange_side(Communicator& communicator, const Exchange& exchange, bool sends, const JobLabel& label,
                       JobClient& client, const std::vector<JobRef>& after);
  /// A new collective; no member has a job yet.
  std::uint32_t begin_run(Communicator& communicator, const collective::CollectiveSpec& spec, const JobLabel& label,
                          JobClient& client, std::optional<std::uint64_t> first_turn = std::nullopt);
  /// The job of a member; push() puts it into its stream.
  Job& add_member(std::uint32_t run, std::uint32_t member, Rank& rank, gpu::Stream& stream, const JobLabel& label,
                  JobClient& client);
  /// A member is ready to enter its collective: it enters now, or when its peers are ready, too.
  void enter(const Job& last);
  void write(const Job& job);
  void end_course(PassCourse& course, bool is_composed);
  JobRef push(Job& job, const std::vector<JobRef>& after);
  void release(Job& job);
  static void depend(Job& job, const JobRef& on);
  static JobRef ref(Job& job) { return {&job, job.generation_}; }

  void on_member_done(collective::Collective& collective, std::uint32_t member) override;
  void on_collective_done(collective::Collective& collective) override;
  bool on_cut_off(const collective::Collective& collective, std::uint32_t member) override;
  bool on_replay(collective::Collective& collective) override;
  std::string name_of(const collective::Collective& collective) const override;

  transport::Fabric& fabric_;
  JobSink& sink_;
  std::deque<Rank> ranks_;
  collective::CollectivePool collectives_;
  std::deque<Job> storage_;
  std::vector<Job*> free_;
  /// Sides of exchanges whose other side has not been emitted yet, in the order of their emission.
  struct Unmatched {
    JobRef job;
    bool sends = false;
    Bytes bytes = 0;
    std::uint32_t run = 0;  ///< the collective of an exchange by SMs
  };
  using ExchangeKey = std::tuple<const Communicator*, std::uint32_t, std::uint32_t, std::uint64_t>;
  std::map<ExchangeKey, std::deque<Unmatched>> unmatched_;
  std::deque<Run> runs_;
  std::vector<std::uint32_t> free_runs_;
  std::size_t live_ = 0;
  std::uint64_t jobs_ = 0, composed_ = 0, composed_passes_ = 0;
  std::map<std::string, std::uint64_t> not_composed_;
  std::vector<std::unique_ptr<PassCourse>> courses_;
  std::vector<PassCourse*> free_courses_;
  JobListener* listener_ = nullptr;
  bool replays_ = true;
  /// Null: the collectives of this communicator are simulated.
  collective::ReuseTable* reuse_of(const Communicator& communicator);

  /// The next instant at which a GPU changes; max: none.
  Time unchanged_until() const;

  bool members_begin_together_ = false;
  const char* why_not_composed_ = nullptr;  ///< null: passes may be composed
  std::vector<Time> gpu_changes_;           ///< in order
  std::vector<transport::LinkEnd> changing_;
  std::map<const collective::ReuseTable*, bool> crosses_changing_;
};

}  // namespace railyard::execution
