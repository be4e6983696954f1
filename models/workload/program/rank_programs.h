// The room `program` has RankPrograms: what a framework issues on each rank, job after job, on streams with a host that
// launches. Training, layers and benches add kernels, collectives and waits; RankPrograms emits them as jobs in order.
//
// The programs of ranks: what a framework issues on each rank, job after job, into the compute streams of their GPUs.
//
//   programs.wait_for(rank, received);                       // the next job of the rank begins after this one
//   programs.kernels(rank, chain, 7, label);                 // 7 kernels in one job
//   programs.collective(tp, Operation::all_reduce, bytes, label);
//   programs.start(dp, Operation::reduce_scatter, bytes, label, ends);  // in another stream, beside the programs
//
// A framework that launches eagerly issues kernels and collectives one by one, in program order. Each takes the host of
// its rank `host_us`, and a job begins when the host has launched all of its kernels. The host runs ahead of the GPU,
// unless the program makes the host wait for jobs (wait_on_host()).
//
// announce() says of a communicator that it begins collectives only where programs have come to, so that collectives on links that
// it uses, too, are replayed before (collective/reuse.h).
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "workload/jobs.h"
#include "workload/program/next_sends.h"

namespace railyard::workload {

class RankPrograms {
 public:
  /// How the hosts of the ranks launch kernels.
  struct Host {
    double launch_us = 0;                               ///< of a kernel or collective; 0: the host takes no time
    std::size_t stream = 0;                             ///< of a rank's host
    std::function<JobLabel(std::uint32_t rank)> label;  ///< of its launches
  };

  /// @param compute  the stream of the programs
  /// @param client   of all jobs; calls done() or host_waited() when one of them ends
  RankPrograms(std::vector<Rank*> ranks, std::size_t compute, Host host, Executor& executor, JobClient& client);

  /// The latest job of a rank's program.
  const JobRef& last(std::uint32_t rank) const { return states_[rank].last; }
  /// The jobs for which the rank's next job waits.
  std::vector<JobRef>& waits(std::uint32_t rank) { return states_[rank].waits; }
  /// No job: no wait.
  void wait_for(std::uint32_t rank, JobRef job) {
    if (job.job != nullptr) states_[rank].waits.push_back(job);
  }
  void wait_for(std::uint32_t rank, const std::vector<JobRef>& jobs) {
    states_[rank].waits.insert(states_[rank].waits.end(), jobs.begin(), jobs.end());
  }

  /// @param launches  of the host; 0: the kernels are launched already
  void kernels(std::uint32_t rank, const gpu::SharedChain& chain, std::uint32_t launches, const JobLabel& label);
  /// @pre the communicator runs in the stream of the programs
  void collective(Communicator& communicator, const collective::CollectiveSpec& spec, const JobLabel& label);
  void collective(Communicator& communicator, collective::Operation operation, Bytes bytes, const JobLabel& label) {
    collective(communicator, communicator.choose(operation, bytes), label);
  }
  /// Kernels and collectives of a communicator's members, one after the other, as if each step were emitted by kernels() or
  /// collective(); but the executor may compose them. @pre as Executor::course()
  /// @param launches  of the host, by step
  void course(Communicator& communicator, std::vector<execution::CourseStep>& steps,
              const std::vector<std::uint32_t>& launches, execution::CourseMemory& memory);
  /// Steps of a course have been composed on a rank. @param least  times of their kernels: least_time()
  /// @param next  begin of the step after them
  void composed(std::uint32_t rank, std::uint32_t steps, Time least, Time next);
  /// Kernels beside the programs, in another stream of the rank.
  JobRef kernels_beside(std::uint32_t rank, std::size_t stream, const gpu::SharedChain& chain, const JobLabel& label,
                        const std::vector<JobRef>& after);
  /// A collective beside the programs. @param after  as in Executor::collective()
  /// @param places  in the members' programs, before which they do not begin it; none: behind all that these have by now
  /// @return the jobs of its members, until the next call
  const std::vector<JobRef>& start(Communicator& communicator, const collective::CollectiveSpec& spec,
                                   const JobLabel& label, const std::vector<JobRef>& after = {},
                                   const std::vector<Time>& places = {});
  const std::vector<JobRef>& start(Communicator& communicator, collective::Operation operation, Bytes bytes,
                                   const JobLabel& label, const std::vector<JobRef>& after = {},
                                   const std::vector<Time>& places = {}) {
    return start(communicator, communicator.choose(operation, bytes), label, after, places);
  }
  /// If the communicator is announced, the send waits for the rank's latest job.
  JobRef send(Communicator& pair, const execution::Exchange& exchange, const JobLabel& label,
              const std::vector<JobRef>& after);
  /// @param place  in the rank's program, before which it does not begin
  JobRef receive(Communicator& pair, const execution::Exchange& exchange, const JobLabel& label,
                 const std::vector<JobRef>& after, Time place = Time());
  /// Messages from a rank's memory, in one of its streams.
  JobRef copy(std::uint32_t rank, std::size_t stream, execution::Copy copy, const JobLabel& label,
              const std::vector<JobRef>& after);
  /// The same from a memory that is not a rank's of the programs, such as a CPU socket's.
  JobRef copy(Rank& from, gpu::Stream& stream, execution::Copy copy, const JobLabel& label,
              const std::vector<JobRef>& after);
  /// Work of a CPU beside the programs and their launches.
  JobRef host_work(Rank& host, gpu::Stream& stream, Time duration, const JobLabel& label,
                   const std::vector<JobRef>& after);
  /// A time in which a rank's stream does nothing.
  JobRef delay(std::uint32_t rank, std::size_t stream, Time duration, const JobLabel& label,
               const std::vector<JobRef>& after);
  /// The host launches so many kernels of a rank, after all that it launches so far.
  /// @return its job; none if the kernels were launched long ago
  JobRef launch(std::uint32_t rank, std::uint32_t kernels) { return take_host(rank, launch_time(kernels)); }
  /// The host of a rank needs a time before it launches what follows.
  /// @return its job; none if that was over long ago
  JobRef take_host(std::uint32_t rank, Time duration);
  /// The latest jobs of the members' programs, for collectives that start after them.
  std::vector<JobRef> last_of(const Communicator& communicator) const;

