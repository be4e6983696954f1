// The room `bench` has drivers of one thing at a time, each with its spec: CollectiveBench (nccl-tests), PointToPoint
// (pairs of memories), KernelBench, Layer (one transformer layer) and OverlapBench (a product and a collective by
// several methods). Each emits jobs, waits until the machine is quiet, and keeps a result for each size or method. The
// run of its kind in sc_main owns it.
//
// workload.kind: collective: nccl-tests on the simulated machine. Sizes run
// one after the other, each on quiet links. Every rank enters the collective,
// after its skew if it has one. Iterations run back to back, as in a stream.
//
// The time of a size is defined as in nccl-tests: from the entry of the last rank to the end of the last rank, divided
// by the iterations. algbw = size / time. busbw = algbw times the share of each byte on the busiest link of an ideal
// algorithm: 2(n-1)/n for an all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for broadcast, reduce and
// send/recv (NVIDIA/nccl-tests doc/PERFORMANCE.md).
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "transport/study/fidelity_choice.h"
#include "workload/bench/collective_spec.h"
#include "workload/jobs.h"

namespace railyard::workload::collective_bench {

/// The measured times of a size.
struct SizeResult {
  collective::CollectiveSpec spec;    ///< the spec with which it ran
  Time first_entry, last_entry, end;  ///< of the first iteration; end of the last iteration
  std::uint32_t iterations = 0;       ///< number of finished iterations

  Time time() const { return Time::fs((end - last_entry).fs() / iterations); }
  double algbw_gb_per_s() const { return static_cast<double>(spec.bytes) / time().seconds() * 1e-9; }
};

/// busbw divided by algbw.
double busbw_factor(collective::Operation operation, std::uint32_t ranks);
/// Elements in the column "count". For all-gather, reduce-scatter and all-to-all: elements in one rank's part.
std::uint64_t count(collective::Operation operation, ElementType type, Bytes bytes, std::uint32_t ranks);
/// Forced properties, for every size; the library's rules choose the rest.
collective::CollectiveRequest request_of(const CollectiveBenchSpec& test);

class CollectiveBench final : private JobClient, private JobNamer {
 public:
  /// @param ranks  those that run; each has a stream for the collectives
  CollectiveBench(const CollectiveBenchSpec& spec, const std::vector<Rank*>& ranks, Executor& executor);

  void start();
  bool done() const { return finished_.size() == spec_.sizes.size(); }
  /// Results in the order of the sizes.
  const std::vector<SizeResult>& finished() const { return finished_; }
  /// Algorithm, protocol and channels for a size.
  const collective::CollectiveSpec& plan(Bytes bytes) { return communicator_.choose(spec_.operation, bytes); }
  const collective::Group& group() const { return communicator_.group(); }
  /// Of the whole test, if it is folded.
  std::uint32_t ranks() const { return communicator_.members(); }
  /// Bytes between servers of all sizes and iterations, from the ranks that run.
  collective::NetworkTraffic network_traffic();

 private:
  void run_next();
  void on_job_done(const Job& job) override;
  void on_collective_done(const collective::Collective& collective, const JobLabel& label) override;
  /// An iteration; the delay of a late rank before it enters; the wait before the next size.
  enum What : std::uint32_t { kIteration, kSkew, kQuiet };
  // AR_Bytes[b]_It[i]: an iteration; AG, RS, BC, A2A, SR in place of AR.
  struct Fields {
    std::uint32_t iteration;
    std::uint32_t what;
  };
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "test"; }
  Recorded recorded(std::uint64_t arguments) const override;

  CollectiveBenchSpec spec_;
  Executor& executor_;
  Communicator communicator_;
  SizeResult current_;
  std::vector<SizeResult> finished_;
  std::vector<JobRef> jobs_;  // kept to avoid allocations
};

}  // namespace railyard::workload::collective_bench
