// Serves requests by continuous batching, with one instance that prefills and decodes, or with one instance for each.
//
// A request goes from its source through the API server (host time) into the queue of the first instance. Each token goes
// back through the API server to the client. With two instances, the first one produces the first token and keeps the
// KV; the request waits for its turn in the second one, fetches the KV and is decoded there, as with vLLM's
// NixlConnector.
//
// State is kept only for requests on their way, and passed to the sinks when a request is done.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/study/fidelity_choice.h"
#include "workload/engine_listener.h"
#include "workload/inference/engine.h"
#include "workload/inference/kv_transfer.h"
#include "workload/inference/scheduler.h"
#include "workload/inference/serving_spec.h"
#include "workload/inference/ttft_parts.h"
#include "workload/request_listener.h"

namespace railyard::workload::inference {

/// A request that is done.
struct Served {
  Request request;
  RequestTimes times;
  Scheduler::Counts counts;
  TtftTimes ttft;  ///< add up to first_token - arrival
};

class ServingSink {
 public:
  /// `served.times.tokens` is complete.
  virtual void on_served(std::uint32_t request, const Served& served) = 0;
  /// @param instance  its place in ServingSpec::instances
  virtual void on_iteration(std::size_t instance, std::uint32_t number, const Iteration& iteration, Time completed) = 0;

 protected:
  ~ServingSink() = default;
};

class Serving : private KvTransferClient, private JobClient, private JobNamer, private transport::CalendarClient {
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
  void add_sink(ServingSink& sink) { sinks_.push_back(&sink); }
  void follow_requests(RequestListener& listener) { listener_ = &listener; }
  /// Reports the load of each instance's engine.
  void follow_engines(EngineListener& listener) { engine_listeners_.push_back(&listener); }
  /// Schedules the first arrival. Call once, before the simulation starts.
  void start();

  bool done() const { return served_ + refused_ == source_->count(); }
  std::uint32_t served() const { return served_; }
  /// Requests that the instance can never hold: the API server refuses them when they arrive.
  std::uint32_t refused() const { return refused_; }
  std::uint32_t count() const { return source_->count(); }
  std::size_t instances() const { return sides_.size(); }
  Engine& engine(std::size_t instance) { return sides_[instance]->engine; }
  const Scheduler& scheduler(std::size_t instance) const { return sides_[instance]->scheduler; }
  Instance& instance(std::size_t instance) { return sides_[instance]->instance; }
  /// Requests, with the share of its tokens for a request that is not done.
  double work_done() const { return work_done_; }
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
  struct Live : Served {
    std::size_t stream = 0;   ///< of the API server
    std::uint32_t known = 0;  ///< tokens that the engine has produced
    bool has_left = false;    ///< the engine
  };
  enum What : std::uint8_t { kReceive, kDeliver };
  struct Fields {
    std::uint32_t request;
    std::uint32_t what : 1;
    std::uint32_t token : 31;
  };

  void schedule_arrival();
  void arrive();
  void enter(std::uint32_t request);
  void delivered(std::uint32_t request);
  void finish(std::uint32_t request);
  void tell(std::uint32_t request, RequestPhase phase);
  JobLabel label(std::uint32_t request, What what, std::uint32_t token) const;
  /// A new token of the request exists: sends it to the client.
  void deliver(std::uint32_t request);
  /// The first instance has finished its part.
  void hand_over(std::uint32_t request);
  void leave(std::uint32_t request);

  void on_kv_arrived(std::uint32_t request) override;
  void on_job_done(const Job& job) override;
  void on_event(std::uint32_t tag, std::uint64_t data) override;
  // Host_Request_Req[r]: from a request's arrival until it is queued. Host_Token[i]_Req[r]: delivery of token i.
  std::string name(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "host"; }
  Recorded recorded(std::uint64_t arguments) const override;

  ServingSpec spec_;
  transport::Fabric& fabric_;
  Executor& executor_;
  std::vector<std::unique_ptr<Side>> sides_;
  std::optional<KvTransfer> transfer_;  ///< from the first to the second instance
  std::unique_ptr<RequestSource> source_;
  Rank& api_server_;  ///< a host with one stream for each request on its way
  std::vector<std::size_t> free_streams_;
  std::unordered_map<std::uint32_t, PromptContent>
      contents_;  ///< of requests that have not reached their last instance
  std::unordered_map<std::uint32_t, Live> live_;
  std::uint32_t arrived_ = 0, served_ = 0, refused_ = 0;
  double work_done_ = 0;
  Time scheduled_arrival_ = Time::max();
  std::vector<ServingSink*> sinks_;
  RequestListener* listener_ = nullptr;
  std::vector<EngineListener*> engine_listeners_;
};

}  // namespace railyard::workload::inference
