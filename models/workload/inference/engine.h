// A serving engine: an instance, its scheduler and its batches in flight.
//
// The engine composes a batch as soon as fewer than `max_in_flight` batches are in flight and something can run. A batch
// passes through the stages (pipeline.h). It is complete when its sampled tokens are known: with one stage at the end of
// the pass, else when the last stage's token ids have arrived at stage 0. So with max_in_flight = pp every stage can
// have a batch, and an asynchronous host with max_in_flight = 2 on one stage composes a batch while the one before runs.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "workload/inference/cuda_graphs.h"
#include "workload/inference/pipeline.h"
#include "workload/inference/scheduler.h"
#include "workload/inference/stage_times.h"

namespace railyard::workload::inference {

/// A batch on its way, and the engine at its composition.
struct Iteration {
  ScheduledBatch batch;
  Time composed, begun;
  std::uint32_t prompts = 0, decodes = 0;
  std::size_t running = 0, waiting = 0;  ///< requests
  std::uint32_t blocks_held = 0;
  std::uint64_t padded_tokens = 0;
  std::uint32_t tokens_back = 0;  ///< ranks of stage 0 that have the batch's token ids
};

class EngineClient {
 public:
  /// The request's first kernel begins.
  virtual void on_begun(std::uint32_t request) = 0;
  virtual void on_token(std::uint32_t request) = 0;
  /// The last token is known; the request has left the engine.
  virtual void on_finished(std::uint32_t request, const Scheduler::Counts& counts) = 0;
  /// All tokens of an iteration are known. Called before on_token() of its requests.
  virtual void on_iteration(std::uint32_t number, const Iteration& iteration) = 0;

 protected:
  ~EngineClient() = default;
};

class Engine : private PassClient, private JobClient, private JobNamer, private transport::CalendarClient {
 public:
  /// @param blocks  of the KV cache, including the reserved block
  Engine(Instance& instance, const SchedulerSpec& spec, std::uint32_t blocks, const CudaGraphs& graphs,
         const Host& host, PpSend pp_send, Executor& executor, EngineClient& client);

  void add(std::uint32_t number, const Request& request, PromptContent content);

  const Scheduler& scheduler() const { return scheduler_; }
  const Pipeline& pipeline() const { return pipeline_; }
  /// Times until now.
  const StageTimes& stages();
  std::uint32_t iterations() const { return composed_; }

 private:
  static constexpr std::uint32_t kMayCompose = 0;  ///< gate: something has changed since the last batch
  /// Composes batches at the end of this instant, so that all of the instant's arrivals and tokens count.
  void wake();
  void compose();
  Pass plan(const ScheduledBatch& batch, Iteration& iteration);
  void complete();

  void on_pass_begun(std::uint32_t pass) override;
  void on_stage_begun(std::uint32_t pass, std::uint32_t stage) override;
  void on_stage_done(std::uint32_t pass, std::uint32_t stage) override;
  void on_attention_emitted(std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, JobRef) override {}
  void on_stage_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, JobRef job) override;
  void on_pass_done(std::uint32_t pass) override;
  void on_event(std::uint32_t tag, std::uint64_t data) override;

  // Jobs of the engine itself: sampled tokens to the first stage, PP_Token_FromP[p]_ToP[0]_TP[t]_It[i].
  struct Fields {
    std::uint32_t iteration;
    std::uint32_t stage : 16, tp : 16;
  };
  void on_job_done(const Job& job) override;
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "pp"; }
  Recorded recorded(std::uint64_t) const override { return Recorded::stage; }

  Instance& instance_;
  CudaGraphs graphs_;
  Host host_;
  Executor& executor_;
  EngineClient& client_;
  Scheduler scheduler_;
  Pipeline pipeline_;
  StageTimes stages_;
  std::deque<Iteration> in_flight_;
  std::uint32_t composed_ = 0, completed_ = 0;
  bool is_awake_ = false;
};

}  // namespace railyard::workload::inference
