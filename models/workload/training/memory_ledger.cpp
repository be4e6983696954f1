#include "workload/training/memory_ledger.h"

namespace railyard::workload::training {

MemoryLedger::MemoryLedger(const MemoryPlan& plan, const Mesh& mesh)
    : plan_(plan), mesh_(mesh), held_(mesh.size()), peaks_(mesh.size()) {
  for (std::uint32_t r = 0; r < mesh.size(); ++r)
    mesh.rank(r).gpu->hbm().allocate(plan.fixed(mesh.place(r, Dimension::pp)));
}

void MemoryLedger::begin_slot(std::uint32_t rank, const Slot& slot, JobLabel label, Time now) {
  HeldMemory& held = held_[rank];
  const Bytes taken = plan_.taken(slot), recomputed = plan_.recomputed(slot);
  mesh_.rank(rank).gpu->hbm().allocate(taken);
  held.at = now;
  held.slot = label;
  held.recomputed = recomputed;
  held.kept[{slot.stage, slot.micro_batch}] += taken - recomputed;
  held.activations += taken - recomputed;
  if (held.total() > peaks_[rank].total()) peaks_[rank] = held;
  tell(rank, true);
}

void MemoryLedger::end_slot(std::uint32_t rank, const Slot& slot, JobLabel label, Time now) {
  HeldMemory& held = held_[rank];
  const Bytes freed = plan_.freed(slot), recomputed = plan_.recomputed(slot);
  mesh_.rank(rank).gpu->hbm().free(freed);
  held.at = now;
  held.slot = label;
  held.recomputed -= recomputed;
  const auto kept = held.kept.find({slot.stage, slot.micro_batch});
  kept->second -= freed - recomputed;
  if (kept->second == 0) held.kept.erase(kept);
  held.activations -= freed - recomputed;
  tell(rank, false);
}

void MemoryLedger::tell(std::uint32_t rank, bool claims) {
  for (MemoryListener* listener : listeners_) listener->on_memory(rank, held_[rank], claims);
}

}  // namespace railyard::workload::training
