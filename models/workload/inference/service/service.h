// The room `service` serves requests from arrival to the last token. The ApiServer takes them from their source and brings tokens
// to clients; a Service puts them into the queues of its instances, and a Handoff moves KV from one instance to the other.
// ServingSpec says what runs; PrefillSpec is a preset of it. Kinds of workloads own a service and listen to it (ServiceSink).
//
// Serves requests, with one instance that prefills and decodes, or with one instance for each. A scheduler forms the
// batches of each instance (scheduler.h).
//
// The API server puts requests into the queue of the first instance. With two instances, the first one computes the
// prompt and keeps the KV until it has been read. There are two orders:
//
//   fetched   the request then waits for its turn in the second instance, takes memory there, fetches the KV and is
//             decoded, as with vLLM's NixlConnector
//   pushed    the request takes memory in the second instance first, and then enters the queue of the first one, which
//             sends KV while it computes, as with SGLang's disaggregation
//
// The client gets its first token by the engine's rule (FirstToken): vLLM throws the token of the first instance away, and
// the second one computes it again; SGLang and TensorRT-LLM bring it from the second instance when the KV is there.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/study/fidelity_choice.h"
#include "workload/engine_listener.h"
#include "workload/inference/engine/engine.h"
#include "workload/inference/engine/ttft_parts.h"
#include "workload/inference/scheduler/scheduler.h"
#include "workload/inference/service/api_server.h"
#include "workload/inference/service/handoff.h"
#include "workload/inference/service/serving_spec.h"
#include "workload/phase_listener.h"

namespace railyard::workload::inference {

class ServiceSink : public RequestSink {
 public:
  void on_served(std::uint32_t, const Served&) override {}
  /// @param instance  its place in ServingSpec::instances
  virtual void on_iteration(std::size_t /*instance*/, std::uint32_t /*number*/, const Iteration&, Time /*completed*/) {}

 protected:
  ~ServiceSink() = default;
};

class Service : private ApiServerClient, private HandoffClient {
 public:
  /// An instance of the spec on the machine.
  struct Placed {
    std::vector<gpu::Gpu*> gpus;  ///< of its ranks
    std::uint32_t blocks = 0;     ///< of its paged KV cache, including the reserved block
  };
  /// @param placed  one for each instance of the spec
  Service(const transformer::ModelShape& model, const ServingSpec& spec, const std::vector<Placed>& placed,
          Executor& executor);

  /// Estimate of the traffic on the fabric: collectives, activations, and the handoff.
  std::vector<transport::Traffic> traffic();
  /// There can be several sinks. Call before the simulation starts.
  void add_sink(ServiceSink& sink);
  /// Phases of requests, and memory that is not paged and that instances promise to them.
  void follow_requests(RequestListener& listener);
  /// Load of the engines with paged KV cache.
  void follow_engines(EngineListener& listener) { engine_listeners_.push_back(&listener); }
  /// The two phases: time in which at least one request is in the first instance and has no token, and time in which at
  /// least one request is between the begin of its first decode step and its last token.
  void follow_phases(PhaseListener& listener) { phases_ = &listener; }
  /// Schedules the first arrival. Call once, before the simulation starts.
  void start();

  /// Requests: what clients have sent and received. A request that an instance can never hold is refused.
  const ApiServer& api_server() const { return api_server_; }
  std::size_t instances() const { return sides_.size(); }
  Instance& instance(std::size_t place) { return sides_[place]->instance; }
  Engine& engine(std::size_t place) { return sides_[place]->engine; }
  const Scheduler& scheduler(std::size_t place) const { return sides_[place]->scheduler; }
  /// Duration of the first phase.
  Time prefill_window() const { return window_; }
  /// Requests that wait, for a stall report.
  std::vector<std::string> blocked() const;

