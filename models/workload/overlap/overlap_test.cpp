#include "workload/overlap/overlap_test.h"

#include <fmt/format.h>
#include <algorithm>

#include "gpu/kernels/memory_bound.h"

namespace railyard::workload::overlap {

namespace {

/// A part of a kernel's work, at its pace: one of `parts` into which a single kernel is cut without being launched
/// again.
gpu::KernelTime piece_of(const gpu::KernelTime& whole, std::uint32_t parts, bool first, bool last, double sms) {
  gpu::KernelTime piece = whole;
  const double part = 1.0 / parts;
  // Tiles of the next piece fill the wave that this one leaves: work, not waves.
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
  kernel.m = spec.m;
  kernel.n = spec.operation == Operation::all_gather_gemm ? spec.n / tp : spec.n;
  kernel.k = spec.operation == Operation::gemm_reduce_scatter ? spec.k / tp : spec.k;
  kernel.dtype = spec.dtype;
  kernel.launch = gpu::KernelLaunch::stream;
  return kernel;
}

OverlapTest::OverlapTest(const OverlapSpec& spec, const std::vector<gpu::Gpu*>& gpus, transport::Fabric& fabric,
                         JobSink& sink)
    : spec_(spec), fabric_(fabric), dispatcher_(fabric), sink_(sink), ranks_(gpus, fabric), quiet_(fabric, *this) {}

collective::CollectiveSpec OverlapTest::plan() const {
  collective::Request request;
  request.operation = spec_.operation == Operation::all_gather_gemm       ? collective::Operation::all_gather
                      : spec_.operation == Operation::gemm_reduce_scatter ? collective::Operation::reduce_scatter
                                                                          : collective::Operation::all_reduce;
  request.bytes = spec_.collective_bytes;
  request.traffic_class = number(TrafficClass::tp);
  return collective::choose(request, ranks_.group, ranks_.site);
}

JobTag OverlapTest::tag(What what, std::uint32_t step, std::uint32_t rank) const {
  JobTag t;
  t.run = static_cast<std::uint32_t>(results_.size());
  t.what = what;
  t.layer = static_cast<std::uint16_t>(step);
  t.tp = static_cast<std::uint16_t>(rank);
  return t;
}

void OverlapTest::run_collective(gpu::Stream RankDevice::*stream, const std::vector<JobRef>& after) {
  dispatcher_.collective(ranks_.devices, ranks_.group, plan(), nullptr, tag(kCollective, 0, 0), *this, jobs_, after,
                         stream);
  live_ += jobs_.size();
}

JobRef OverlapTest::run_kernel(std::uint32_t rank, What what, std::uint32_t step, gpu::SharedChain chain,
                               const std::vector<JobRef>& after) {
  ++live_;
  return dispatcher_.kernel(*ranks_.devices[rank], ranks_.devices[rank]->compute, std::move(chain),
                            tag(what, step, rank), *this, after);
}

void OverlapTest::run_next() {
  dispatcher_.passed(this, 0);
  begun_ = fabric_.now();
  current_ = MethodResult();
  current_.method = spec_.methods[results_.size()];
  kernel_s_.clear();
  kernel_alone_s_.clear();
  for (const RankDevice* rank : ranks_.devices) {
    kernel_s_.push_back(rank->gpu->sms().kernel_seconds());
    kernel_alone_s_.push_back(rank->gpu->sms().kernel_seconds_alone());
  }
  const gpu::SharedChain product = gpu::chain_of(gpu::kernel_time(ranks_.devices[0]->gpu->datasheet(), gemm_of(spec_)));
  const auto products = [&](const std::vector<JobRef>& after) {
    std::vector<JobRef> done;
    for (std::uint32_t r = 0; r < ranks(); ++r)
      done.push_back(
          run_kernel(r, kGemm, 0, product, r < after.size() ? std::vector<JobRef>{after[r]} : std::vector<JobRef>()));
    return done;
  };
  switch (current_.method) {
    case Method::gemm: products({}); break;
    case Method::collective: run_collective(&RankDevice::compute, {}); break;
    case Method::serial:
      if (spec_.operation == Operation::gemm_reduce_scatter) {
        run_collective(&RankDevice::compute, products({}));
      } else {
        run_collective(&RankDevice::compute, {});
        products(jobs_);
      }
      break;
    case Method::decomposed: run_in_steps(false); break;
    case Method::fused: run_in_steps(true); break;
    case Method::beside:
      run_collective(&RankDevice::pp, {});
      products({});
      break;
  }
}

void OverlapTest::run_in_steps(bool fused) {
  const gpu::GpuDatasheet& gpu = ranks_.devices[0]->gpu->datasheet();
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

void OverlapTest::run_all_gather_steps(const std::vector<gpu::SharedChain>& steps) {
  std::vector<std::vector<JobRef>> there(
      ranks(), std::vector<JobRef>(ranks()));  // [rank][step]: its shard of that step has come
  for (std::uint32_t i = 1; i < ranks(); ++i)
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      const std::uint32_t from = (ranks_.site.nvlink ? r + i : r + ranks() - 1) % ranks();
      there[r][i] = send_shard(from, r, i, {there[ranks_.site.nvlink ? r : from][i - 1]});
    }
  for (std::uint32_t r = 0; r < ranks(); ++r)
    for (std::uint32_t i = 0; i < ranks(); ++i) run_kernel(r, kGemm, i, steps[i], {there[r][i]});
}

void OverlapTest::run_reduce_scatter_steps(const std::vector<gpu::SharedChain>& steps) {
  std::vector<std::vector<JobRef>> product(ranks()), sums(ranks());
  for (std::uint32_t r = 0; r < ranks(); ++r)
    for (std::uint32_t i = 0; i < ranks(); ++i) product[r].push_back(run_kernel(r, kGemm, i, steps[i], {}));
  std::vector<JobRef> latest(ranks());  // by sender; in a ring by receiver
  for (std::uint32_t i = 0; i + 1 < ranks(); ++i) {
    std::vector<JobRef> sent(ranks());
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      const std::uint32_t to = (ranks_.site.nvlink ? r + 1 + i : r + 1) % ranks();
      const JobRef job = send_shard(r, to, i, {product[r][i], latest[r]});
      sent[ranks_.site.nvlink ? r : to] = job;
      if (ranks_.site.nvlink || i + 2 == ranks()) sums[to].push_back(job);
    }
    latest = sent;
  }
  const double shard = static_cast<double>(spec_.collective_bytes) / ranks();
  const double tensors = ranks_.site.nvlink ? ranks() + 1.0 : 3.0;  // all partial results, or two; and their sum
  for (std::uint32_t r = 0; r < ranks(); ++r)
    run_kernel(r, kSum, 0,
               gpu::chain_of(gpu::memory_bound_time(ranks_.devices[r]->gpu->datasheet(), 0, tensors * shard)), sums[r]);
}

JobRef OverlapTest::send_shard(std::uint32_t from, std::uint32_t to, std::uint32_t step,
                               const std::vector<JobRef>& after) {
  ++live_;
  return dispatcher_.send(*ranks_.devices[from], ranks_.devices[from]->pp,
                          {{ranks_.devices[to]->gpu->window(), spec_.collective_bytes / ranks()}},
                          number(TrafficClass::tp), tag(kShard, step, from), *this, after);
}

void OverlapTest::on_job_done(const Job& job) {
  const Time after = fabric_.now() - begun_;
  const JobTag& t = job.tag();
  (t.what == kGemm || t.what == kSum ? current_.gemm_done : current_.collective_done) = after;
  JobRecord record = record_of(t);
  record.start = job.begun_at();
  record.end = fabric_.now();
  record.bytes = job.bytes();
  sink_.on_job(record);
  if (--live_ != 0) return;
  current_.time = after;
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    current_.kernel_s = std::max(current_.kernel_s, ranks_.devices[r]->gpu->sms().kernel_seconds() - kernel_s_[r]);
    current_.kernel_alone_s =
        std::max(current_.kernel_alone_s, ranks_.devices[r]->gpu->sms().kernel_seconds_alone() - kernel_alone_s_[r]);
  }
  results_.push_back(current_);
  dispatcher_.reached(this, 0);
  if (!done()) quiet_.wait();
}

JobRecord OverlapTest::record_of(const JobTag& t) const {
  constexpr JobRecord::Kind kKinds[] = {JobRecord::Kind::overlap_gemm, JobRecord::Kind::overlap_collective,
                                        JobRecord::Kind::overlap_shard, JobRecord::Kind::overlap_sum};
  JobRecord record;
  record.kind = kKinds[t.what];
  record.stage = static_cast<std::uint32_t>(spec_.methods[t.run]);
  record.index = t.layer;
  record.rank = record.tp = t.tp;
  return record;
}

std::string OverlapTest::name_of(JobKind, const JobTag& t) const { return record_of(t).name(); }

std::string OverlapTest::label(const Job& job) {
  constexpr const char* kLabels[] = {"gemm", "collective", "shard", "sum"};
  return job.tag().what == kCollective ? kLabels[kCollective]
                                       : fmt::format("{} {}", kLabels[job.tag().what], job.tag().layer);
}

}  // namespace railyard::workload::overlap
