#include "workload/kernel_test/kernel_test.h"

namespace railyard::workload::kernel_test {

KernelTest::KernelTest(const KernelTestSpec& spec, const std::vector<gpu::Gpu*>& gpus, transport::Fabric& fabric,
                       JobSink& sink)
    : spec_(spec),
      fabric_(fabric),
      dispatcher_(fabric),
      sink_(sink),
      results_(gpus.size()),
      finished_(gpus.size()),
      left_(spec.kernels.size() * gpus.size()) {
  for (std::uint32_t g = 0; g < gpus.size(); ++g) {
    ranks_.emplace_back().gpu = gpus[g];
    results_[g].reserve(spec.kernels.size());
    for (const gpu::KernelSpec& kernel : spec.kernels)
      results_[g].push_back({gpu::kernel_time(gpus[g]->datasheet(), kernel), Time()});
  }
}

void KernelTest::start() {
  for (std::uint32_t gpu = 0; gpu < ranks_.size(); ++gpu) run_next(gpu);
}

void KernelTest::run_next(std::uint32_t gpu) {
  RankDevice& device = ranks_[gpu];
  const std::size_t number = finished_[gpu];
  const gpu::KernelTime& time = results_[gpu][number].formula;
  JobTag tag;
  tag.run = static_cast<std::uint32_t>(number);
  tag.tp = static_cast<std::uint16_t>(gpu);
  dispatcher_.kernel(device, device.compute, gpu::chain_of(time), tag, *this);
}

void KernelTest::on_job_done(const Job& job) {
  const std::uint32_t gpu = job.tag().tp;
  JobRecord record;
  record.kind = JobRecord::Kind::kernel_test;
  record.rank = gpu;
  record.index = job.tag().run;
  record.start = job.begun_at();
  record.end = fabric_.now();
  sink_.on_job(record);
  results_[gpu][finished_[gpu]++].elapsed = record.end - record.start;
  --left_;
  if (finished_[gpu] < spec_.kernels.size()) run_next(gpu);
}

std::string KernelTest::label(const Job& job) const { return gpu::name_of(spec_.kernels[job.tag().run].op); }

}  // namespace railyard::workload::kernel_test
