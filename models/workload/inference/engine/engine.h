// The room `engine` runs an Instance: a Grid, which is the model on its GPUs with ranks, communicators, kernel times and memory; a
// Scheduler; and an Engine, which asks the scheduler for batches, plans each as a Pass (pass.h), and has a Pipeline emit the
// jobs, stage after stage. StageTimes and TtftClock observe: what stages do, and what a request waits for. serving_rules.h,
// cuda_graphs.h and instance_spec.h say in what engines differ. A service owns instances, by number, and is their client; an
// instance knows no other one.
//
// A serving engine: an instance that runs the batches of its scheduler.
//
// The engine asks for a batch whenever the scheduler may compose one: at the end of the instant at which something has
// changed, so that all arrivals and tokens of the instant count. A batch passes through the stages (pipeline.h). It is
// complete when its sampled tokens are known: at the end of the last stage, or when the token ids have arrived at stage
// 0, where the scheduler is.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workload/inference/engine/cuda_graphs.h"
#include "workload/inference/engine/drafter.h"
#include "workload/inference/engine/pipeline.h"
#include "workload/inference/engine/stage_times.h"
#include "workload/inference/scheduler/scheduler.h"

namespace railyard::workload::inference {

/// The way of sampled token ids, if there are several stages.
enum class TokenIds : std::uint8_t {
  stay,            ///< the last stage delivers them to the host
  to_next_batch,   ///< the last stage delivers them, and sends them to stage 0, where the group's next batch needs them
  to_first_stage,  ///< a batch is complete when they are at stage 0
};

struct EngineSpec {
  PassNames names = PassNames::iteration;
  StageHop hop;
  Host host;
  CudaGraphs graphs;
  MicroBatchRules micro_batches;
  TokenIds token_ids = TokenIds::to_first_stage;
  std::uint32_t max_in_flight = 1;  ///< batches, for the causes of idle stages
  bool names_requests = false;      ///< names of passes contain the request
  /// What the next batch of a group needs of the ones before, for critical paths: their first kernels, their tokens.
  bool needs_begin = true, needs_tokens = true;
  /// Also for these: a batch is a part of one request, one after the other as they came. It waits for its request.
  bool in_turn = false;
  HandoffGrain handoff = HandoffGrain::fetched;  ///< when what has been computed of a request's KV is sent
  std::string suffix;                            ///< of names of passes and their jobs: "_Inst[a]"
};

/// A batch on its way.
struct Iteration {
  ScheduledBatch batch;
  Time composed, begun;
  std::uint32_t prompts = 0, decodes = 0;
  std::uint64_t padded_tokens = 0;  ///< tokens for which everything but attention runs
  // State of the scheduler at the composition.
  std::size_t running = 0, waiting = 0;  ///< requests
  std::uint32_t blocks_held = 0;
  std::uint32_t tokens_back = 0;  ///< ranks of stage 0 that have the batch's token ids
};

class EngineClient {
 public:
  /// A batch has been composed; its jobs follow.
  virtual void on_composed(std::uint32_t pass, const Iteration& iteration) = 0;
  /// The scheduler has been asked for a batch, which may have no items.
  virtual void on_asked(const ScheduledBatch& batch) = 0;
  /// During emission: see PassClient::on_attention_emitted().
  virtual void on_attention_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t layer,
                                    JobRef job) = 0;
  /// The first kernel of a batch begins. Called before on_begun() of its requests.
  virtual void on_batch_begun(std::uint32_t pass, const ScheduledBatch& batch) = 0;
  /// See PassClient.
  virtual void on_activity(std::uint32_t pass, std::uint32_t stage, PassActivity activity, Time when) = 0;
  virtual bool follows_activity(std::uint32_t pass) const = 0;
  /// The request's first kernel begins.
  virtual void on_begun(std::uint32_t request) = 0;
  /// All tokens of a batch are known. Called before on_token() of its requests.
  virtual void on_iteration(std::uint32_t number, const Iteration& iteration) = 0;
  virtual void on_token(std::uint32_t request) = 0;
  /// The request has left the scheduler.
  virtual void on_finished(std::uint32_t request) = 0;
  /// on_token() and on_finished() have been called for all requests of the batch.
  virtual void on_batch_done(const ScheduledBatch& batch) = 0;

 protected:
  ~EngineClient() = default;
};

