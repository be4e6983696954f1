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
#include "workload/inference/api_server.h"
#include "workload/inference/decode_groups.h"
#include "workload/inference/engine.h"
#include "workload/inference/handoff.h"
#include "workload/inference/prompt_queue.h"
#include "workload/phase_listener.h"

namespace railyard::workload::inference {

class Service : private ApiServerClient, private HandoffClient {
 public:
  Service(const transformer::ModelShape& model, const PrefillSpec& spec, const std::vector<gpu::Gpu*>& prefill_gpus,
          const std::vector<gpu::Gpu*>& decode_gpus, Executor& executor);

  /// Estimate of the traffic on the fabric: collectives and activations of prompts and steps, and the handoff.
  std::vector<transport::Traffic> traffic();
  void follow_requests(RequestListener& listener) {
    listener_ = &listener;
    api_server_.follow(listener);
  }
  /// There can be several sinks. Call before the simulation starts.
  void add_sink(RequestSink& sink) { api_server_.add_sink(sink); }
  /// The two phases: time in which at least one admitted prompt is not prefilled, and time in which at least one
  /// request is between the begin of its first decode step and its last token.
  void follow_phases(PhaseListener& listener) { phases_ = &listener; }
  /// Schedules the arrivals. Call once, before the simulation starts.
  void start();

  const PrefillSpec& spec() const { return spec_; }
  const ApiServer& api_server() const { return api_server_; }
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
  void admit();
  enum Phase : std::size_t { kPrefill, kDecode };
  void count(std::uint32_t& requests, int more, Phase phase);
  void tell_kv(const char* group, const Instance& instance);
  /// Frees the request's KV: its computation is finished.
  void leave(std::uint32_t request);

  /// Memory for every request has been checked before the run.
  bool can_hold(const Request&) const override { return true; }
  void on_queued(std::uint32_t request, PromptContent content) override;
  void on_handed_off(std::uint32_t request) override;
  /// The first token exists and the last byte of the prompt's KV has arrived at its decode ranks.
  void check_landed(std::uint32_t request);
  void on_kv_landed(std::uint32_t request);

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
    void on_token(std::uint32_t request) override { service.api_server_.deliver(request); }
    void on_finished(std::uint32_t request) override;
  } decode_side_{*this};
  PromptQueue prompts_;
  DecodeGroups groups_;
  Engine prefill_, decode_;
  std::vector<Batch::Chunk> chunks_;  ///< by prefill pass
  Handoff handoff_;
  double step_seconds_ = 0;
  Time step_done_;  ///< end of the latest finished decode step
  ApiServer api_server_;
  std::deque<std::uint32_t> queued_;  ///< not admitted yet
  std::uint32_t in_prefill_ = 0, in_decode_ = 0;
  Time window_since_, window_;
  RequestListener* listener_ = nullptr;
  PhaseListener* phases_ = nullptr;
};

}  // namespace railyard::workload::inference
