// Serves requests with an engine that prefills and decodes: continuous batching. A request goes from its source through
// the API server (host time) into the engine's queue. Each token goes back through the API server to the client.
//
// State is kept only for requests on their way, and passed to the sinks when a request is done.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/study/fidelity_choice.h"
#include "workload/inference/engine.h"
#include "workload/inference/scheduler.h"
#include "workload/inference/serving_spec.h"
#include "workload/phase_listener.h"
#include "workload/request_listener.h"

namespace railyard::workload::inference {

/// A request that is done.
struct Served {
  Request request;
  RequestTimes times;
  Scheduler::Counts counts;
};

class ServingSink {
 public:
  /// `served.times.tokens` is complete.
  virtual void on_served(std::uint32_t request, const Served& served) = 0;
  virtual void on_iteration(std::uint32_t number, const Iteration& iteration, Time completed) = 0;

 protected:
  ~ServingSink() = default;
};

class Serving : private EngineClient, private JobClient, private JobNamer, private transport::CalendarClient {
 public:
  /// @param gpus    of the instance's ranks
  /// @param blocks  of its KV cache, including the reserved block
  Serving(const transformer::ModelShape& model, const ServingSpec& spec, const std::vector<gpu::Gpu*>& gpus,
          std::uint32_t blocks, Executor& executor);

  std::vector<transport::Traffic> traffic();
  void add_sink(ServingSink& sink) { sinks_.push_back(&sink); }
  void follow_requests(RequestListener& listener) { listener_ = &listener; }
  /// Schedules the first arrival. Call once, before the simulation starts.
  void start();

  bool done() const { return served_ == source_->count(); }
  std::uint32_t served() const { return served_; }
  std::uint32_t count() const { return source_->count(); }
  Engine& engine() { return engine_; }
  const Scheduler& scheduler() const { return scheduler_; }
  Instance& instance() { return instance_; }
  /// Requests that wait, for a stall report.
  std::vector<std::string> blocked() const;

 private:
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

  void on_composed(std::uint32_t number, Iteration& iteration) override;
  void on_begun(std::uint32_t request) override;
  void on_token(std::uint32_t request) override;
  void on_finished(std::uint32_t request) override;
  void on_iteration(std::uint32_t number, const Iteration& iteration) override;
  void on_job_done(const Job& job) override;
  void on_event(std::uint32_t tag, std::uint64_t data) override;
  // Host_Request_Req[r]: from a request's arrival until it is queued. Host_Token[i]_Req[r]: delivery of token i.
  std::string name(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "host"; }
  Recorded recorded(std::uint64_t arguments) const override;

  ServingSpec spec_;
  transport::Fabric& fabric_;
  Executor& executor_;
  Instance instance_;
  Scheduler scheduler_;
  Engine engine_;
  std::unique_ptr<RequestSource> source_;
  Rank& api_server_;  ///< a host with one stream for each request on its way
  std::vector<std::size_t> free_streams_;
  std::unordered_map<std::uint32_t, PromptContent> contents_;  ///< of requests in the API server
  std::unordered_map<std::uint32_t, Live> live_;
  std::uint32_t arrived_ = 0, served_ = 0;
  Time scheduled_arrival_ = Time::max();
  std::vector<ServingSink*> sinks_;
  RequestListener* listener_ = nullptr;
};

}  // namespace railyard::workload::inference
