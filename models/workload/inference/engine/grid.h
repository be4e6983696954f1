// A model on the GPUs of an instance: a mesh of tp x replicas x pp ranks, all in one group of the machine. The grid knows the
// layers of each stage, the times of kernels, and the memory left for KV cache.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collective/reuse.h"
#include "gpu/kernels/kernel_timer.h"
#include "transformer/layer_plan.h"
#include "transport/horizon.h"
#include "transport/study/fidelity_choice.h"
#include "workload/host.h"
#include "workload/inference/engine/kv_cache.h"
#include "workload/inference/engine/mapping.h"
#include "workload/inference/engine/speculation_spec.h"
#include "workload/parallel/mesh.h"

namespace railyard::workload::inference {

class Grid {
 public:
  /// Streams of a rank: kernels and tensor-parallel collectives; pipeline sends; KV handoffs. If host time is modelled,
  /// rank t = 0 of each stage also has the stream of the host that launches the stage's kernels. With connect_stages(),
  /// ranks also have a stream "pp_in" for what comes from other stages.
  enum Stream : std::size_t { kCompute, kPp, kKv, kHost };

  /// @param name     of the group of ranks
  /// @param index    in front of a rank's "[p][t]" in names of links and waveforms: "[a]" if several grids are in one group
  /// @param engine   whose tensor-parallel collectives and attention kernels run
  /// @param gpus     GPU of each rank p*tp+t; all have the same datasheet
  Grid(const std::string& name, const std::string& index, const transformer::ModelShape& model, const Mapping& mapping,
       const Host& host, const collective::Engine& engine, const std::vector<gpu::Gpu*>& gpus, Executor& executor);
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  std::uint32_t tp() const { return mesh_->size(Dimension::tp); }
  /// Ranks of a stage: those of all attention replicas.
  std::uint32_t width() const { return tp() * replicas(); }
  std::uint32_t replicas() const { return mesh_->size(Dimension::ep); }
  std::uint32_t pp() const { return mesh_->size(Dimension::pp); }
  std::uint32_t ranks() const { return mesh_->size(); }
  /// Ranks of an attention replica, and the rank that is its p*tp+t.
  std::uint32_t replica_ranks() const { return tp() * pp(); }
  std::uint32_t rank_of(std::uint32_t replica, std::uint32_t r) const {
    return r / tp() * width() + replica * tp() + r % tp();
  }
  Rank& rank(std::uint32_t stage, std::uint32_t t) const { return mesh_->rank(stage * width() + t); }
  Rank& rank(std::uint32_t r) const { return mesh_->rank(r); }
  /// All ranks of a stage. Collectives run as in a serving engine, all in a CUDA graph: small vectors inside a server use
  /// the engine's own kernel; all other vectors use NCCL.
  Communicator& communicator(std::uint32_t stage) const { return *groups_.all()[stage]; }
  /// Those that run a collective together: with replicas, tensor-parallel ranks of each replica, or the ranks with experts.
  Communicator& communicator(std::uint32_t stage, transformer::RankGroup group) const {
    const bool in_replicas = group == transformer::RankGroup::tp && !in_replicas_.empty();
    return in_replicas ? *in_replicas_[stage] : communicator(stage);
  }

  /// Allows exchanges(). Call before the first job.
  void connect_halves();
  /// Those of two micro-batches: all ranks of the stage, in a stream beside that of the kernels, without SMs.
  Communicator& exchanges() const { return *exchanges_; }
  bool divides() const { return exchanges_ != nullptr; }

  /// Allows exchange(). Call before the first job.
  void connect_stages();
  /// Sends bytes from rank t of a stage to rank t of the next one, or of the last stage to the first one, by NCCL's kernels
  /// on both. @return the receiver's job
  JobRef exchange(std::uint32_t stage, std::uint32_t t, Bytes bytes, const JobLabel& label, JobClient& client,
                  JobRef after);

