#include "probe/timeline.h"

#include <algorithm>

#include "gpu/datasheet.h"
#include "transport/assembly.h"

namespace railyard::probe {

Timeline::Timeline(const Config& config, transport::Assembly& fabric)
    : fabric_(fabric),
      file_(config.path),
      requests_(file_),
      engines_(file_),
      large_(config.large),
      longest_window_(config.large ? WindowCounter::kLongestOfMany : WindowCounter::kLongest),
      jobs_process_(file_.process("jobs")),
      streams_(file_, fabric, config.class_names),
      links_(file_, config.class_names, config.large) {
  fabric.add_listener(*this);
}

void Timeline::attach(gpu::Gpu& gpu, const std::string& label) {
  gpu.sms().add_listener(gpus_.emplace_back(*this, file_.process(gpu.name(), label), gpu.datasheet()));
}

void Timeline::attach(gpu::Stream& stream, const std::string& name, TaskLabel job, TaskLabel work) {
  streams_.attach(stream, name, std::move(job), std::move(work));
}

void Timeline::on_job(const execution::JobRecord& record) {
  const std::string name = record.name();
  const std::string pattern = name.substr(0, name.find('['));
  Lanes& lanes = job_lanes_[{pattern, record.rank}];
  if (!lanes.made()) lanes = Lanes(jobs_process_, pattern + " rank " + std::to_string(record.rank));
  const TraceTrack track = lanes.place(file_.events, record.start, record.end);
  file_.events.slice(track, record.kind(), name, record.start, record.end, {{"bytes", record.bytes}});
}

Timeline::GpuProbe::GpuProbe(Timeline& timeline, std::uint32_t number, const gpu::GpuDatasheet& sheet)
    : owner(timeline),
      process(number),
      sms(timeline.file_.events, number, "SMs", "active", WindowCounter::Of::mean, timeline.longest_window_),
      hbm(timeline.file_.events, number, "HBM", "GB/s", WindowCounter::Of::mean, timeline.longest_window_),
      power(timeline.file_.events, number, "power", "W", WindowCounter::Of::mean, timeline.longest_window_),
      watts(sheet.energy.is_known() ? sheet.energy.idle_w : 0) {}

void Timeline::GpuProbe::on_sms(const gpu::SmState& state) {
  const Time now = owner.fabric_.now();
  if (state.active_sms != active_sms) {
    if (owner.large_) {
      sms.add(sms_since, now, active_sms);
      sms_since = now;
    } else {
      owner.file_.events.counter(process, "SMs", "active", now, std::uint64_t{state.active_sms});
    }
    active_sms = state.active_sms;
  }
  if (state.hbm_gb_per_s != hbm_gb_per_s) {
    hbm.add(hbm_since, now, hbm_gb_per_s);
    hbm_gb_per_s = state.hbm_gb_per_s;
    hbm_since = now;
  }
  if (state.watts != watts) {
    power.add(power_since, now, watts);
    watts = state.watts;
    power_since = now;
  }
}

void Timeline::GpuProbe::on_kernel(const gpu::Stream& stream, const gpu::KernelChain& chain, std::uint32_t index) {
  if (!owner.large_) owner.streams_.on_kernel(stream, chain.names[index], index);
}

void Timeline::GpuProbe::finish(Time end) {
  if (owner.large_) {
    sms.add(sms_since, end, active_sms);
    sms.finish(end);
  }
  hbm.add(hbm_since, end, hbm_gb_per_s);
  hbm.finish(end);
  power.add(power_since, end, watts);
  power.finish(end);
}

void Timeline::add_path(const CriticalPath::Measure& measure) {
  const TraceTrack track = file_.events.add_track(file_.process("why"), measure.metric);
  for (const Cause* piece : chain(measure.chain, measure.from)) {
    const auto most = std::max_element(piece->costs.begin(), piece->costs.end(),
                                       [](const auto& a, const auto& b) { return a.time < b.time; });
    const char* kind = transport::kCostKindNames[static_cast<std::size_t>(most->kind)];
    file_.events.slice(track, kind, piece->name.empty() ? kind : piece->name, piece->from, piece->to,
                       {{"most", std::string_view(kind)}});
  }
}

void Timeline::finish(Time end) {
  requests_.finish(end);
  for (GpuProbe& gpu : gpus_) gpu.finish(end);
  streams_.finish(end);
  links_.finish(end);
  file_.events.close();
}

}  // namespace railyard::probe
