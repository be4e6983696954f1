// The room `memory` is the memory of a step: MemoryPlan before the run, for --explain and to refuse what does not fit, and
// MemoryLedger beside it, which asserts that a run holds what was planned.
//
// Memory of a training step on one rank of each pipeline rank, from the order of its slots. A forward slot adds what its
// stage keeps for the backward pass (transformer/training_memory.h); a backward slot takes it away, or leaves what the
// gradients of weights still need; while it runs, it also holds what it recomputes. State of weights, gradients and
// optimizer stays for the whole step (transformer/training_state.h). Memory follows the order of the slots, not their
// times, so the peak is known before the run.
//
// What a layer offloads (host_offload.h) is on the GPU from the begin of its forward pass until it has left, and again from
// the begin of its load to the end of its backward pass. A layer begins when at most the layer before it is still
// leaving, and a slot when nothing is, so the order of slots still decides. Plain arithmetic; no SystemC.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "transformer/training_memory.h"
#include "transformer/training_state.h"
#include "workload/training/plan/training_spec.h"
#include "workload/training/schedule/schedule.h"

namespace railyard::workload::training {

/// What the slots of a virtual stage hold, on one rank: if tokens are not routed evenly, on the expert-parallel rank that
/// keeps most for the backward pass.
struct StageMemory {
  Bytes kept = 0;        ///< from forward to backward, for each micro-batch
  Bytes for_wgrad = 0;   ///< of it or beside it, from the gradients of inputs to those of weights
  bool defers = false;   ///< backward slots leave gradients of weights to W slots: those of the head
  Bytes recomputed = 0;  ///< while a backward slot runs; what the loss needs beside what is kept counts, too
  std::vector<transformer::KeptTensor> tensors;  ///< the parts of `kept`, with what is offloaded
  std::vector<Bytes> offloaded;                  ///< by layer of the stage, beside `kept`; empty: nothing

  /// In host memory between the slots of a micro-batch.
  Bytes on_host() const;
};

struct PeakMemory {
  std::uint32_t pipeline_rank = 0;
  transformer::TrainingState state;
  Bytes narrow_weights = 0;    ///< copies of weights for narrow products
  Bytes activations = 0;       ///< of all micro-batches in flight, and of layers that leave or are back (offload)
  Bytes buffers = 0;           ///< recomputed activations, or what the loss needs
  Bytes gathered = 0;          ///< weights of whole layers (zero_stage 3); whole matrices and gradients (gtp)
  Bytes whole_gradients = 0;   ///< part of `gathered` (gtp)
  Bytes reserved = 0;          ///< of the software
  bool in_optimizer = false;   ///< the rank holds most while the optimizer runs, without activations
  std::size_t slot = 0;        ///< position of the slot that begins at the peak
  double micro_batches = 0;    ///< kept activations / those of one micro-batch in all stages of the rank
  Bytes host_activations = 0;  ///< most that the rank has in host memory at a time
  Bytes host_state = 0;        ///< in host memory: optimizer state, and gradients and weights on their way

  /// At the peak, with copies of gradients.
  Bytes optimizer() const { return state.optimizer + (in_optimizer ? state.gradient_copies : 0); }
  Bytes total() const {
    return state.weights + state.gradients + optimizer() + narrow_weights + activations + buffers + gathered + reserved;
  }
};

/// What a checkpoint takes of the ranks of a pipeline rank together, each parameter once: trained weights, and the optimizer's
/// master copies and moments.
struct SavedState {
  Bytes weights = 0, optimizer = 0;
};

/// Largest share, over the virtual stages, of what a stage keeps of a micro-batch that its gradients of weights need. More
/// than 1 with recomputation.
double kept_for_weights(const transformer::ModelShape& model, const TrainingSpec& spec);

class MemoryPlan {
 public:
  MemoryPlan(const transformer::ModelShape& model, const TrainingSpec& spec, const Schedule& schedule);

  /// Virtual stage.
  const StageMemory& stage(std::uint32_t stage) const { return stages_[stage]; }
  const PeakMemory& peak(std::uint32_t pipeline_rank) const { return peaks_[pipeline_rank]; }
  const SavedState& saved(std::uint32_t pipeline_rank) const { return saved_[pipeline_rank]; }
  /// The pipeline rank that needs most.
  const PeakMemory& largest() const;
  /// Held for the whole step, without gathered weights.
  Bytes fixed(std::uint32_t pipeline_rank) const {
    const PeakMemory& peak = peaks_[pipeline_rank];
    return peak.state.total() + peak.narrow_weights + peak.reserved;
  }

  /// Bytes that a slot allocates when it begins, and frees when it ends.
  Bytes taken(const Slot& slot) const;
  Bytes freed(const Slot& slot) const;
  /// Of both: recomputed activations.
  Bytes recomputed(const Slot& slot) const;
  /// Most that offloaded layers hold on the GPU while the slot runs; nothing before and after it.
  Bytes staged(const Slot& slot) const;

 private:
  const std::uint32_t prefetch_layers_;
  std::vector<StageMemory> stages_;
  std::vector<PeakMemory> peaks_;  ///< by pipeline rank
  std::vector<SavedState> saved_;  ///< by pipeline rank
};

/// "weights 10.3 GB + gradients 20.6 GB + ... = 61.2 GB"
std::string sum_text(const PeakMemory& peak);

}  // namespace railyard::workload::training
