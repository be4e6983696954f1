// workload.kind: kernel: kernels timed one after another, each alone on its GPU. Several GPUs (one of each group) run the same
// list beside each other, without meeting.
//
// A kernel's time is the formula's (gpu/kernels/kernel_spec.h) as it elapses on the SM array, so that an event which slows
// the GPU down shows.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "gpu/kernels/kernel_spec.h"
#include "workload/job.h"
#include "workload/job_record.h"
#include "workload/kernel_test/spec.h"

namespace railyard::workload::kernel_test {

struct KernelResult {
  gpu::KernelTime formula;
  Time elapsed;  ///< of one that is over
};

class KernelTest : private JobClient {
 public:
  /// @pre every GPU has a tensor rate for the data type of every GEMM
  KernelTest(const KernelTestSpec& spec, const std::vector<gpu::Gpu*>& gpus, transport::Fabric& fabric, JobSink& sink);

  void start();
  bool done() const { return left_ == 0; }
  /// Kernels over, on all GPUs.
  std::size_t finished() const { return spec_.kernels.size() * ranks_.size() - left_; }
  /// Of a GPU, in the order of the list: all of them, and how many are over.
  const std::vector<KernelResult>& results(std::uint32_t gpu) const { return results_[gpu]; }
  std::size_t finished(std::uint32_t gpu) const { return finished_[gpu]; }
  RankDevice& rank(std::uint32_t gpu) { return ranks_[gpu]; }
  Dispatcher& dispatcher() { return dispatcher_; }
  /// What a job is, in a word or two: for waveforms.
  std::string label(const Job& job) const;

 private:
  void run_next(std::uint32_t gpu);
  void on_job_begun(const Job&) override {}
  void on_job_done(const Job& job) override;
  void on_collective_done(const collective::Collective&, const JobTag&) override {}

  const KernelTestSpec& spec_;
  transport::Fabric& fabric_;
  Dispatcher dispatcher_;
  JobSink& sink_;
  std::deque<RankDevice> ranks_;
  std::vector<std::vector<KernelResult>> results_;  // by GPU
  std::vector<std::size_t> finished_;               // by GPU
  std::size_t left_;
};

}  // namespace railyard::workload::kernel_test
