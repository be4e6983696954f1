// Forward passes through a pipeline of tensor-parallel stages: a chunk of a prompt on the prefill instance, or a step
// of a batch on the decode instance. A pass is emitted as a whole, stage after stage, as jobs in the streams of the
// ranks:
//
//   [wait for the activations of stage p-1] [all-gather of their shards]
//   per layer: the steps of its plan (transformer/layer_plan.h)
//   [LM head and draft passes on the last stage] send to the same t of stage p+1
//
// The layers of two micro-batches take turns (micro_batches.h), and their exchanges of tokens have a stream of their own.
//
// If host time is modelled (workload/host.h), the host prepares the pass before
// the first kernel of stage 0 and launches each layer before its attention
// kernels. These are jobs in the host stream of rank t = 0 of the stage.
//
// Streams are in order. Stage p starts the next pass as soon as it has finished this pass, so passes are pipelined.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "workload/inference/engine/pass.h"
#include "workload/inference/engine/serving_rules.h"
#include "workload/inference/engine/stage_sends.h"
#include "workload/jobs.h"
#include "workload/traffic.h"

namespace railyard::workload::inference {

/// What rank t = 0 of a stage does for a pass.
enum class PassActivity : std::uint8_t {
  before_stage,  ///< has the pass's activations, and is busy with an earlier pass
  kernels,
  collective,  ///< from its own entry
  launch,      ///< waits for the next job of the pass, which the host launches
  left_stage   ///< is done; the activations or sampled tokens are under way
};

/// What a stage sends to the next one.
struct StageHop {
  PpSend send = PpSend::shard;
  std::uint32_t tensors = 1;  ///< 2: the hidden state and the residual, in one message
  bool by_kernels = false;    ///< NCCL's kernels on both sides; otherwise copy engines
  bool returns_ids = false;   ///< the last stage sends sampled token ids to the first one
};

/// Receives the progress of passes.
class PassClient {
 public:
  /// The first job of the pass began on stage 0.
  virtual void on_pass_begun(std::uint32_t pass) = 0;
  /// During emission: rank (stage, t) has the KV of a layer when `job` is done.
  virtual void on_attention_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t layer,
                                    JobRef job) = 0;
  /// During emission: `job` is the last job of the pass on rank (stage, t).
  virtual void on_stage_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, JobRef job) = 0;
  /// Every rank of the last stage has finished the pass.
  virtual void on_pass_done(std::uint32_t pass) = 0;
  /// The first rank of a stage has begun the pass; the last rank of the stage has finished it.
  virtual void on_stage_begun(std::uint32_t, std::uint32_t) {}
  virtual void on_stage_done(std::uint32_t, std::uint32_t) {}
  /// @param when  now or later
  virtual void on_activity(std::uint32_t /*pass*/, std::uint32_t /*stage*/, PassActivity, Time /*when*/) {}
  /// Whether on_activity() matters between the begin of the pass and its end on a stage.
  virtual bool follows_activity(std::uint32_t /*pass*/) const { return false; }
  /// When KV is sent. Pushed per layer: no pass is composed; otherwise when it is pushed: the last layer of a stage is not.
  virtual HandoffGrain handoff() const { return HandoffGrain::fetched; }

 protected:
  ~PassClient() = default;
};

/// Times in one rank's compute stream, in seconds.
struct RankTimes {
  double kernels_s = 0;
  double tp_s = 0;        ///< in collectives, after the last peer entered
  double tp_sync_s = 0;   ///< at the gate, until the last peer entered
  double pp_s = 0;        ///< waiting for activations in flight
  double host_s = 0;      ///< waiting for the host, when nothing else was missing
  double occupied_s = 0;  ///< from the first to the last job of a pass, summed over passes, without waits for the host
  bool operator==(const RankTimes& other) const {
    return kernels_s == other.kernels_s && tp_s == other.tp_s && tp_sync_s == other.tp_sync_s && pp_s == other.pp_s &&
           host_s == other.host_s && occupied_s == other.occupied_s;
  }
};