class Engine : private PassClient, private JobClient, private JobNamer, private transport::CalendarClient {
 public:
  Engine(Grid& grid, Scheduler& scheduler, const EngineSpec& spec, Executor& executor, EngineClient& client);

  /// Each pass makes drafts. Call before the first request.
  void add_drafts(std::unique_ptr<Drafter> drafter) { drafter_ = std::move(drafter); }

  /// The request has been added to the scheduler.
  void added(std::uint32_t request);
  /// All KV for which a request waits is here. The scheduler is told when the engine looks: seen() follows.
  void arrived(std::uint32_t request) { executor_.reached(this, request); }
  /// The scheduler has been told: the request is in its queue again, and a batch may be composed.
  void seen();
  /// The request has been cancelled in the scheduler: batches in flight run on without it.
  void cancelled(std::uint32_t request);
  /// The scheduler may be able to compose a batch that it could not compose before.
  void changed() { wake(); }
  /// No batch is complete before. @pre in_flight() > 0
  Time next_complete() { return pipeline_.next_pass_over(); }

  /// It asks the scheduler for a batch now, or when a batch begins that has been composed.
  bool looks_soon() const { return is_awake_ || begun_ < composed_; }

  const Pipeline& pipeline() const { return pipeline_; }
  /// Batches that are composed and not complete.
  std::size_t in_flight() const { return in_flight_.size(); }
  /// Times until now.
  const StageTimes& stages();
  std::uint32_t composed() const { return composed_; }
  /// Sum over complete batches of the time from a batch's start to its tokens. A batch starts when it is composed and
  /// the previous batch is complete.
  double step_seconds() const { return step_seconds_; }
  /// Tokens of complete batches.
  std::uint64_t tokens_done() const { return tokens_done_; }

 private:
  /// Gate of a group of batches. All other gates belong to requests.
  static std::uint32_t group_gate(std::uint32_t group) { return ~group; }
  void wake();
  void compose();
  /// For critical paths: which requests leave the queue, and what the batch waited for.
  void tell_composed(const ScheduledBatch& batch) const;
  Pass plan(Iteration& iteration);
  void complete();

  void on_pass_begun(std::uint32_t pass) override;
  void on_stage_begun(std::uint32_t pass, std::uint32_t stage) override;
  void on_stage_done(std::uint32_t pass, std::uint32_t stage) override;
  void on_activity(std::uint32_t pass, std::uint32_t stage, PassActivity activity, Time when) override {
    client_.on_activity(pass, stage, activity, when);
  }
  bool follows_activity(std::uint32_t pass) const override { return client_.follows_activity(pass); }
  HandoffGrain handoff() const override { return spec_.handoff; }
  void on_attention_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t layer,
                            JobRef job) override {
    client_.on_attention_emitted(pass, stage, t, layer, job);
  }
  void on_stage_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, JobRef job) override;
  void on_pass_done(std::uint32_t pass) override;
  void on_event(std::uint32_t tag, std::uint64_t data) override;

  JobRef send_token_ids(std::uint32_t t, const ScheduledBatch& batch, const JobLabel& label, JobRef after);

  // Jobs of the engine itself: sampled tokens to the first stage, PP_Token_FromP[p]_ToP[0]_TP[t]_It[i], or
  // D_Token_FromP[p]_ToP[0]_TP[t]_Step_[i].
  struct Fields {
    std::uint32_t pass;
    std::uint32_t stage : 16, tp : 16;
  };
  void on_job_done(const Job& job) override;
  void on_collective_done(const collective::Collective& collective, const JobLabel& label) override;
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "pp"; }
  Recorded recorded(std::uint64_t) const override { return Recorded::stage; }

  Grid& grid_;
  Scheduler& scheduler_;
  EngineSpec spec_;
  Executor& executor_;
  EngineClient& client_;
  Pipeline pipeline_;
  StageTimes stages_;
  std::unique_ptr<Drafter> drafter_;  ///< null: no model makes drafts
  std::deque<Iteration> in_flight_;
  std::vector<std::vector<JobRef>> token_sends_;  ///< by group: token ids that its next batch needs, by t
  std::uint32_t composed_ = 0, begun_ = 0, completed_ = 0;
  std::uint64_t tokens_done_ = 0;
  double step_seconds_ = 0;
  Time step_done_;  ///< end of the latest complete batch
  bool is_awake_ = false;
};

}  // namespace railyard::workload::inference
