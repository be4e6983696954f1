// The figures of workload.kind: serving and its preset, collected while requests are served, and their metrics, which are made of
// them. Only a few numbers are kept for each request.
#pragma once

#include <cstdint>
#include <map>

#include "sc_main/distribution.h"
#include "sc_main/kinds/serving_load.h"
#include "sc_main/kinds/serving_periods.h"
#include "sc_main/metric.h"
#include "workload/inference/service/service.h"

namespace railyard {

/// 0 if there is nothing to have a share of.
inline double share_of(double amount, double of) { return of > 0 ? amount / of : 0.0; }

class ServingFigures final : public workload::inference::ServiceSink {
 public:
  /// @param kv_blocks  of each instance, including the reserved block
  /// @param during     the events of the scenario
  ServingFigures(const workload::inference::ServingSpec& spec, const std::vector<std::uint32_t>& kv_blocks,
                 const std::optional<ServingPeriods::During>& during);

  void on_served(std::uint32_t request, const workload::inference::Stay& stay) override;
  void on_kv_moved(const workload::inference::KvMoved& moved) override;
  void on_iteration(std::size_t instance, std::uint32_t number, const workload::inference::Iteration& iteration,
                    Time completed) override;
  /// The run has ended.
  void close(workload::inference::Service& service, Time now);

  double rate(double amount) const;  ///< per second, from the first arrival to the last token
  /// The second and third quarter of this time; no seconds, if it is shorter than a few bins.
  WorkBins::Span middle() const;
  /// Whether requests in the system grew while they arrived; none, if all arrive at once or some are not done.
  std::optional<LoadGrowth> growth() const;
  double slo_attainment_ratio() const;
  double tokens_per_step() const {
    return 1 + share_of(static_cast<double>(accepted_tokens), static_cast<double>(verifying_steps));
  }
  double prefix_hit_ratio() const;
  double host_hit_ratio() const;
  double others_hit_ratio() const;
  double disk_hit_ratio() const;
  double peer_hit_ratio() const;
  /// Mean of requests. @param part  a workload::inference::TtftPart
  double ttft_part_s(std::size_t part) const {
    return requests > 0 ? ttft_parts[part].seconds() / static_cast<double>(requests) : 0.0;
  }

  const workload::inference::Slo slo;
  const bool is_paged;  ///< KV cache
  Distribution ttft, tpot, e2e;
  Distribution ttft_admitted;  ///< from the first kernel of the request's first batch
  Distribution decode_start;   ///< from arrival to the first batch of the instance with the answer
  TimeHistogram itl;
  ServingPeriods periods;
  const bool has_changes;  ///< instances are drained, fail or join
  std::uint64_t restarts = 0, lost_tokens = 0, repeated_tokens = 0;
  double loaded_weight_bytes = 0;
  std::array<TimeSum, workload::inference::kTtftParts> ttft_parts;
  Time first_arrival = Time::max(), last_arrival, last_token;
  WorkBins work;
  std::vector<RequestSpan> spans;
  bool is_done = false;  ///< all requests are
  const bool has_sessions;
  const bool has_leaves;
  std::uint64_t aborted = 0;                      ///< requests whose clients have left
  const bool is_decider_asked;                    ///< conditional disaggregation
  std::map<std::uint64_t, RequestSpan> sessions;  ///< first arrival, last token
  Distribution session_times() const;
  std::uint64_t requests = 0, refused = 0, within_slo = 0;
  std::uint64_t kept_prompts = 0;  ///< requests whose prompt a decode instance has computed
  std::uint64_t prompt_tokens = 0, output_tokens = 0, cached_tokens = 0, recomputed_tokens = 0, preemptions = 0;
  std::uint64_t loaded_tokens = 0;  ///< found in host memory
  const bool shares_host;
  std::uint64_t others_tokens = 0;  ///< of these, written there by another instance or replica
  const bool has_speculation;
  std::uint64_t drafted_tokens = 0, accepted_tokens = 0;
  std::uint64_t verifying_steps = 0;  ///< of requests: steps with drafts
  std::uint64_t read_tokens = 0;      ///< of prompts, read from disks
  std::uint64_t peer_tokens = 0;      ///< of prompts, read from the host memory of peers
  std::uint64_t host_blocks = 0;      ///< of KV in host memory, of all instances; 0: none
  std::uint64_t disk_blocks = 0;      ///< on disks
  double kv_loaded_bytes = 0, kv_stored_bytes = 0, kv_read_bytes = 0, kv_written_bytes = 0, kv_peer_bytes = 0;
  bool has_kv_peers = false;
  double queue_sum_s = 0;  ///< from the entry into the queue to the first kernel
  std::uint64_t kv_transfers = 0, kv_descriptors = 0;
  double kv_bytes = 0, kv_handshake_s = 0, kv_post_s = 0, kv_staging_s = 0, kv_wire_s = 0,
         kv_alone_s = 0;     ///< sums over transfers
  double kv_wait_sum_s = 0;  ///< from the end of the prompt to the arrival of the KV at the second instance
  struct Stage {
    std::array<double, workload::inference::StageTimes::kUses> seconds;  ///< by StageTimes::Use
  };
  struct Instance {
    std::string name;
    workload::inference::InstanceRole role;
    std::uint32_t kv_blocks = 0;  ///< including the reserved block
    std::uint64_t requests = 0;   ///< that have visited it
    Distribution ttft, tpot;      ///< of these
    ServingPeriods periods;
    std::uint32_t peak_blocks = 0;
    std::uint64_t iterations = 0;
    std::uint64_t tokens = 0;                           ///< in its batches
    std::uint64_t found_tokens = 0, prompt_tokens = 0;  ///< in the prefix index, and in all, of prompts that started
    double batch_sum = 0, padding_sum = 0;
    double batches_s =
        0;  ///< of a batch: from the later of its composition and the end of the one before to its tokens
    std::vector<Stage> stages;
    std::vector<workload::inference::RankTimes> ranks;  ///< by stage: mean over its ranks
    std::uint32_t ranks_of_stage = 0;

    double mean(double sum) const { return iterations > 0 ? sum / static_cast<double>(iterations) : 0.0; }
    double padded_ratio() const { return tokens > 0 ? padding_sum / (static_cast<double>(tokens) + padding_sum) : 0.0; }
    workload::inference::RankTimes mean_times() const;  ///< over its ranks
    double prefix_hit_ratio() const {
      return prompt_tokens > 0 ? static_cast<double>(found_tokens) / static_cast<double>(prompt_tokens) : 0.0;
    }
    double tokens_per_s() const { return batches_s > 0 ? static_cast<double>(tokens) / batches_s : 0.0; }
  };
  std::vector<Instance> instances;  ///< as in the spec
  /// The instance that computes answers, if there is only one; else null.
  const Instance* decoder() const;
  /// The instance that computes prompts only, if there is only one; else null.
  const Instance* prefiller() const;
  bool has_handoff() const;
  /// Mean over the ranks of all instances that compute prompts; or over those that compute only answers.
  workload::inference::RankTimes mean_times(bool of_answers) const;
  /// Of the instances that compute prompts only, while the prompt of at least one request there is not complete.
  double prefill_tokens_per_s() const;
  double bubble_fraction() const;
  /// Kernels of a rank of a stage.
  double stage_utilisation(const Instance& instance, std::size_t stage) const;
  double prefill_window_s = 0;
  double end_s = 0;
};

const Metrics<ServingFigures>& serving_metrics();

}  // namespace railyard
