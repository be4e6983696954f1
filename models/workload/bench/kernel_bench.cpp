#include "workload/bench/kernel_bench.h"

#include <fmt/format.h>

#include "gpu/datasheet.h"

namespace railyard::workload::kernel_bench {

KernelBench::KernelBench(const KernelBenchSpec& spec, const std::vector<Rank*>& ranks, Executor& executor)
    : spec_(spec),
      executor_(executor),
      ranks_(ranks),
      results_(ranks.size()),
      finished_(ranks.size()),
      left_(spec.kernels.size() * ranks.size()) {
  for (std::uint32_t g = 0; g < ranks.size(); ++g) {
    results_[g].reserve(spec.kernels.size());
    for (const gpu::KernelSpec& kernel : spec.kernels)
      results_[g].push_back({gpu::kernel_time(ranks[g]->gpu->datasheet(), kernel), Time()});
  }
}

void KernelBench::start() {
  for (std::uint32_t gpu = 0; gpu < ranks_.size(); ++gpu) run_next(gpu);
}

void KernelBench::run_next(std::uint32_t gpu) {
  const auto number = static_cast<std::uint32_t>(finished_[gpu]);
  executor_.kernel(*ranks_[gpu], ranks_[gpu]->stream(0), gpu::chain_of(results_[gpu][number].formula),
                   JobLabel::of(*this, Fields{number, gpu}), *this);
}

void KernelBench::on_job_done(const Job& job) {
  const std::uint32_t gpu = job.label().as<Fields>().gpu;
  results_[gpu][finished_[gpu]++].elapsed = executor_.fabric().now() - job.begun_at();
  --left_;
  if (finished_[gpu] < spec_.kernels.size()) run_next(gpu);
}

std::string KernelBench::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  return fmt::format("Kernel[{}]_GPU[{}]", f.kernel, f.gpu);
}

std::string KernelBench::task(std::uint64_t arguments) const {
  return gpu::name_of(spec_.kernels[JobLabel::fields_of<Fields>(arguments).kernel].op);
}

}  // namespace railyard::workload::kernel_bench
