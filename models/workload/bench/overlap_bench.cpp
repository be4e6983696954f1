#include "workload/bench/overlap_bench.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "gpu/datasheet.h"
#include "workload/traffic.h"

namespace railyard::workload::overlap {

gpu::KernelSpec gemm_of(const OverlapSpec& spec) {
  const auto tp = static_cast<std::uint32_t>(spec.gpus.size());
  gpu::KernelSpec kernel;
  static_cast<gpu::GemmShape&>(kernel) = spec.product;
  if (spec.operation == OverlapOperation::all_gather_gemm) kernel.n /= tp;
  if (spec.operation == OverlapOperation::gemm_reduce_scatter) kernel.k /= tp;
  kernel.launch = gpu::KernelLaunch::stream;
  return kernel;
}

namespace {

collective::Operation collective_of(OverlapOperation operation) {
  switch (operation) {
    case OverlapOperation::all_gather_gemm: return collective::Operation::all_gather;
    case OverlapOperation::gemm_reduce_scatter: return collective::Operation::reduce_scatter;
    case OverlapOperation::gemm_all_reduce: break;
  }
  return collective::Operation::all_reduce;
}

collective::CollectiveRequest tp_request() {
  collective::CollectiveRequest request;
  request.traffic_class = number(TrafficClass::tp);
  return request;
}

}  // namespace

OverlapBench::OverlapBench(const OverlapSpec& spec, const std::vector<Rank*>& ranks, Executor& executor)
    : spec_(spec),
      executor_(executor),
      ranks_(ranks, kStreams, tp_request(), executor.fabric()),
      programs_(ranks, kStreams.compute, {}, executor, *this) {}

const collective::CollectiveSpec& OverlapBench::plan() {
  return ranks_.communicator(false, 0).choose(collective_of(spec_.operation), spec_.collective_bytes);
}

JobLabel OverlapBench::label(What what, std::uint32_t step, std::uint32_t rank) const {
  Fields fields{};
  fields.method = static_cast<std::uint32_t>(results_.size());
  fields.what = what;
  fields.step = step;
  fields.rank = rank;
  return JobLabel::of(*this, fields);
}

void OverlapBench::run_next() {
  begun_ = executor_.fabric().now();
  // The traffic of a method runs alone first, so that the run ends with a method.
  const Method next = spec_.methods[results_.size()];
  if (has_both(next) && !traffic_alone_) return run_coupled(next, true);
  current_ = MethodResult();
  current_.method = next;
  kernel_s_.clear();
  kernel_alone_s_.clear();
  for (const Rank* rank : ranks_.ranks()) {
    kernel_s_.push_back(rank->gpu->sms().kernel_seconds());
    kernel_alone_s_.push_back(rank->gpu->sms().kernel_seconds_alone());
  }
  run(current_.method);
}

linear::CoupledProduct OverlapBench::coupled() {
  const gpu::GpuDatasheet& gpu = ranks_.ranks()[0]->gpu->datasheet();
  linear::CoupledProduct product;
  product.coupling = coupling_of(spec_.operation);
  product.ranks = ranks();
  product.direct = ranks_.nvlink();
  product.part = [this, &gpu](std::uint32_t parts, std::uint32_t most_sms) {
    gpu::KernelSpec part = gemm_of(spec_);
    part.m = ceil_div(part.m, parts);
    part.most_sms = most_sms;
    return gpu::kernel_time(gpu, part);
  };
  product.operation = collective_of(spec_.operation);
  product.bytes = spec_.collective_bytes;
  product.gpu = &gpu;
  return product;
}

void OverlapBench::run(Method method) {
  const linear::CoupledProduct product = coupled();
  if (method == Method::gemm) {
    const gpu::SharedChain kernel = gpu::chain_of(product.part(1, 0));
    for (std::uint32_t r = 0; r < ranks(); ++r) programs_.kernels(r, kernel, 1, label(kGemm, 0, r));
  } else if (method == Method::collective) {
    programs_.collective(ranks_.communicator(false, 0), product.operation, product.bytes, label(kCollective, 0, 0));
  } else {
    run_coupled(method, false);
  }
}

void OverlapBench::run_coupled(Method method, bool traffic_only) {
  constexpr std::array<What, 5> kWhat{kGemm, kSum, kShard, kCollective, kMainLoop};  // by Action::Work
  const linear::ProductPlan plan = linear::plan_of(coupled(), linear_method(method), spec_.options);
  ranks_.emit(traffic_only ? plan.traffic() : plan, programs_,
              [&](const linear::Action& action, bool, bool, std::uint32_t rank) {
                return label(traffic_only ? kAlone : kWhat[static_cast<std::size_t>(action.work)], action.step, rank);
              });
}

void OverlapBench::on_job_done(const Job& job) {
  const auto f = job.label().as<Fields>();
  if (f.what == kQuiet) {
    run_next();
    return;
  }
  programs_.done();
  const Time after = executor_.fabric().now() - begun_;
  if (f.what == kGemm || f.what == kSum) current_.gemm_done = after;
  if (f.what == kCollective || f.what == kShard) current_.collective_done = after;
  if (programs_.live() != 0) return;
  if (f.what == kAlone)
    traffic_alone_ = after;
  else
    finish_method(after);
  Rank& first = *ranks_.ranks()[0];
  if (!done()) executor_.quiet(first, first.stream(kStreams.compute), label(kQuiet, 0, 0), *this);
}

void OverlapBench::finish_method(Time after) {
  current_.time = after;
  current_.traffic_alone = std::exchange(traffic_alone_, std::nullopt);
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    const gpu::SmArray& sms = ranks_.ranks()[r]->gpu->sms();
    current_.kernel_s = std::max(current_.kernel_s, sms.kernel_seconds() - kernel_s_[r]);
    current_.kernel_alone_s = std::max(current_.kernel_alone_s, sms.kernel_seconds_alone() - kernel_alone_s_[r]);
  }
  results_.push_back(current_);
}

std::string OverlapBench::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  const char* const method = name_of(spec_.methods[f.method]);
  const std::uint32_t rank = f.rank, step = f.step;
  switch (f.what) {
    case kGemm: return fmt::format("Gemm_{}_Rank[{}]_Step[{}]", method, rank, step);
    case kShard: return fmt::format("Shard_{}_Rank[{}]_Step[{}]", method, rank, step);
    case kQuiet: return "quiet";
    case kSum: return fmt::format("Sum_{}_Rank[{}]", method, rank);
    case kMainLoop: return fmt::format("MainLoop_{}_Rank[{}]", method, rank);
    case kAlone: return fmt::format("Traffic_{}_Rank[{}]", method, rank);
    default: return fmt::format("Collective_{}_Rank[{}]", method, rank);
  }
}

std::uint64_t OverlapBench::of_member(std::uint64_t arguments, std::uint32_t member) const {
  auto f = JobLabel::fields_of<Fields>(arguments);
  f.rank = member;
  return JobLabel::of(*this, f).arguments;
}

std::string OverlapBench::task(std::uint64_t arguments) const {
  constexpr const char* kTasks[] = {"gemm", "collective", "shard", "sum", "main loop", "quiet", "traffic alone"};
  const auto f = JobLabel::fields_of<Fields>(arguments);
  return f.what == kCollective ? kTasks[kCollective] : fmt::format("{} {}", kTasks[f.what], std::uint32_t{f.step});
}

}  // namespace railyard::workload::overlap