 private:
  /// An instance and its engine.
  struct Side : EngineClient {
    Side(Service& owner, std::size_t place, const transformer::ModelShape& model, const Placed& placed,
         Executor& executor);
    const InstanceSpec& spec() const { return service.spec_.instances[place]; }
    bool is_first() const { return place == 0; }
    bool is_last() const { return place + 1 == service.sides_.size(); }
    bool is_paged() const { return spec().scheduler.reserve != Reserve::ahead; }
    EngineSpec engine_spec() const;
    /// Allocates memory. @return blocks of the KV cache, including the reserved block
    std::uint32_t load(std::uint32_t paged_blocks);

    /// A request enters the queue.
    void add(std::uint32_t request, const Request& what, RequestContent content);
    /// Takes memory for requests that wait for it outside of batches.
    void reserve();
    void on_reserved(const Reservation& reservation);
    /// The request's first token is known here: adds the parts of its time in this instance.
    void close_ttft(std::uint32_t request);
    /// Reports load and memory.
    void report();

    void on_composed(std::uint32_t pass, const Iteration& iteration) override;
    void on_asked(const ScheduledBatch& batch) override;
    void on_attention_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t layer,
                              JobRef job) override;
    void on_batch_begun(std::uint32_t pass, const ScheduledBatch& batch) override;
    void on_activity(std::uint32_t pass, std::uint32_t stage, PassActivity activity) override;
    void on_begun(std::uint32_t request) override;
    void on_iteration(std::uint32_t number, const Iteration& iteration) override;
    void on_token(std::uint32_t request) override;
    void on_finished(std::uint32_t request) override;
    void on_batch_done(const ScheduledBatch& batch) override;

    Service& service;
    std::size_t place;
    Instance instance;
    Scheduler scheduler;
    Engine engine;
    std::optional<TtftClock> ttft;  ///< if it is paged, and a part of the TTFT
    EngineLoad reported;
    Bytes reported_kv = 0;  ///< promised on a rank of stage 0
  };

  std::vector<std::unique_ptr<Side>> make_sides(const transformer::ModelShape& model,
                                                const std::vector<Placed>& placed);
  bool pushes() const { return handoff_ && handoff_->pushes(); }
  /// Bytes of the handoff between two ranks, over all requests.
  double handed_over(const HandoffPlan::Share& share) const;
  /// Whether the second instance takes part in a request.
  bool is_handed_over(const Request& request) const;
  /// Whether the second instance computes tokens of it.
  bool decodes(const Request& request) const;
  /// Whether the client gets the first token from the first instance.
  bool is_first_token_of_prefill(const Request& request) const;
  /// The request enters the queue of the first instance; then it has memory there, unless batches take it.
  void admit(std::uint32_t request);
  void admitted(std::uint32_t request);
  void prefilled(std::uint32_t request);
  /// The first of two instances has finished its part; the last instance has finished.
  void hand_over(std::uint32_t request);
  void finish(std::uint32_t request);
  enum Phase : std::size_t { kPrefill, kDecode };
  void count(std::uint32_t& requests, int more, Phase phase);

  bool can_hold(const Request& request) const override;
  void on_queued(std::uint32_t request, RequestContent content) override;
  void on_forwarded(std::uint32_t request) override;
  void on_kv_arrived(std::uint32_t request) override;

  ServingSpec spec_;
  transport::Fabric& fabric_;
  Executor& executor_;
  std::vector<std::unique_ptr<Side>> sides_;
  std::optional<Handoff> handoff_;  ///< from the first to the second instance
  ApiServer api_server_;
  std::unordered_map<std::uint32_t, RequestContent>
      contents_;                                  ///< of requests that are not in the queue of their last instance
  std::uint32_t in_prefill_ = 0, in_decode_ = 0;  ///< requests
  Time window_since_, window_;
  RequestListener* listener_ = nullptr;
  PhaseListener* phases_ = nullptr;
  std::vector<ServiceSink*> sinks_;
  std::vector<EngineListener*> engine_listeners_;
};

}  // namespace railyard::workload::inference
