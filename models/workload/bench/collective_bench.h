// workload.kind: collective: nccl-tests on the simulated machine. Sizes run one after the other, each on a quiet fabric. Every rank
// enters the collective, later by its skew if it has one; several iterations follow each other back to back, as from a stream.
//
// The time of a size is that of nccl-tests: from the entry of the last rank until the last rank is done, per iteration. algbw =
// size / time. busbw = algbw times what the busiest link of an ideal algorithm carries of each byte: 2(n-1)/n for an
// all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for broadcast and send/recv (NVIDIA/nccl-tests
// doc/PERFORMANCE.md).
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "workload/bench/collective_spec.h"
#include "workload/jobs.h"

namespace railyard::workload::collective_bench {

/// What a size took.
struct SizeResult {
  collective::CollectiveSpec spec;    ///< as it was run
  Time first_entry, last_entry, end;  ///< of the first iteration; of the last one
  std::uint32_t iterations = 0;       ///< done

  Time time() const { return Time::fs((end - last_entry).fs() / iterations); }
  double algbw_gb_per_s() const { return static_cast<double>(spec.bytes) / time().seconds() * 1e-9; }
};

/// busbw over algbw.
double busbw_factor(collective::Operation operation, std::uint32_t ranks);
/// Elements in the column "count": of an all-gather, reduce-scatter or all-to-all, those of one rank's part.
std::uint64_t count(collective::Operation operation, ElementType type, Bytes bytes, std::uint32_t ranks);
/// What is forced, for every size; the library's rules choose the rest.
collective::Request request_of(const CollectiveBenchSpec& test);

class CollectiveBench : private JobClient, private JobNamer {
 public:
  /// @param ranks  each with a stream for the collectives
  CollectiveBench(const CollectiveBenchSpec& spec, const std::vector<Rank*>& ranks, Executor& executor);

  void start();
  bool done() const { return finished_.size() == spec_.sizes.size(); }
  /// In the order of the sizes.
  const std::vector<SizeResult>& finished() const { return finished_; }
  /// What runs for a size.
  const collective::CollectiveSpec& plan(Bytes bytes) { return communicator_.choose(spec_.operation, bytes); }
  const collective::Group& group() const { return communicator_.group(); }
  std::uint32_t ranks() const { return communicator_.size(); }

 private:
  void run_next();
  void on_job_done(const Job& job) override;
  void on_collective_done(const collective::Collective& collective, const JobLabel& label) override;
  /// An iteration; what a late rank does before it enters; the wait before the next size.
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
  std::vector<JobRef> jobs_;  // kept to spare allocations
};

}  // namespace railyard::workload::collective_bench
