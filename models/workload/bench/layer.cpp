#include "workload/bench/layer.h"

#include <fmt/format.h>
#include <algorithm>

#include "workload/traffic.h"

namespace railyard::workload::layer {

namespace {

collective::CollectiveRequest request_of(const LayerSpec& spec) {
  collective::CollectiveRequest request;
  request.engine = spec.engine;
  request.in_graph = spec.phase != Phase::training;
  request.traffic_class = number(TrafficClass::tp);
  return request;
}

}  // namespace

Layer::Layer(const LayerSpec& spec, std::vector<LayerStep> steps, const std::vector<Rank*>& ranks, Executor& executor)
    : steps_(std::move(steps)),
      communicator_(ranks, 0, request_of(spec), executor.fabric()),
      programs_(ranks, 0, {}, executor, *this),
      fabric_(executor.fabric()),
      results_(steps_.size()),
      left_(steps_.size(), static_cast<std::uint32_t>(ranks.size())) {
  constexpr std::size_t kBesideStream = 1;
  if (runs_beside(steps_)) beside_.emplace(ranks, kBesideStream, request_of(spec), executor.fabric());
}

void Layer::start() {
  std::vector<Communicator*> communicators{&communicator_};
  if (beside_) communicators.push_back(&*beside_);
  Communicator::allow_reuse(communicators, {}, fabric_);
  std::vector<JobRef> jobs_beside;
  std::size_t beside_until = 0;
  for (std::uint32_t i = 0; i < steps_.size(); ++i) {
    const LayerStep& step = steps_[i];
    if (i == beside_until)
      for (std::uint32_t t = 0; t < jobs_beside.size(); ++t) programs_.wait_for(t, jobs_beside[t]);
    if (step.is_collective) {
      results_[i].collective = choose(step);
      const JobLabel label = JobLabel::of(*this, Fields{i, 0});
      if (step.beside == 0) {
        programs_.collective(communicator_, results_[i].collective, label);
      } else {
        jobs_beside = programs_.start(*beside_, results_[i].collective, label, programs_.last_of(*beside_));
        beside_until = i + 1 + step.beside;
      }
      continue;
    }
    for (std::uint32_t t = 0; t < ranks(); ++t)
      programs_.kernels(t, gpu::chain_of(step.kernel, step.name), 1, JobLabel::of(*this, Fields{i, t}));
  }
}

std::size_t Layer::finished() const {
  return static_cast<std::size_t>(
      std::find_if(left_.begin(), left_.end(), [](std::uint32_t left) { return left != 0; }) - left_.begin());
}

void Layer::on_job_done(const Job& job) {
  programs_.done();
  const std::uint32_t step = job.label().as<Fields>().step;
  --left_[step];
  if (&job.rank() != &communicator_.rank(0)) return;
  results_[step].start = job.begun_at();
  results_[step].end = fabric_.now();
}

std::string Layer::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  if (!steps_[f.step].is_collective) return fmt::format("Layer_TP[{}]_Step[{}]", f.tp, f.step);
  return fmt::format("Layer_{}_Step[{}]", collective::initials(steps_[f.step].operation), f.step);
}

std::string Layer::task(std::uint64_t arguments) const {
  return steps_[JobLabel::fields_of<Fields>(arguments).step].name;
}

const char* Layer::kind(std::uint64_t arguments) const {
  return steps_[JobLabel::fields_of<Fields>(arguments).step].is_collective ? "tp" : "compute";
}

}  // namespace railyard::workload::layer
