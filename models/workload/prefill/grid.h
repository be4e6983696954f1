// A grid of tp x pp ranks on the GPUs of one group: which layers, which KV heads and which memory each rank has.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/reuse.h"
#include "collective/tuner.h"
#include "gpu/kernels/kernel_timer.h"
#include "workload/job.h"
#include "workload/model_shape.h"
#include "workload/prefill/spec.h"
#include "workload/transformer/layer_kernels.h"
#include "workload/transformer/parameters.h"

namespace railyard::workload::prefill {

class Grid {
 public:
  /// @param gpus  rank p*tp+t -> its GPU; all of one datasheet
  Grid(const ModelShape& model, const Mapping& mapping, const std::vector<gpu::Gpu*>& gpus);

  std::uint32_t tp() const { return mapping_.tp; }
  std::uint32_t pp() const { return mapping_.pp; }
  std::uint32_t ranks() const { return mapping_.ranks(); }
  RankDevice& rank(std::uint32_t stage, std::uint32_t t) { return *ranks_[stage * tp() + t]; }
  RankDevice& rank(std::uint32_t r) { return *ranks_[r]; }
  const RankDevice& rank(std::uint32_t r) const { return *ranks_[r]; }
  const std::vector<RankDevice*>& tp_devices(std::uint32_t stage) const { return tp_devices_[stage]; }
  const collective::Group& tp_group(std::uint32_t stage) const { return tp_groups_[stage]; }
  /// Lets the groups use what their switches can do.
  void add_multicast_groups(transport::Fabric& fabric);
  /// How the members of a stage reach each other. @pre the machine is elaborated
  const collective::Site& tp_site(std::uint32_t stage, const transport::Fabric& fabric);

  /// For collectives whose links are the stage's own; null where they are not.
  collective::ReuseTable* reuse(std::uint32_t stage) { return reuse_.empty() ? nullptr : reuse_[stage].get(); }
  void set_reuse(std::vector<std::unique_ptr<collective::ReuseTable>> tables) { reuse_ = std::move(tables); }

  const Stage& stage(std::uint32_t p) const { return stages_[p]; }
  /// Global number of a stage's first layer.
  std::uint32_t first_layer(std::uint32_t p) const { return first_layer_[p]; }
  LayerTimer& timer() { return timer_; }
  const ModelShape& model() const { return model_; }

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
  std::vector<gpu::Gpu*> tp_gpus(std::uint32_t stage) const;
  Bytes sequence_kv(std::uint32_t p, std::uint64_t tokens) const {
    return kv_bytes(model_, stages_[p], tp(), tokens, new_tokens_);
  }

  ModelShape model_;
  Mapping mapping_;
  std::vector<std::unique_ptr<RankDevice>> ranks_;
  std::vector<std::vector<RankDevice*>> tp_devices_;
  std::vector<collective::Group> tp_groups_;
  std::vector<std::optional<collective::Site>> tp_sites_;
  std::vector<Stage> stages_;
  std::vector<std::uint32_t> first_layer_;
  std::vector<Bytes> kv_bytes_per_token_, held_kv_;  // by stage
  gpu::KernelTimer kernels_;
  LayerTimer timer_;
  std::vector<std::unique_ptr<collective::ReuseTable>> reuse_;  ///< by stage
  double limit_ratio_ = 1;
  std::uint64_t new_tokens_ = 1;
};

}  // namespace railyard::workload::prefill
