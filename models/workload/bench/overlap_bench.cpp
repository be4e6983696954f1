#include "workload/bench/overlap_bench.h"

#include <fmt/format.h>
#include <algorithm>

#include "gpu/kernels/memory_bound.h"
#include "workload/traffic.h"

namespace railyard::workload::overlap {

namespace {

/// One of `parts` equal pieces of a kernel's work, at the
/// pace of this kernel. The kernel is launched only once.
gpu::KernelTime piece_of(const gpu::KernelTime& whole, std::uint32_t parts, bool first, bool last, double sms) {
  gpu::KernelTime piece = whole;
  const double part = 1.0 / parts;
  // Tiles of the next piece fill the unfinished wave of this piece, so count work, not waves.
  piece.sm_seconds = whole.cta_seconds_on(sms) * sms * part;
  piece.longest_cta_seconds = 0;
  piece.tail_ratio = 0;
  piece.l2_seconds *= part;
  piece.hbm_seconds *= part;
  piece.flops *= part;
  piece.bytes *= part;
  piece.l2_bytes *= part;
  piece.ctas = std::max<std::uint64_t>(1, whole.ctas / parts);
  if (!first) piece.fixed_seconds = 0;
  if (!last) piece.after_seconds = 0;
  piece.seconds = piece.seconds_on({sms});
  return piece;
}

}  // namespace

gpu::KernelSpec gemm_of(const OverlapSpec& spec) {
  const auto tp = static_cast<std::uint32_t>(spec.gpus.size());
  gpu::KernelSpec kernel;
  static_cast<gpu::GemmShape&>(kernel) = spec.product;
  if (spec.operation == Operation::all_gather_gemm) kernel.n /= tp;
  if (spec.operation == Operation::gemm_reduce_scatter) kernel.k /= tp;
  kernel.launch = gpu::KernelLaunch::stream;
  return kernel;
}

namespace {

collective::Operation collective_of(Operation operation) {
  switch (operation) {
    case Operation::all_gather_gemm: return collective::Operation::all_gather;
    case Operation::gemm_reduce_scatter: return collective::Operation::reduce_scatter;
    case Operation::gemm_all_reduce: break;
  }
  return collective::Operation::all_reduce;
}

collective::Request tp_request() {
  collective::Request request;
  request.traffic_class = number(TrafficClass::tp);
  return request;
}

}  // namespace

OverlapBench::OverlapBench(const OverlapSpec& spec, const std::vector<Rank*>& ranks, Executor& executor)
    : spec_(spec),
      executor_(executor),
      compute_(ranks, kCompute, tp_request(), executor.fabric()),
      comm_(ranks, kComm, tp_request(), executor.fabric()) {}

const collective::CollectiveSpec& OverlapBench::plan() {
  return compute_.choose(collective_of(spec_.operation), spec_.collective_bytes);
}

JobLabel OverlapBench::label(What what, std::uint32_t step, std::uint32_t rank) const {
  Fields fields{};
  fields.method = static_cast<std::uint32_t>(results_.size());
  fields.what = what;
  fields.step = step;
  fields.rank = rank;
  return JobLabel::of(*this, fields);
}

void OverlapBench::run_collective(Communicator& communicator, const std::vector<JobRef>& after) {
  executor_.collective(communicator, plan(), label(kCollective, 0, 0), *this, jobs_, after);
  live_ += jobs_.size();
}

JobRef OverlapBench::run_kernel(std::uint32_t rank, What what, std::uint32_t step, gpu::SharedChain chain,
                                const std::vector<JobRef>& after) {
  ++live_;
  return executor_.kernel(compute_.rank(rank), compute_.stream(rank), std::move(chain), label(what, step, rank), *this,
                          after);
}

void OverlapBench::run_next() {
  begun_ = executor_.fabric().now();
  current_ = MethodResult();
  current_.method = spec_.methods[results_.size()];
  kernel_s_.clear();
  kernel_alone_s_.clear();
  for (const Rank* rank : compute_.ranks()) {
    kernel_s_.push_back(rank->gpu->sms().kernel_seconds());
    kernel_alone_s_.push_back(rank->gpu->sms().kernel_seconds_alone());
  }
  const gpu::SharedChain product = gpu::chain_of(gpu::kernel_time(compute_.rank(0).gpu->datasheet(), gemm_of(spec_)));
  const auto products = [&](const std::vector<JobRef>& after) {
    std::vector<JobRef> done;
    for (std::uint32_t r = 0; r < ranks(); ++r)
      done.push_back(
          run_kernel(r, kGemm, 0, product, r < after.size() ? std::vector<JobRef>{after[r]} : std::vector<JobRef>()));
    return done;
  };
  switch (current_.method) {
    case Method::gemm: products({}); break;
    case Method::collective: run_collective(compute_, {}); break;
    case Method::serial:
      if (spec_.operation == Operation::gemm_reduce_scatter) {
        run_collective(compute_, products({}));
      } else {
        run_collective(compute_, {});
        products(jobs_);
      }
      break;
    case Method::decomposed: run_in_steps(false); break;
    case Method::fused: run_in_steps(true); break;
    case Method::beside:
      run_collective(comm_, {});
      products({});
      break;
  }
}

void OverlapBench::run_in_steps(bool fused) {
  const gpu::GpuDatasheet& gpu = compute_.rank(0).gpu->datasheet();
  gpu::KernelSpec part = gemm_of(spec_);
  const gpu::KernelTime whole = gpu::kernel_time(gpu, part);
  part.m = ceil_div(part.m, ranks());
  const gpu::SharedChain step = gpu::chain_of(gpu::kernel_time(gpu, part));
  std::vector<gpu::SharedChain> steps;
  for (std::uint32_t i = 0; i < ranks(); ++i)
    steps.push_back(fused ? gpu::chain_of(piece_of(whole, ranks(), i == 0, i + 1 == ranks(), gpu.sm.count)) : step);
  if (spec_.operation == Operation::all_gather_gemm) {
    run_all_gather_steps(steps);
  } else {
    run_reduce_scatter_steps(steps);
  }
}

void OverlapBench::run_all_gather_steps(const std::vector<gpu::SharedChain>& steps) {
  std::vector<std::vector<JobRef>> there(
      ranks(), std::vector<JobRef>(ranks()));  // [rank][step]: arrival of the shard for that step
  for (std::uint32_t i = 1; i < ranks(); ++i)
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      const std::uint32_t from = (nvlink() ? r + i : r + ranks() - 1) % ranks();
      there[r][i] = send_shard(from, r, i, {there[nvlink() ? r : from][i - 1]});
    }
  for (std::uint32_t r = 0; r < ranks(); ++r)
    for (std::uint32_t i = 0; i < ranks(); ++i) run_kernel(r, kGemm, i, steps[i], {there[r][i]});
}

