#include "workload/training/memory/memory_ledger.h"

namespace railyard::workload::training {

MemoryLedger::MemoryLedger(const MemoryPlan& plan, const Mesh& mesh, bool grows)
    : plan_(plan), mesh_(mesh), grows_(grows), held_(mesh.size()), peaks_(mesh.size()), whole_gradients_(mesh.size()) {
  for (std::uint32_t r = 0; r < mesh.size(); ++r) {
    const std::uint32_t p = mesh.coordinate(r, Dimension::pp);
    if (!grows) held_[r].gathered = plan.peak(p).gathered;
    peaks_[r] = held_[r];
    mesh.rank(r).gpu->hbm().allocate(plan.fixed(p) + held_[r].gathered);
  }
}

void MemoryLedger::begin_slot(std::uint32_t rank, const Slot& slot, JobLabel label, Time now) {
  HeldMemory& held = held_[rank];
  const Bytes taken = plan_.taken(slot), recomputed = plan_.recomputed(slot);
  held.slot = label;
  held.recomputed = recomputed;
  held.kept[{slot.stage, slot.micro_batch}] += taken - recomputed;
  held.activations += taken - recomputed;
  grow(rank, taken, now);
}

void MemoryLedger::begin_optimizer(std::uint32_t rank, JobLabel label, Time now) {
  const Bytes copies = plan_.peak(mesh_.coordinate(rank, Dimension::pp)).state.gradient_copies;
  if (copies == 0) return;
  held_[rank].slot = label;
  held_[rank].gradient_copies = copies;
  grow(rank, copies, now);
}

void MemoryLedger::end_optimizer(std::uint32_t rank, JobLabel label, Time now) {
  HeldMemory& held = held_[rank];
  if (held.gradient_copies == 0) return;
  mesh_.rank(rank).gpu->hbm().free(held.gradient_copies);
  held.gradient_copies = 0;
  held.at = now;
  held.slot = label;
  tell(rank, false);
}

void MemoryLedger::hold_gathered(std::uint32_t rank, Bytes matrices, bool gradients, Time now) {
  if (!grows_) return;
  if (gradients) whole_gradients_[rank] = plan_.peak(mesh_.coordinate(rank, Dimension::pp)).whole_gradients;
  const Bytes more = matrices + whole_gradients_[rank] - held_[rank].gathered;
  if (more == 0) return;
  held_[rank].gathered += more;
  grow(rank, more, now);
}

void MemoryLedger::take_staged(std::uint32_t rank, Bytes bytes, JobLabel label, Time now) {
  if (bytes == 0) return;
  held_[rank].slot = label;
  held_[rank].staged += bytes;
  grow(rank, bytes, now);
}

void MemoryLedger::free_staged(std::uint32_t rank, Bytes bytes, JobLabel label, Time now) {
  HeldMemory& held = held_[rank];
  mesh_.rank(rank).gpu->hbm().free(bytes);
  held.staged -= bytes;
  held.at = now;
  held.slot = label;
  tell(rank, false);
}

void MemoryLedger::grow(std::uint32_t rank, Bytes bytes, Time now) {
  mesh_.rank(rank).gpu->hbm().allocate(bytes);
  held_[rank].at = now;
  if (held_[rank].total() > peaks_[rank].total()) peaks_[rank] = held_[rank];
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
