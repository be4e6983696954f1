// workload.kind: collective: nccl-tests on the simulated machine. One size after another, each on a quiet fabric: every
// rank enters the collective (later by its skew), again and again if there are several iterations, back to back as from
// a stream.
//
// Time of a size, as nccl-tests has it: from the last rank's entry until the last rank is done, per iteration. algbw =
// size / time; busbw = algbw times what the busiest link of an ideal algorithm carries of each byte: 2(n-1)/n for an
// all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for broadcast and send/recv (NVIDIA/nccl-tests
// doc/PERFORMANCE.md).
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "collective/tuner.h"
#include "workload/collective_test/spec.h"
#include "workload/job.h"
#include "workload/job_record.h"
#include "workload/quiet.h"
#include "workload/rank_set.h"
#include "workload/traffic.h"

namespace railyard::workload::collective_test {

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
/// The collective that runs for a size: what was forced, the rest by the library's rule.
collective::CollectiveSpec plan(const CollectiveTestSpec& test, const collective::Group& group,
                                const collective::Site& site, Bytes bytes);

class CollectiveTest : private JobClient, private QuietClient {
 public:
  /// @param gpus  by rank
  CollectiveTest(const CollectiveTestSpec& spec, const std::vector<gpu::Gpu*>& gpus, transport::Fabric& fabric,
                 JobSink& sink);

  void start() { run_next(); }
  bool done() const { return finished_.size() == spec_.sizes.size(); }
  /// In the order of the sizes.
  const std::vector<SizeResult>& finished() const { return finished_; }
  /// What runs for a size.
  collective::CollectiveSpec plan(Bytes bytes) const {
    return collective_test::plan(spec_, ranks_.group, ranks_.site, bytes);
  }
  const collective::Group& group() const { return ranks_.group; }
  std::uint32_t ranks() const { return ranks_.size(); }
  RankDevice& rank(std::uint32_t r) { return *ranks_.devices[r]; }
  Dispatcher& dispatcher() { return dispatcher_; }
  std::vector<std::string> blocked() const;
  /// What a job is, in a word or two: for waveforms.
  static std::string label(const Job& job);

 private:
  void run_next();
  void on_quiet() override { run_next(); }
  void on_job_begun(const Job&) override {}
  void on_job_done(const Job&) override {}
  void on_collective_done(const collective::Collective& collective, const JobTag& tag) override;
  std::string name_of(JobKind, const JobTag& tag) const override { return record_of(tag).name(); }
  /// What is known of an iteration when it begins.
  JobRecord record_of(const JobTag& tag) const;

  CollectiveTestSpec spec_;
  transport::Fabric& fabric_;
  Dispatcher dispatcher_;
  JobSink& sink_;
  RankSet ranks_;
  QuietWaiter quiet_;
  SizeResult current_;
  std::vector<SizeResult> finished_;
  std::vector<JobRef> jobs_;  // kept to spare allocations
};

}  // namespace railyard::workload::collective_test
