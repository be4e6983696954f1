#include "workload/layer/layer.h"

#include <fmt/format.h>
#include <algorithm>

namespace railyard::workload::layer {

Layer::Layer(const LayerSpec& spec, std::vector<LayerStep> steps, const std::vector<gpu::Gpu*>& gpus,
             transport::Fabric& fabric, JobSink& sink)
    : spec_(spec),
      steps_(std::move(steps)),
      fabric_(fabric),
      dispatcher_(fabric),
      sink_(sink),
      ranks_(gpus, fabric),
      results_(steps_.size()),
      left_(steps_.size(), static_cast<std::uint32_t>(gpus.size())) {}

collective::CollectiveSpec Layer::choose(const LayerStep& step) const {
  collective::Request request;
  request.operation = step.operation;
  request.bytes = step.bytes;
  request.library = spec_.library;
  request.in_graph = spec_.phase != Phase::training;
  request.traffic_class = number(TrafficClass::tp);
  return collective::choose(request, ranks_.group, ranks_.site);
}

void Layer::start() {
  std::vector<JobRef> jobs;
  for (std::uint32_t i = 0; i < steps_.size(); ++i) {
    const LayerStep& step = steps_[i];
    JobTag tag;
    tag.run = i;
    if (step.is_collective) {
      results_[i].collective = choose(step);
      dispatcher_.collective(ranks_.devices, ranks_.group, results_[i].collective, nullptr, tag, *this, jobs);
      continue;
    }
    for (std::uint32_t t = 0; t < ranks(); ++t) {
      tag.tp = static_cast<std::uint16_t>(t);
      dispatcher_.kernel(*ranks_.devices[t], ranks_.devices[t]->compute, gpu::chain_of(step.kernel), tag, *this);
    }
  }
}

std::size_t Layer::finished() const {
  return static_cast<std::size_t>(
      std::find_if(left_.begin(), left_.end(), [](std::uint32_t left) { return left != 0; }) - left_.begin());
}

JobRecord Layer::record_of(JobKind kind, const JobTag& tag) const {
  const LayerStep& step = steps_[tag.run];
  JobRecord record;
  record.kind = kind == JobKind::kernel ? JobRecord::Kind::layer_kernel : JobRecord::Kind::layer_collective;
  record.operation = step.operation;
  record.bytes = step.bytes;
  record.index = tag.run;
  record.tp = record.rank = tag.tp;
  return record;
}

void Layer::on_job_done(const Job& job) {
  const std::uint32_t step = job.tag().run;
  --left_[step];
  if (job.tag().tp == 0) {
    results_[step].start = job.begun_at();
    results_[step].end = fabric_.now();
  }
  if (job.kind() != Job::Kind::kernel) return;
  JobRecord record = record_of(job.kind(), job.tag());
  record.start = job.begun_at();
  record.end = fabric_.now();
  sink_.on_job(record);
}

void Layer::on_collective_done(const collective::Collective& collective, const JobTag& tag) {
  JobRecord record = record_of(JobKind::collective, tag);
  record.start = collective.first_entry();
  record.end = fabric_.now();
  record.queued = collective.last_entry() - collective.first_entry();
  sink_.on_job(record);
}

std::vector<std::string> Layer::blocked() const {
  std::vector<std::string> lines;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_.devices[r]->compute.empty()) continue;
    const auto& job = static_cast<const Job&>(*ranks_.devices[r]->compute.front());
    lines.push_back(
        fmt::format("rank {} ({}): {} waits for bytes of its peers", r, ranks_.devices[r]->gpu->name(), label(job)));
  }
  return lines;
}

}  // namespace railyard::workload::layer