/// Names of an instance's passes and their jobs. For pass i:
///
///   prefill                                            decode
///   P_Rank_PP[p]_TP[t]_Chunk[i]                        D_Rank_[r]_Step_[i]             all kernels of a rank
///   TP_AR_PP[p]_Layer[l]_Chunk[i]_Attn | _Mlp          D_TP_AR_PP[p]_Layer[l]_Step_[i]_Attn | _Mlp
///   TP_RS_PP[p]_Layer[l]_Chunk[i]_Attn                  D_TP_RS_PP[p]_Layer[l]_Step_[i]_Attn    tokens of a replica, by rank
///   TP_AG_PP[p]_Layer[l]_Chunk[i]_Mlp                   D_TP_AG_PP[p]_Layer[l]_Step_[i]_Mlp     all of its tokens again
///   EP_Dispatch_PP[p]_Layer[l]_Chunk[i] | EP_Combine    D_EP_Dispatch_PP[p]_Layer[l]_Step_[i]  experts of all replicas
///   TP_AG_PP[p]_Chunk[i]                               D_TP_AG_PP[p]_Step_[i]          shards of activations
///   PP_Act_FromP[p]_ToP[p+1]_TP[t]_Chunk[i]            D_PP_Act_FromP[p]_ToP[p+1]_TP[t]_Step_[i]
///   TP_AR_PP[p]_Draft[d]_Chunk[i]                      D_TP_AR_PP[p]_Draft[d]_Step_[i]
///   Host_P_Chunk[i]                                    Host_D_Step_[i]                 before the first kernel
///   Host_P_Launch_PP[p]_Layer[l]_Chunk[i]              Host_D_Launch_PP[p]_Layer[l]_Step_[i]
///   Host_P_Launch_PP[p]_Draft[d]_Chunk[i]              Host_D_Launch_PP[p]_Draft[d]_Step_[i]
///
/// with _Half[h] at the end of those of a layer if the pass has two micro-batches, and _Req[n] if a run has several requests
/// and the pass belongs to one request. Iterations of an engine
/// that mixes both are named It[i]_PP[p]_TP[t], and otherwise as prefill, with It[i] in the place of Chunk[i] and
/// Host for Host_P. If a service has several instances of a role, _Inst[name] follows.
enum class PassNames : std::uint8_t { prefill, decode, iteration };

class Pipeline : private JobClient, private JobNamer {
 public:
  /// @param least  kernels of any pass take at least half as long as those of this one
  Pipeline(Grid& grid, Executor& executor, PassNames names, const StageHop& hop, PassClient& client, const Pass& least,
           std::string suffix = {});

  /// @param after  jobs for which rank t of stage 0 waits, by t; can be empty. @return the pass's number, counted from
  /// 0
  std::uint32_t emit(const Pass& pass, const std::vector<JobRef>& after = {});
  /// "Chunk[3]", "Step_[3]"; with the request if a run has several.
  static std::string unit(PassNames names, std::uint32_t index, std::uint32_t request);
  bool returns_ids() const { return hop_.returns_ids; }
  /// The token ids of a pass that one rank of the last stage has sent are at the first stage.
  void ids_returned() { sends_.back().arrived(); }
  /// No pass that has been emitted is over before.
  Time next_pass_over() { return sends_.back().from(); }
  /// No pass, emitted or not, has computed the KV of a stage before, unless it has by now.
  Time next_kv() const;
  /// Kernels of any pass take this long, at least; and until the KV of a stage is there.
  Time least_pass() const;
  Time least_until_kv() const;
  const RankTimes& times(std::uint32_t rank) const { return times_[rank]; }
  /// Begin of the first job on any stage and end of the last job, over all passes so far.
  Time first_begun() const { return first_begun_; }
  Time last_done() const { return last_done_; }

 private:
  enum What : std::uint8_t {
    kEmbedding,
    kAttention,
    kMlp,
    kHead,
    kAttentionReduce,
    kMlpReduce,
    kGather,
    kActivation,
    kPrepare,
    kLaunch,
    kDraft,
    kDraftReduce,
    kDraftLaunch,
    kDispatch,
    kCombine,
    kScatterTokens,
    kGatherTokens,
    kRank  ///< all kernels of a rank: a row, not a job
  };
  /// Contents of a label.
  struct Fields {
    std::uint32_t pass : 24, stage : 8;
    std::uint32_t tp : 12;               ///< of a collective 0: that of its first member
    std::uint32_t layer : 12, what : 5;  ///< layer: of draft passes, the number of the draft
    std::uint32_t first : 1, last : 1;   ///< first or last job of the pass on this rank
    std::uint32_t half : 1;              ///< of a divided pass: which micro-batch
  };
  static Fields fields_of(const Job& job) { return job.label().as<Fields>(); }
  struct RankState {
    Time begun;  ///< begin of the first job
    Time ready;  ///< the first job waited only for its turn in the stream
    Time first_kernel, last_kernel_end;
    Time send_begun;                           ///< begin of the send of activations to the next stage
    Time host_waits;                           ///< sum of waits for the host after the first job
    Time exchanged;                            ///< of a divided pass: end of the latest exchange
    std::uint32_t exchanges = 0, running = 0;  ///< of a divided pass: exchanges and other jobs that have begun
    bool has_begun = false, has_kernel = false;
  };
  /// Times of kernels on a rank, at least.
  struct LeastTimes {
    struct OfLayer {
      Time attention, mlp;  ///< from the last kernels of that part to the end of the layer
      Time after_attention;
      Time all;
    };
    std::vector<OfLayer> layers;            ///< by kind
    std::vector<Time> after;                ///< by layer: of what follows on its stage
    std::vector<StageSends::Least> stages;  ///< of all
    Time head;
    std::vector<Time> after_draft;  ///< by draft: of the drafts after it
    Time drafts;                    ///< all of them
  };
  struct State {
    Pass pass;
    LeastTimes least;
    std::vector<RankState> ranks;
    std::vector<Time> launched;                          ///< by stage: end of the host's latest job
    std::vector<std::uint32_t> stage_begun, stage_left;  ///< by stage: ranks
    std::uint32_t ranks_left = 0;
    std::uint32_t last_stage_left = 0;
    std::uint32_t sends_left = 0;
    std::uint32_t collectives_left = 0;
    std::uint32_t host_left = 0;
    bool over() const { return ranks_left == 0 && sends_left == 0 && collectives_left == 0 && host_left == 0; }
  };

