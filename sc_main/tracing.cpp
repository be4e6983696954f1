#include "sc_main/tracing.h"

#include "workload/job.h"
#include "workload/prefill/passes.h"

namespace railyard {

namespace {

probe::Waveform::Config config(const Options& options, const std::string& path) {
  probe::Waveform::Config c;
  c.path = path;
  switch (options.vcd_level) {
    case VcdLevel::summary: c.level = probe::Waveform::Level::summary; break;
    case VcdLevel::links: c.level = probe::Waveform::Level::links; break;
    case VcdLevel::all: c.level = probe::Waveform::Level::all; break;
  }
  c.window.from = options.vcd_from;
  c.window.to = options.vcd_to;
  c.window.filters = options.vcd_filters;
  c.class_names.assign(kTrafficClassNames.begin(), kTrafficClassNames.end());
  return c;
}

const workload::Job& job(const gpu::Task& task) { return static_cast<const workload::Job&>(task); }
std::string job_label(const gpu::Task& task) { return workload::prefill::Passes::label(job(task)); }

}  // namespace

Tracing::Tracing(const Options& options, const std::string& path, Simulation& simulation) : waveform_(config(options, path)) {
  waveform_.attach(simulation.fabric());
  for (std::uint32_t g = 0; g < simulation.machine().gpus(); ++g) waveform_.attach(simulation.machine().gpu(GpuId(g)));
  const workload::prefill::PrefillSide& prefill = simulation.system().prefill();
  attach(simulation.system().prefill_grid(), [&prefill](const gpu::Task& task) { return prefill.work_label(job(task)); });
  attach(simulation.system().decode_grid(), [](const gpu::Task& task) { return workload::prefill::DecodeSide::work_label(job(task)); });
  waveform_.start();
}

void Tracing::attach(workload::prefill::Grid& grid, const probe::Waveform::TaskLabel& work) {
  for (std::uint32_t r = 0; r < grid.ranks(); ++r) {
    workload::RankDevice& device = grid.rank(r);
    const std::string prefix = std::string(device.gpu->name()) + ".stream.";
    waveform_.attach(device.compute, prefix + "compute", job_label, work);
    waveform_.attach(device.pp, prefix + "pp", job_label, work);
    waveform_.attach(device.kv, prefix + "kv", job_label, work);
  }
}

}  // namespace railyard