  /// The host waits for the jobs, then goes on to launch kernels. The last of `jobs` becomes the wait.
  void wait_on_host(std::uint32_t rank, std::vector<JobRef>& jobs, const JobLabel& label);
  bool host_launches() const { return host_.launch_us > 0; }

  /// Before the first job: all collectives of this communicator are started here, and its jobs are told to begun() and done(). What
  /// has not been started yet will wait for all jobs that the members' programs have by now.
  /// @param one_way  sends from the first member to the second; these wait for the program of the first one
  void announce(Communicator& communicator, bool one_way = false);
  /// Messages of announced communicators.
  void add_announced(std::vector<collective::OtherTraffic>& all);
  /// The latest place in the program of a rank.
  Time place(std::uint32_t rank) const { return states_[rank].clock.work(); }
  /// A job of a program, or of an announced communicator, has begun. @param by  null: none of these
  void begun(const Job& job, const Communicator* by);
  /// The same when it has ended, before done().
  void ended(const Job& job, const Communicator* by);

  /// A job has ended.
  void done() { --live_; }
  /// A job of wait_on_host() has ended.
  void host_waited(std::uint32_t rank);
  /// Jobs that are emitted and not done.
  std::int64_t live() const { return live_; }

 private:
  struct State {
    ProgramClock clock;
    JobRef last;
    std::vector<JobRef> waits;
    Time launched;                 ///< when the host has launched all that is emitted; without what is queued
    Time queued;                   ///< launches after the last wait of the host
    std::uint32_t waits_left = 0;  ///< jobs of wait_on_host() that are not done
  };
  bool is_of_program(const Job& job) const { return &job.stream() == &ranks_[job.rank().number]->stream(compute_); }
  NextSends* announced(const Communicator& communicator);
  Time launch_time(std::uint32_t kernels) const { return Time::seconds(kernels * host_.launch_us * 1e-6); }
  /// Of work of a host: how long it still takes. Zero: it was over long ago.
  Time add_to_host(State& state, Time duration);
  /// Jobs for which the members' programs wait, as Executor::collective() takes them.
  std::vector<JobRef> waits_of(const Communicator& communicator) const;
  /// The members have emitted these jobs of their programs.
  void emitted(const Communicator& communicator);

  std::vector<Rank*> ranks_;
  const std::size_t compute_;
  const Host host_;
  Executor& executor_;
  JobClient& client_;
  std::vector<State> states_;  ///< by rank
  std::int64_t live_ = 0;
  struct Announced {
    const Communicator* communicator;
    bool one_way;
    NextSends sends;
  };
  std::deque<Announced> announced_;
  std::unordered_map<const Communicator*, NextSends*> sends_of_;  ///< of these
  std::vector<JobRef> jobs_;                                      ///< kept to avoid allocations
};

}  // namespace railyard::workload
