// workload.kind: kernel: kernels that run one after the other, each alone on its GPU. One GPU of each group runs the
// list. GPUs do not influence each other.
//
// The time of a kernel is given by its formula (gpu/kernels/kernel_spec.h). It elapses on the SM array, so the result
// shows events that slow the GPU.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "gpu/kernels/kernel_spec.h"
#include "workload/bench/kernel_spec.h"
#include "workload/jobs.h"

namespace railyard::workload::kernel_bench {

struct KernelResult {
  gpu::KernelTime formula;
  Time elapsed;  ///< measured time of a finished kernel
};

class KernelBench final : private JobClient, private JobNamer {
 public:
  /// @pre every GPU has a tensor rate for the data type of every GEMM
  /// @param ranks  one for each GPU, numbered from 0, each with a stream
  KernelBench(const KernelBenchSpec& spec, const std::vector<Rank*>& ranks, Executor& executor);

  void start();
  bool done() const { return left_ == 0; }
  /// Number of finished kernels on all GPUs.
  std::size_t finished() const { return spec_.kernels.size() * ranks_.size() - left_; }
  /// Results of one GPU in the order of the list: all of them, and the number that are finished.
  const std::vector<KernelResult>& results(std::uint32_t gpu) const { return results_[gpu]; }
  std::size_t finished(std::uint32_t gpu) const { return finished_[gpu]; }

 private:
  void run_next(std::uint32_t gpu);
  void on_job_done(const Job& job) override;
  // Kernel[i]_GPU[g]: kernel i of the list, on the GPU of group g.
  struct Fields {
    std::uint32_t kernel, gpu;
  };
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "test"; }
  Recorded recorded(std::uint64_t) const override { return Recorded::stage; }

  const KernelBenchSpec& spec_;
  Executor& executor_;
  std::vector<Rank*> ranks_;
  std::vector<std::vector<KernelResult>> results_;  // by GPU
  std::vector<std::size_t> finished_;               // by GPU
  std::size_t left_;
};

}  // namespace railyard::workload::kernel_bench
