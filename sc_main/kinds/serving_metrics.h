// The figures of workload.kind: serving, collected while requests are served, and its metrics, which are made of them.
// Only three numbers are kept for each request.
#pragma once

#include <cstdint>

#include "sc_main/distribution.h"
#include "sc_main/metric.h"
#include "workload/inference/serving.h"

namespace railyard {

class ServingFigures : public workload::inference::ServingSink {
 public:
  ServingFigures(const workload::inference::Slo& slo, std::uint32_t kv_blocks) : slo(slo), kv_blocks(kv_blocks) {}

  void on_served(std::uint32_t request, const workload::inference::Served& served) override;
  void on_iteration(std::uint32_t number, const workload::inference::Iteration& iteration, Time completed) override;
  /// The run has ended.
  void close(workload::inference::Engine& engine, Time now);

  double rate(double amount) const;  ///< per second, from the first arrival to the last token
  double slo_attainment_ratio() const;
  double prefix_hit_ratio() const;
  double padded_ratio() const;
  double mean(double sum) const { return iterations > 0 ? sum / static_cast<double>(iterations) : 0.0; }

  const workload::inference::Slo slo;
  const std::uint32_t kv_blocks;  ///< including the reserved block
  Distribution ttft, tpot, e2e;
  TimeHistogram itl;
  Time first_arrival = Time::max(), last_token;
  std::uint64_t requests = 0, within_slo = 0;
  std::uint64_t prompt_tokens = 0, output_tokens = 0, cached_tokens = 0, recomputed_tokens = 0, preemptions = 0;
  std::uint64_t iterations = 0;
  std::uint32_t peak_blocks = 0;
  double batch_sum = 0, tokens_sum = 0, padding_sum = 0;
  struct Stage {
    std::array<double, workload::inference::StageTimes::kUses> seconds;  ///< by StageTimes::Use
  };
  std::vector<Stage> stages;
  double end_s = 0;
};

const Metrics<ServingFigures>& serving_metrics();

}  // namespace railyard
