// Serves requests by continuous batching, with one instance that prefills and decodes, or with one instance for each.
//
// The API server puts requests into the queue of the first instance. With two instances, the first one produces the first token and keeps the
// KV; the request waits for its turn in the second one, fetches the KV and is decoded there, as with vLLM's
// NixlConnector.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/study/fidelity_choice.h"
#include "workload/engine_listener.h"
#include "workload/inference/api_server.h"
#include "workload/inference/engine.h"
#include "workload/inference/kv_transfer.h"
#include "workload/inference/scheduler.h"
#include "workload/inference/serving_spec.h"
#include "workload/inference/ttft_parts.h"

namespace railyard::workload::inference {

class ServingSink : public RequestSink {
 public:
  /// @param instance  its place in ServingSpec::instances
  virtual void on_iteration(std::size_t instance, std::uint32_t number, const Iteration& iteration, Time completed) = 0;

 protected:
  ~ServingSink() = default;
};

class Serving : private ApiServerClient, private KvTransferClient {
 public:
  /// An instance of the spec on the machine.
  struct Placed {
    std::vector<gpu::Gpu*> gpus;  ///< of its ranks
    std::uint32_t blocks = 0;     ///< of its KV cache, including the reserved block
  };
  /// @param placed  one for each instance of the spec
  Serving(const transformer::ModelShape& model, const ServingSpec& spec, const std::vector<Placed>& placed,
          Executor& executor);

  std::vector<transport::Traffic> traffic();
  void add_sink(ServingSink& sink) {
    api_server_.add_sink(sink);
    sinks_.push_back(&sink);
  }
  void follow_requests(RequestListener& listener) { api_server_.follow(listener); }
  /// Reports the load of each instance's engine.
  void follow_engines(EngineListener& listener) { engine_listeners_.push_back(&listener); }
  /// Schedules the first arrival. Call once, before the simulation starts.
  void start();

  /// Requests: what clients have sent and received. A request that an instance can never hold is refused.
  const ApiServer& api_server() const { return api_server_; }
  std::size_t instances() const { return sides_.size(); }
  Engine& engine(std::size_t instance) { return sides_[instance]->engine; }
  const Scheduler& scheduler(std::size_t instance) const { return sides_[instance]->scheduler; }
  Instance& instance(std::size_t instance) { return sides_[instance]->instance; }
  /// Requests that wait, for a stall report.
  std::vector<std::string> blocked() const;

 private:
  /// An instance and its engine.
  struct Side : EngineClient {
    Side(Serving& owner, std::size_t place, const transformer::ModelShape& model, const Placed& placed,
         Executor& executor);
    const InstanceSpec& spec() const { return serving.spec_.instances[place]; }
    /// A request enters the queue.
    void add(std::uint32_t request, const Request& what, PromptContent content);

    /// Reports the load, if it has changed.
    void report_load();

    void on_composed(std::uint32_t number, Iteration& iteration) override;
    void on_asked(const ScheduledBatch& batch) override;
    void on_batch_begun(std::uint32_t pass, const ScheduledBatch& batch) override;
    void on_activity(std::uint32_t pass, std::uint32_t stage, PassActivity activity) override;
    void on_begun(std::uint32_t request) override;
    void on_iteration(std::uint32_t number, const Iteration& iteration) override;
    void on_token(std::uint32_t request) override;
    void on_finished(std::uint32_t request) override;
    void on_batch_done(const ScheduledBatch& batch) override;

    Serving& serving;
    std::size_t place;
    Instance instance;
    Scheduler scheduler;
    Engine engine;
    TtftClock ttft;
    EngineLoad reported;
  };
  /// The first instance has finished its part.
  void hand_over(std::uint32_t request);

  bool can_hold(const Request& request) const override;
  void on_queued(std::uint32_t request, PromptContent content) override;
  void on_kv_arrived(std::uint32_t request) override;

  ServingSpec spec_;
  transport::Fabric& fabric_;
  Executor& executor_;
  std::vector<std::unique_ptr<Side>> sides_;
  std::optional<KvTransfer> transfer_;  ///< from the first to the second instance
  ApiServer api_server_;
  std::unordered_map<std::uint32_t, PromptContent> contents_;  ///< of requests that the second instance will compute
  std::vector<ServingSink*> sinks_;
  std::vector<EngineListener*> engine_listeners_;
};

}  // namespace railyard::workload::inference
