// An instance of a serving engine: a model on a mesh of tp x pp ranks, the GPUs of one group. The instance knows the
// layers of each stage, the times of kernels, and the memory left for KV cache.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/kernels/kernel_timer.h"
#include "transformer/layer_plan.h"
#include "workload/host.h"
#include "workload/inference/kv_cache.h"
#include "workload/inference/spec.h"
#include "workload/parallel/mesh.h"

namespace railyard::workload::inference {

class Instance {
 public:
  /// Streams of a rank: kernels and tensor-parallel collectives; pipeline sends; KV handoffs. If host time is modelled,
  /// rank t = 0 of each stage also has the stream of the host that launches the stage's kernels.
  enum Stream : std::size_t { kCompute, kPp, kKv, kHost };

  /// @param name  of the group of ranks
  /// @param gpus  GPU of each rank p*tp+t; all have the same datasheet
  Instance(const std::string& name, const transformer::ModelShape& model, const Mapping& mapping, const Host& host,
           const std::vector<gpu::Gpu*>& gpus, Executor& executor);
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  std::uint32_t tp() const { return mesh_->size(Dimension::tp); }
  std::uint32_t pp() const { return mesh_->size(Dimension::pp); }
  std::uint32_t ranks() const { return mesh_->size(); }
  Rank& rank(std::uint32_t stage, std::uint32_t t) const { return mesh_->rank(stage * tp() + t); }
  Rank& rank(std::uint32_t r) const { return mesh_->rank(r); }
  /// The tensor-parallel ranks of a stage. Collectives run as in a serving engine, all in a CUDA graph: small vectors
  /// inside a server use the engine's own kernel; all other vectors use NCCL.
  Communicator& tp_communicator(std::uint32_t stage) const { return *mesh_->communicators(Dimension::tp)[stage]; }

  const transformer::Stage& stage(std::uint32_t p) const { return stages_[p]; }
  /// Model-wide index of a stage's first layer.
  std::uint32_t first_layer(std::uint32_t p) const { return first_layer_[p]; }
  transformer::LayerTimer& timer() { return timer_; }
  const transformer::ModelShape& model() const { return model_; }
  transformer::LayerSplit split() const { return {tp(), false}; }

  KvCache& kv() { return *kv_; }
  const KvCache& kv() const { return *kv_; }
  /// Allocates weights and activations. KV cache can fill the rest, up to `limit_ratio` of each GPU's memory.
  /// `new_tokens` of a sequence run in one pass.
  void load(double limit_ratio, std::uint64_t pass_tokens, std::uint64_t logit_rows, std::uint64_t new_tokens);

 private:
  transformer::ModelShape model_;
  std::unique_ptr<Mesh> mesh_;
  std::vector<transformer::Stage> stages_;
  std::vector<std::uint32_t> first_layer_;
  std::unique_ptr<KvCache> kv_;
  gpu::KernelTimer kernels_;
  transformer::LayerTimer timer_;
};

}  // namespace railyard::workload::inference
