// workload.kind: overlap: one matrix product and one collective of tensor-parallel ranks, in several methods: alone, in
// series, in pieces that overlap, and side by side. Before each method all links are quiet.
//
// all_gather_gemm     Rank r has shard r of the rows. In step i rank r multiplies shard (r+i) mod tp, so its own shard
//                     is first. Copy engines send shard j from rank j to each rank, one shard after the other.
// gemm_reduce_scatter In step i rank r multiplies the rows of rank (r+1+i) mod tp, its own last, and sends the partial
//                     result to that rank. When all partial results have arrived, a kernel sums them.
// Without NVLink between the ranks, shards go round a ring instead, so that few shards cross the sockets at a time.
// Step i multiplies shard (r-i) mod tp, and every rank forwards it; in a reduce-scatter, the partial sum is forwarded.
// Decomposed: each step is a separate kernel. Fused: the steps are pieces of one kernel of the same total length.
// (PyTorch's torch/distributed/_symmetric_memory, _pipelined_all_gather_and_consume and _pipelined_produce_and_all2all;
// fused: FLUX, arXiv 2406.06858.)
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "gpu/kernels/kernel_spec.h"
#include "workload/bench/overlap_spec.h"
#include "workload/jobs.h"

namespace railyard::workload::overlap {

struct MethodResult {
  Method method = Method::gemm;
  Time time;                        ///< from the method's start to the end of the last rank
  double kernel_s = 0;              ///< products and sums on the slowest rank, as measured
  double kernel_alone_s = 0;        ///< the same if each kernel had its GPU alone
  Time gemm_done, collective_done;  ///< relative to the method's start; zero if the method has none
};

/// The matrix product of one rank.
gpu::KernelSpec gemm_of(const OverlapSpec& spec);

class OverlapBench : private JobClient, private JobNamer {
 public:
  /// Streams of a rank: products; communication that runs at the same time.
  enum Stream : std::size_t { kCompute, kComm };
  /// @pre the ranks have these streams, and their GPUs have a tensor rate for the data type
  OverlapBench(const OverlapSpec& spec, const std::vector<Rank*>& ranks, Executor& executor);

  void start() { run_next(); }
  bool done() const { return results_.size() == spec_.methods.size(); }
  const std::vector<MethodResult>& results() const { return results_; }
  std::uint32_t ranks() const { return compute_.size(); }
  const collective::CollectiveSpec& plan();

 private:
  enum What : std::uint8_t { kGemm, kCollective, kShard, kSum, kQuiet };

  void run_next();
  void run_collective(Communicator& communicator, const std::vector<JobRef>& after);
  JobRef run_kernel(std::uint32_t rank, What what, std::uint32_t step, gpu::SharedChain chain,
                    const std::vector<JobRef>& after);
  void run_in_steps(bool fused);
  void run_all_gather_steps(const std::vector<gpu::SharedChain>& steps);
  void run_reduce_scatter_steps(const std::vector<gpu::SharedChain>& steps);
  JobRef send_shard(std::uint32_t from, std::uint32_t to, std::uint32_t step, const std::vector<JobRef>& after);
  // Gemm_[method]_Rank[r]_Step[i]: a product, or a piece of it. Collective_[method]_Rank[r].
  // Shard_[method]_Rank[r]_Step[i]: a shard that copy engines send from rank r. Sum_[method]_Rank[r].
  struct Fields {
    std::uint32_t method : 16;  ///< index in the scenario's list
    std::uint32_t what : 16;
    std::uint32_t step : 16, rank : 16;
  };
  JobLabel label(What what, std::uint32_t step, std::uint32_t rank) const;
  bool nvlink() { return compute_.site().nvlink; }

  void on_job_done(const Job& job) override;
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "test"; }
  Recorded recorded(std::uint64_t arguments) const override {
    return JobLabel::fields_of<Fields>(arguments).what == kQuiet ? Recorded::never : Recorded::each_member;
  }
  std::uint64_t of_member(std::uint64_t arguments, std::uint32_t member) const override;

  OverlapSpec spec_;
  Executor& executor_;
  Communicator compute_, comm_;  ///< the same ranks; one communicator per stream
  Time begun_;
  std::vector<double> kernel_s_, kernel_alone_s_;  // by rank, before the method began
  std::size_t live_ = 0;
  MethodResult current_;
  std::vector<MethodResult> results_;
  std::vector<JobRef> jobs_;  // jobs of a collective, kept to avoid allocations
};

}  // namespace railyard::workload::overlap
