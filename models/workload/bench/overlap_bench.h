// workload.kind: overlap: one matrix product and one collective of tensor-parallel ranks, in several methods
// (linear/coupled_product.h). Before each method all links are quiet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/kernels/kernel_spec.h"
#include "workload/bench/overlap_spec.h"
#include "workload/linear/emission.h"

namespace railyard::workload::overlap {

struct MethodResult {
  Method method = Method::gemm;
  Time time;                  ///< from the method's start to the end of the last rank
  double kernel_s = 0;        ///< products and sums on the slowest rank, as measured
  double kernel_alone_s = 0;  ///< the same if each kernel had its GPU alone
  /// The method without time for products and sums; none if it is one of the parts alone.
  std::optional<Time> traffic_alone;
  Time gemm_done, collective_done;  ///< relative to the method's start; zero if the method has none
};

/// The matrix product of one rank.
gpu::KernelSpec gemm_of(const OverlapSpec& spec);

class OverlapBench final : private JobClient, private JobNamer {
 public:
  /// Streams of a rank: products; communication that runs at the same time; receives of shards by SMs.
  static constexpr linear::Streams kStreams{0, 1, 2};
  /// @pre the ranks have these streams, and their GPUs have a tensor rate for the data type
  OverlapBench(const OverlapSpec& spec, const std::vector<Rank*>& ranks, Executor& executor);

  void start() { run_next(); }
  bool done() const { return results_.size() == spec_.methods.size(); }
  const std::vector<MethodResult>& results() const { return results_; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(ranks_.ranks().size()); }
  const collective::CollectiveSpec& plan();

 private:
  enum What : std::uint8_t { kGemm, kCollective, kShard, kSum, kMainLoop, kQuiet, kAlone };

  void run_next();
  void run(Method method);
  void run_coupled(Method method, bool traffic_only);
  void finish_method(Time after);
  linear::CoupledProduct coupled();
  // Gemm_[method]_Rank[r]_Step[i]: a product, or a piece of it. Collective_[method]_Rank[r].
  // Shard_[method]_Rank[r]_Step[i]: a shard that copy engines send from rank r. Sum_[method]_Rank[r].
  // Traffic_[method]_Rank[r]: a job of the traffic alone.
  struct Fields {
    std::uint32_t method : 16;  ///< index in the scenario's list
    std::uint32_t what : 16;
    std::uint32_t step : 16, rank : 16;
  };
  JobLabel label(What what, std::uint32_t step, std::uint32_t rank) const;

  void on_job_done(const Job& job) override;
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "test"; }
  Recorded recorded(std::uint64_t arguments) const override {
    return JobLabel::fields_of<Fields>(arguments).what >= kMainLoop ? Recorded::never : Recorded::each_member;
  }
  std::uint64_t of_member(std::uint64_t arguments, std::uint32_t member) const override;

  OverlapSpec spec_;
  Executor& executor_;
  linear::CoupledRanks ranks_;
  RankPrograms programs_;
  Time begun_;
  std::vector<double> kernel_s_, kernel_alone_s_;  // by rank, before the method began
  MethodResult current_;
  std::vector<MethodResult> results_;
  std::optional<Time> traffic_alone_;  ///< of the next method
};

}  // namespace railyard::workload::overlap
