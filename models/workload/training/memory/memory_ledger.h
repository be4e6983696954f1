// Memory of the ranks of a training step over time: what each slot claims when it begins and releases when it ends, as the
// plan says (memory_plan.h), the instant at which a rank holds most, and what it holds then. Peaks come from jobs that
// ran, so that they check the plan.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "workload/parallel/mesh.h"
#include "workload/training/memory/memory_plan.h"

namespace railyard::workload::training {

/// What a rank holds beside the state of weights, gradients and optimizer, after an event.
struct HeldMemory {
  Time at;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Bytes> kept;  ///< by virtual stage and micro-batch
  Bytes activations = 0;                                          ///< sum of `kept`
  Bytes recomputed = 0;                                           ///< by the slot that runs
  Bytes gathered = 0;                                             ///< buffers of gathered weights
  Bytes gradient_copies = 0;                                      ///< while the optimizer runs
  Bytes staged = 0;  ///< of layers whose activations leave the GPU or are back (offload)
  JobLabel slot;     ///< that began or ended; without a namer: none yet

  Bytes total() const { return activations + recomputed + gathered + gradient_copies + staged; }
};

/// Does not influence the run.
class MemoryListener {
 public:
  /// @param claims  the slot begins; otherwise it has ended
  virtual void on_memory(std::uint32_t rank, const HeldMemory& held, bool claims) = 0;

 protected:
  ~MemoryListener() = default;
};

class MemoryLedger {
 public:
  /// Claims what a rank holds for the whole step.
  /// @param grows  gathered weights are claimed by hold_gathered(); otherwise they are held for the whole step
  MemoryLedger(const MemoryPlan& plan, const Mesh& mesh, bool grows);

  void begin_slot(std::uint32_t rank, const Slot& slot, JobLabel label, Time now);
  void end_slot(std::uint32_t rank, const Slot& slot, JobLabel label, Time now);
  void begin_optimizer(std::uint32_t rank, JobLabel label, Time now);
  void end_optimizer(std::uint32_t rank, JobLabel label, Time now);
  /// Buffers of gathered matrices have this size now (gtp). @param gradients  those of whole gradients are needed, too
  void hold_gathered(std::uint32_t rank, Bytes matrices, bool gradients, Time now);
  /// Activations that leave the GPU later or are coming back, until they have left or are used. @param label  the slot
  void take_staged(std::uint32_t rank, Bytes bytes, JobLabel label, Time now);
  void free_staged(std::uint32_t rank, Bytes bytes, JobLabel label, Time now);
  const HeldMemory& held(std::uint32_t rank) const { return held_[rank]; }
  /// At the first instant at which the rank held most.
  const HeldMemory& peak(std::uint32_t rank) const { return peaks_[rank]; }
  void add_listener(MemoryListener& listener) { listeners_.push_back(&listener); }

 private:
  void tell(std::uint32_t rank, bool claims);

  /// A rank holds more.
  void grow(std::uint32_t rank, Bytes bytes, Time now);

  const MemoryPlan& plan_;
  const Mesh& mesh_;
  const bool grows_;
  std::vector<HeldMemory> held_, peaks_;  ///< by rank
  std::vector<Bytes> whole_gradients_;    ///< by rank
  std::vector<MemoryListener*> listeners_;
};

}  // namespace railyard::workload::training
