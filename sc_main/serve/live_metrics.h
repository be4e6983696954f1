// Counts for GET /metrics, under vLLM's names and in the text format of Prometheus. The simulation's thread counts, any thread may ask
// for the text. Times are simulated.
#pragma once

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "sc_main/serve/api_request.h"
#include "workload/engine_listener.h"
#include "workload/inference/service/service.h"

namespace railyard::serve {

/// A histogram of Prometheus: observations up to each bound.
class PrometheusHistogram {
 public:
  explicit PrometheusHistogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void add(double value);
  /// @param labels  of all lines: `model_name="m"`
  std::string text(const std::string& name, const std::string& help, const std::string& labels) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;  ///< by bound; the last: beyond all
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

class LiveMetrics : public workload::inference::ServiceSink, public workload::EngineListener {
 public:
  /// @param kv_blocks  of each engine
  LiveMetrics(ApiModel model, double pace, std::vector<std::uint32_t> kv_blocks);

  /// The simulation has come to an instant, and is this far behind the wall clock.
  void on_progress(Time now, double behind_s);
  /// An answer is complete. @param by_itself  as if the model had ended it
  void on_end(bool by_itself);
  std::string text() const;

  void on_token(std::uint32_t request, const workload::inference::Stay& stay) override;
  void on_served(std::uint32_t request, const workload::inference::Stay& stay) override;
  void on_refused(std::uint32_t request) override;
  void on_aborted(std::uint32_t request, const workload::inference::Stay& stay) override;
  void on_iteration(std::size_t instance, std::uint32_t number, const workload::inference::Iteration& iteration,
                    Time completed) override;
  void on_load(std::size_t engine, const workload::EngineLoad& load, Time now) override;

 private:
  const ApiModel model_;
  const double pace_;
  const std::vector<std::uint32_t> kv_blocks_;

  mutable std::mutex mutex_;
  std::vector<workload::EngineLoad> loads_;
  std::uint64_t prompt_tokens_ = 0, answer_tokens_ = 0, limited_ = 0, stopped_ = 0, refused_ = 0, aborted_ = 0,
                preemptions_ = 0, hits_ = 0;
  PrometheusHistogram ttft_, itl_, tpot_, e2e_, queue_, prefill_, decode_, prompts_, answers_, iterations_;
  Time now_;
  double behind_s_ = 0, most_behind_s_ = 0;
};

}  // namespace railyard::serve
