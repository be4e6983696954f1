// The figures of workload.kind: disaggregated_prefill, collected while requests are served, and its metrics, which are
// made of these figures.
#pragma once

#include <vector>

#include "sc_main/distribution.h"
#include "sc_main/metric.h"
#include "workload/inference/service/service.h"

namespace railyard {

class PrefillFigures : public workload::inference::ServiceSink {
 public:
  void on_served(std::uint32_t request, const workload::inference::Served& served) override;
  /// Adds the figures of the two instances until now.
  void close(workload::inference::Service& service);

  // Of requests, in the order in which they finished.
  std::vector<double> ttft_s, decode_start_s, queueing_s, exposed_kv_s;
  std::vector<double> tpot_s;  ///< only of requests with at least two output tokens
  /// Achieved rates, from the first arrival to the last token, regardless of the rates that the groups could reach.
  double rate(double amount) const;
  double prompt_tokens = 0, output_tokens = 0;

  double prefill_window_s = 0, prefill_capacity_tokens_per_s = 0, bubble_fraction = 0;
  std::vector<double> stage_utilisation;
  std::uint64_t decode_steps = 0, decode_tokens = 0;
  double decode_step_s = 0, decode_batch = 0, decode_capacity_tokens_per_s = 0;
  workload::inference::RankTimes prefill, decode;  ///< mean over the ranks

 private:
  void add_prefill(workload::inference::Service& service);
  void add_decode(workload::inference::Service& service);

  Time first_arrival_ = Time::max(), last_token_;
};

const Metrics<PrefillFigures>& prefill_metrics();

}  // namespace railyard
