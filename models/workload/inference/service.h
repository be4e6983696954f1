// Disaggregated prefill, the main kind of workload. One instance of GPUs prefills prompts in chunks. Their KV cache is
// handed off to another instance, which decodes.
//
// Requests are admitted first come first served, when both instances have room for their KV. So a handoff always finds
// memory, and memory is never over-committed. The prefill instance frees the KV of a request when the handoff has
// arrived.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "transport/study/fidelity_choice.h"
#include "workload/inference/decode_groups.h"
#include "workload/inference/engine.h"
#include "workload/inference/handoff.h"
#include "workload/inference/prompt_queue.h"
#include "workload/phase_listener.h"
#include "workload/request_listener.h"

namespace railyard::workload::inference {

class Service : private HandoffClient, private JobClient, private JobNamer, private transport::CalendarClient {
 public:
  Service(const transformer::ModelShape& model, const PrefillSpec& spec, const std::vector<gpu::Gpu*>& prefill_gpus,
          const std::vector<gpu::Gpu*>& decode_gpus, Executor& executor);

  /// Estimate of the traffic on the fabric: collectives and activations of prompts and steps, and the handoff.
  std::vector<transport::Traffic> traffic();
  void follow_requests(RequestListener& listener) { listener_ = &listener; }
  /// There can be several sinks. Call before the simulation starts.
  void add_sink(RequestSink& sink) { sinks_.push_back(&sink); }
  /// The two phases: time in which at least one admitted prompt is not prefilled, and time in which at least one
  /// request is between the begin of its first decode step and its last token.
  void follow_phases(PhaseListener& listener) { phases_ = &listener; }
  /// Schedules the arrivals. Call once, before the simulation starts.
  void start();

  const PrefillSpec& spec() const { return spec_; }
  const std::vector<RequestTimes>& requests() const { return requests_; }
  std::size_t finished() const { return finished_.size(); }
  bool done() const { return finished_.size() == requests_.size(); }
  /// Requests in the order in which they finished.
  const std::vector<std::uint32_t>& finished_order() const { return finished_; }
  Instance& prefill_instance() { return prefill_instance_; }
  Instance& decode_instance() { return decode_instance_; }
  const Engine& prefill() const { return prefill_; }
  const Engine& decode() const { return decode_; }
  /// Sum over decode steps of the time from a step's start to its tokens. A step starts when it is composed and the
  /// previous step is complete.
  double decode_step_seconds() const { return step_seconds_; }
  /// Duration of the prefill phase: the pipeline's window.
  Time prefill_window() const { return window_; }
  /// Requests that wait for memory, for a stall report.
  std::vector<std::string> blocked() const;

 private:
  /// Bytes of a share, summed over all requests.
  double handed_over(const HandoffPlan& plan, const HandoffPlan::Share& share) const;
  std::uint64_t kv_tokens(std::uint32_t request) const;
  void enter(std::uint32_t request);
  void admit();
  /// A new token of the request exists: sends it to the client.
  void deliver(std::uint32_t request);
  void delivered(std::uint32_t request);
  void tell(std::uint32_t request, RequestPhase phase);
  enum Phase : std::size_t { kPrefill, kDecode };
  void count(std::uint32_t& requests, int more, Phase phase);
  void tell_kv(const char* group, const Instance& instance);
  /// Frees the request's KV: its computation is finished.
  void leave(std::uint32_t request);
  void check_done(std::uint32_t request);
  enum What : std::uint8_t { kReceive, kDeliver };  ///< host jobs of this class, each for one request
  struct Fields {
    std::uint32_t request;
    std::uint32_t what : 1;
    std::uint32_t : 31;
  };
  JobLabel label(std::uint32_t request, What what) const;

  void on_job_done(const Job& job) override;
  // Host_Request: from a request's arrival until it is queued. Host_Token[i]: delivery of output token i to the client.
  std::string name(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "host"; }
  Recorded recorded(std::uint64_t arguments) const override;
  void on_handed_off(std::uint32_t request) override;
  /// The first token exists and the last byte of the prompt's KV has arrived at its decode ranks.
  void check_landed(std::uint32_t request);
  void on_kv_landed(std::uint32_t request);
  void on_event(std::uint32_t tag, std::uint64_t request) override;

  PrefillSpec spec_;
  transport::Fabric& fabric_;
  Executor& executor_;
  Instance prefill_instance_, decode_instance_;
  // The clients of the two engines.
  struct PrefillSide : EngineClient {
    Service& service;
    explicit PrefillSide(Service& owner) : service(owner) {}
    void on_composed(std::uint32_t pass, Iteration& iteration) override;
    void on_attention_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t layer,
                              JobRef job) override;
    void on_begun(std::uint32_t request) override;
    void on_iteration(std::uint32_t, const Iteration&) override {}
    void on_token(std::uint32_t request) override;
    void on_finished(std::uint32_t request) override;
  } prefill_side_{*this};
  struct DecodeSide : EngineClient {
    Service& service;
    explicit DecodeSide(Service& owner) : service(owner) {}
    void on_begun(std::uint32_t request) override;
    void on_iteration(std::uint32_t, const Iteration& iteration) override;
    void on_token(std::uint32_t request) override { service.deliver(request); }
    void on_finished(std::uint32_t request) override;
  } decode_side_{*this};
  PromptQueue prompts_;
  DecodeGroups groups_;
  Engine prefill_, decode_;
  std::vector<Batch::Chunk> chunks_;  ///< by prefill pass
  Handoff handoff_;
  std::vector<bool> first_token_;  ///< by request: prefill has produced the first token
  double step_seconds_ = 0;
  Time step_done_;  ///< end of the latest finished decode step
  std::vector<RequestTimes> requests_;
  Rank& api_server_;                   ///< a host with one stream per request
  std::deque<std::uint32_t> arrived_;  ///< arrived, not admitted yet
  std::vector<std::uint32_t> finished_;
  std::uint32_t in_prefill_ = 0, in_decode_ = 0;
  Time window_since_, window_;
  RequestListener* listener_ = nullptr;
  std::vector<RequestSink*> sinks_;
  PhaseListener* phases_ = nullptr;
};

}  // namespace railyard::workload::inference
