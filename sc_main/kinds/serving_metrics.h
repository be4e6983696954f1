// The figures of workload.kind: serving, collected while requests are served, and its metrics, which are made of them.
// Only three numbers are kept for each request.
#pragma once

#include <cstdint>

#include "sc_main/distribution.h"
#include "sc_main/metric.h"
#include "workload/inference/service/service.h"

namespace railyard {

class ServingFigures : public workload::inference::ServiceSink {
 public:
  /// @param kv_blocks  of each instance, including the reserved block
  ServingFigures(const workload::inference::ServingSpec& spec, const std::vector<std::uint32_t>& kv_blocks);

  void on_served(std::uint32_t request, const workload::inference::Served& served) override;
  void on_iteration(std::size_t instance, std::uint32_t number, const workload::inference::Iteration& iteration,
                    Time completed) override;
  /// The run has ended.
  void close(workload::inference::Service& service, Time now);

  double rate(double amount) const;  ///< per second, from the first arrival to the last token
  double slo_attainment_ratio() const;
  double prefix_hit_ratio() const;
  /// Mean of requests. @param part  a workload::inference::TtftPart
  double ttft_part_s(std::size_t part) const {
    return requests > 0 ? ttft_parts[part].seconds() / static_cast<double>(requests) : 0.0;
  }

  const workload::inference::Slo slo;
  Distribution ttft, tpot, e2e;
  TimeHistogram itl;
  std::array<TimeSum, workload::inference::kTtftParts> ttft_parts;
  Time first_arrival = Time::max(), last_token;
  std::uint64_t requests = 0, refused = 0, within_slo = 0;
  std::uint64_t prompt_tokens = 0, output_tokens = 0, cached_tokens = 0, recomputed_tokens = 0, preemptions = 0;
  double kv_wait_sum_s = 0;  ///< from the end of the prompt to the arrival of the KV at the second instance
  struct Stage {
    std::array<double, workload::inference::StageTimes::kUses> seconds;  ///< by StageTimes::Use
  };
  struct Instance {
    std::string name;
    workload::inference::RequestPart part;
    std::uint32_t kv_blocks = 0;  ///< including the reserved block
    std::uint64_t requests = 0;   ///< that have visited it
    Distribution ttft, tpot;      ///< of these
    std::uint32_t peak_blocks = 0;
    std::uint64_t iterations = 0;
    double batch_sum = 0, tokens_sum = 0, padding_sum = 0;
    std::vector<Stage> stages;

    double mean(double sum) const { return iterations > 0 ? sum / static_cast<double>(iterations) : 0.0; }
    double padded_ratio() const { return tokens_sum > 0 ? padding_sum / (tokens_sum + padding_sum) : 0.0; }
  };
  std::vector<Instance> instances;  ///< as in the spec
  /// The instance that computes answers, if there is only one; else null.
  const Instance* decoder() const;
  /// The instance that computes prompts only, if there is only one; else null.
  const Instance* prefiller() const;
  bool has_handoff() const { return instances.back().part == workload::inference::RequestPart::answer; }
  double end_s = 0;
};

const Metrics<ServingFigures>& serving_metrics();

}  // namespace railyard
