// A grid of tp x pp ranks on the GPUs of one group: which layers, which KV heads and which memory each rank has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/kernels/kernel_timer.h"
#include "transformer/layer_plan.h"
#include "transformer/model_shape.h"
#include "transformer/parameters.h"
#include "workload/host.h"
#include "workload/jobs.h"
#include "workload/prefill/spec.h"

namespace railyard::workload::prefill {

class Grid {
 public:
  /// Streams of a rank: kernels and tensor-parallel collectives; pipeline sends; KV handoffs; and, on rank t = 0 of each
  /// stage where the host takes time, the host that launches the stage's kernels.
  enum Stream : std::size_t { kCompute, kPp, kKv, kHost };

  /// @param name  of the group of ranks
  /// @param gpus  rank p*tp+t -> its GPU; all of one datasheet
  Grid(const std::string& name, const transformer::ModelShape& model, const Mapping& mapping, const Host& host,
       const std::vector<gpu::Gpu*>& gpus, Executor& executor);

  std::uint32_t tp() const { return mapping_.tp; }
  std::uint32_t pp() const { return mapping_.pp; }
  std::uint32_t ranks() const { return mapping_.ranks(); }
  Rank& rank(std::uint32_t stage, std::uint32_t t) const { return *ranks_[stage * tp() + t]; }
  Rank& rank(std::uint32_t r) const { return *ranks_[r]; }
  /// The tensor-parallel ranks of a stage. As a serving engine does it: its own kernel for small vectors inside a server,
  /// NCCL for the rest, all in a CUDA graph.
  Communicator& tp_communicator(std::uint32_t stage) const { return *tp_communicators_[stage]; }

  const transformer::Stage& stage(std::uint32_t p) const { return stages_[p]; }
  /// Global number of a stage's first layer.
  std::uint32_t first_layer(std::uint32_t p) const { return first_layer_[p]; }
  transformer::LayerTimer& timer() { return timer_; }
  const transformer::ModelShape& model() const { return model_; }
  transformer::LayerSplit split() const { return {tp(), false}; }

  // -- KV cache
  struct HeadRange {
    std::uint32_t first, last;
  };  ///< [first, last)
  /// KV heads on TP rank t: its even share, or the one it replicates when tp exceeds the heads.
  HeadRange heads(std::uint32_t t) const;
  /// KV bytes of one token on a rank of stage p, as long as no window is full.
  Bytes kv_bytes_per_token(std::uint32_t p) const { return kv_bytes_per_token_[p]; }
  /// Holds KV of a sequence of `tokens` on every rank; false, and nothing held, when a rank's limit does not allow it.
  bool hold_kv(std::uint64_t tokens);
  void free_kv(std::uint64_t tokens);
  /// KV bytes held now on a rank of stage p.
  Bytes held_kv(std::uint32_t p) const { return held_kv_[p]; }
  /// Weights and activations, for good; `limit_ratio` of each GPU's memory is what hold_kv() may fill. Of a sequence,
  /// `new_tokens` run in one pass.
  void load(double limit_ratio, std::uint64_t pass_tokens, std::uint64_t logit_rows, std::uint64_t new_tokens);

 private:
  Bytes sequence_kv(std::uint32_t p, std::uint64_t tokens) const {
    return kv_bytes(model_, stages_[p], tp(), tokens, new_tokens_);
  }

  transformer::ModelShape model_;
  Mapping mapping_;
  std::vector<Rank*> ranks_;
  std::vector<std::unique_ptr<Communicator>> tp_communicators_;  ///< by stage
  std::vector<transformer::Stage> stages_;
  std::vector<std::uint32_t> first_layer_;
  std::vector<Bytes> kv_bytes_per_token_, held_kv_;  // by stage
  gpu::KernelTimer kernels_;
  transformer::LayerTimer timer_;
  double limit_ratio_ = 1;
  std::uint64_t new_tokens_ = 1;
};

}  // namespace railyard::workload::prefill