  /// Of the next stage: when it sends to the stage after it. Who emits the passes adds these, stage after stage.
  void add_sends(transport::Horizon& sends) { sends_.push_back(&sends); }
  transport::Horizon& sends(std::uint32_t stage) const { return *sends_[stage]; }

  const transformer::Stage& stage(std::uint32_t p) const { return stages_[p]; }
  /// Model-wide index of a stage's first layer.
  std::uint32_t first_layer(std::uint32_t p) const { return first_layer_[p]; }
  transformer::LayerTimer& timer() { return timer_; }
  const transformer::ModelShape& model() const { return model_; }
  transformer::LayerSplit split() const {
    transformer::LayerSplit split;
    split.tp = tp();
    split.replicas = replicas();
    split.experts = timer_.expert_ranks();
    return split;
  }

  KvCache& kv() { return *kv_; }
  const KvCache& kv() const { return *kv_; }
  /// Allocates weights and activations. KV cache that is not paged can fill the rest, up to `limit_ratio` of each GPU's memory.
  /// `new_tokens` of a sequence run in one pass.
  void load(double limit_ratio, std::uint64_t pass_tokens, std::uint64_t logit_rows, std::uint64_t new_tokens);

  /// Allocates weights, activations and a paged KV cache.
  /// @param blocks  of the cache, of `block_tokens` tokens each
  /// @param drafts  on the last stage
  void load_paged(std::uint64_t pass_tokens, std::uint64_t logit_rows, std::uint32_t blocks, std::uint32_t block_tokens,
                  const DraftMemory& drafts = {});
  /// Weights of a rank of stage p, with those of a draft model.
  Bytes weight_bytes(std::uint32_t p) const { return weights_[p] + (stages_[p].last ? drafts_.weights : 0); }
  /// Bytes of a block of KV cache on a rank of stage p.
  Bytes block_bytes(std::uint32_t p, std::uint32_t block_tokens) const {
    return (kv_->bytes_per_token(p) + (stages_[p].last ? drafts_.kv_per_token : 0)) * block_tokens;
  }

  /// Adds an estimate of the traffic of passes with `tokens` tokens in all.
  /// @param group  number of the first stage's group of senders whose collectives may be reused, or Traffic::kNobody
  /// @param tensors  hidden states that a stage sends to the next one for a token
  void add_traffic(std::vector<transport::Traffic>& all, double tokens, std::int64_t group,
                   std::uint32_t tensors) const;

 private:
  transformer::ModelShape model_;
  std::unique_ptr<Mesh> mesh_;
  Executor& executor_;
  Communicators groups_;                                    ///< by stage
  std::vector<std::unique_ptr<Communicator>> in_replicas_;  ///< by stage: of tensor parallelism; none: as groups_
  std::unique_ptr<Communicator> exchanges_;                 ///< null: no step is divided
  std::vector<std::unique_ptr<Communicator>> hops_;         ///< from rank p*tp+t to the next stage, or to the first one
  std::vector<transport::Horizon*> sends_;                  ///< by stage
  std::vector<transformer::Stage> stages_;
  std::vector<Bytes> weights_;  ///< by stage
  std::vector<std::uint32_t> first_layer_;
  std::unique_ptr<KvCache> kv_;
  DraftMemory drafts_;
  gpu::KernelTimer kernels_;
  transformer::LayerTimer timer_;
};

/// Whether a job of Grid::exchange() is the sender's.
inline bool is_sender(const Job& job) { return job.kind() == Job::Kind::collective && job.member() == 0; }

/// Allows reuse of the collectives of these grids' tensor-parallel groups, where they share no link with traffic other than
/// that of their stages, or whose senders say from when on they may send.
/// @param others  all other messages of the run
/// @param begin_together  see Executor::members_begin_together()
void allow_reuse(const std::vector<Grid*>& grids, std::vector<collective::OtherTraffic> others,
                 transport::Fabric& fabric, bool begin_together);

}  // namespace railyard::workload::inference