void OverlapBench::run_reduce_scatter_steps(const std::vector<gpu::SharedChain>& steps) {
  std::vector<std::vector<JobRef>> product(ranks()), sums(ranks());
  for (std::uint32_t r = 0; r < ranks(); ++r)
    for (std::uint32_t i = 0; i < ranks(); ++i) product[r].push_back(run_kernel(r, kGemm, i, steps[i], {}));
  std::vector<JobRef> latest(ranks());  // by sender; in a ring, by receiver
  for (std::uint32_t i = 0; i + 1 < ranks(); ++i) {
    std::vector<JobRef> sent(ranks());
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      const std::uint32_t to = (nvlink() ? r + 1 + i : r + 1) % ranks();
      const JobRef job = send_shard(r, to, i, {product[r][i], latest[r]});
      sent[nvlink() ? r : to] = job;
      if (nvlink() || i + 2 == ranks()) sums[to].push_back(job);
    }
    latest = sent;
  }
  const double shard = static_cast<double>(spec_.collective_bytes) / ranks();
  const double tensors = nvlink() ? ranks() + 1.0 : 3.0;  // all partial results (in a ring two), and their sum
  for (std::uint32_t r = 0; r < ranks(); ++r)
    run_kernel(r, kSum, 0, gpu::chain_of(gpu::memory_bound_time(compute_.rank(r).gpu->datasheet(), 0, tensors * shard)),
               sums[r]);
}

JobRef OverlapBench::send_shard(std::uint32_t from, std::uint32_t to, std::uint32_t step,
                                const std::vector<JobRef>& after) {
  ++live_;
  return executor_.copy(comm_.rank(from), comm_.stream(from),
                        {{{*comm_.rank(to).memory, spec_.collective_bytes / ranks()}}, number(TrafficClass::tp)},
                        label(kShard, step, from), *this, after);
}

void OverlapBench::on_job_done(const Job& job) {
  const auto f = job.label().as<Fields>();
  if (f.what == kQuiet) {
    run_next();
    return;
  }
  const Time after = executor_.fabric().now() - begun_;
  (f.what == kGemm || f.what == kSum ? current_.gemm_done : current_.collective_done) = after;
  if (--live_ != 0) return;
  current_.time = after;
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    current_.kernel_s = std::max(current_.kernel_s, compute_.rank(r).gpu->sms().kernel_seconds() - kernel_s_[r]);
    current_.kernel_alone_s =
        std::max(current_.kernel_alone_s, compute_.rank(r).gpu->sms().kernel_seconds_alone() - kernel_alone_s_[r]);
  }
  results_.push_back(current_);
  if (!done()) executor_.quiet(compute_.rank(0), compute_.stream(0), label(kQuiet, 0, 0), *this);
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
    default: return fmt::format("Collective_{}_Rank[{}]", method, rank);
  }
}

std::uint64_t OverlapBench::of_member(std::uint64_t arguments, std::uint32_t member) const {
  auto f = JobLabel::fields_of<Fields>(arguments);
  f.rank = member;
  return JobLabel::of(*this, f).arguments;
}

std::string OverlapBench::task(std::uint64_t arguments) const {
  constexpr const char* kTasks[] = {"gemm", "collective", "shard", "sum"};
  const auto f = JobLabel::fields_of<Fields>(arguments);
  return f.what == kCollective ? kTasks[kCollective] : fmt::format("{} {}", kTasks[f.what], std::uint32_t{f.step});
}

}  // namespace railyard::workload::overlap