  State& state(std::uint64_t pass) { return states_[pass - first_state_]; }
  const Pass& pass_of(const Fields& fields) const { return states_[fields.pass - first_state_].pass; }
  std::uint32_t rank_of(const Job& job) const { return job.rank().number; }
  /// A job of the host that launches a stage; no job if `duration` is 0.
  JobRef emit_host(std::uint32_t number, What what, std::uint32_t stage, std::uint32_t layer, Time duration,
                   const std::vector<JobRef>& after, std::uint32_t half = 0);
  /// Of a collective of tensor parallelism.
  static What what_of(const Pass::Step& collective);
  void emit_stage(std::uint32_t number, std::uint32_t stage, std::vector<JobRef>& incoming, JobRef prepared);
  /// The layers of a divided pass: kernels in turns, and exchanges in a stream of their own. @param last  as emit_drafts()
  void emit_turns(std::uint32_t number, std::vector<JobRef>& last);
  /// A job that begins when all exchanges are over. @param is_last  of the pass
  void join_halves(std::uint32_t number, bool is_last, std::vector<JobRef>& last);
  /// An exchange of a divided pass, which runs beside kernels.
  bool is_beside(const Job& job) const;
  /// @param last  jobs before them, by t; then their own last ones
  void emit_drafts(std::uint32_t number, JobRef prepared, std::vector<JobRef>& last);
  /// Reports the activity of rank t = 0 of a stage.
  void tell(const Job& job, PassActivity activity, Time when);
  void count_host_wait(const Job& job, const State& state, RankState& rank);
  /// What a divided pass waits for in an exchange or for the host, which a job of the kernels' stream has done by now.
  void count_exchange_wait(const Job& job, const RankState& rank);
  LeastTimes least_times(const Pass& pass) const;
  /// Of the job's kernels and those that follow on its rank.
  Time least_time(const Fields& fields) const;
  /// Of the kernels that follow on a rank after a collective of a layer.
  Time least_time_after(const Fields& collective) const;
  void retire();
  void begin_rank(const Job& job, State& state, RankState& rank);
  void end_rank(const Job& job, State& state, RankState& rank);

  void on_job_begun(const Job& job) override;
  void on_job_done(const Job& job) override;
  void on_composed(const Job& next, const std::vector<execution::ComposedPart>& parts, const Job* like) override;
  void on_collective_done(const collective::Collective& collective, const JobLabel& label) override;
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t arguments) const override;
  Recorded recorded(std::uint64_t arguments) const override;
  std::uint64_t of_member(std::uint64_t arguments, std::uint32_t member) const override;

  Grid& grid_;
  Executor& executor_;
  PassNames names_;
  StageHop hop_;
  PassClient& client_;
  std::string suffix_;  ///< of names
  std::deque<State> states_;
  std::uint32_t first_state_ = 0;
  std::deque<StageSends> sends_;                  ///< by stage
  std::array<std::vector<JobRef>, 2> under_way_;  ///< of the pass that is emitted: latest exchanges, by micro-batch
  std::vector<RankTimes> times_;
  RankTimes first_times_;  ///< of the first member of a stage, before its latest composed jobs
  Time first_host_waits_;
  std::vector<JobRef> stage0_last_;           ///< of the latest pass, by t
  std::vector<execution::CourseStep> steps_;  ///< scratch space of emit_stage()
  Time first_begun_ = Time::max(), last_done_;
};

}  // namespace railyard::workload::inference
