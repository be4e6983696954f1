#include "sc_main/kinds/training_memory.h"

#include <fmt/format.h>

namespace railyard {

using workload::Dimension;
using workload::training::HeldMemory;
using workload::training::MemoryPlan;
using workload::training::PeakMemory;
using workload::training::TrainingStep;

MemoryTable::MemoryTable(const std::string& path, const MemoryPlan& plan, TrainingStep& step)
    : plan_(plan), mesh_(step.mesh()), file_(path) {
  file_.print(
      "time_s,rank,event,slot,weights_bytes,gradients_bytes,optimizer_bytes,gathered_bytes,activations_bytes,"
      "recomputed_bytes,software_bytes,total_bytes\n");
  for (std::uint32_t r = 0; r < mesh_.size(); ++r) file_.print("{}", row(r, step.memory().held(r), true));
  step.memory().add_listener(*this);
}

void MemoryTable::on_memory(std::uint32_t rank, const HeldMemory& held, bool claims) {
  rows_.add(held.at, rank, row(rank, held, claims));
}

std::string MemoryTable::row(std::uint32_t rank, const HeldMemory& held, bool claims) const {
  const std::uint32_t p = mesh_.coordinate(rank, Dimension::pp);
  const PeakMemory& plan = plan_.peak(p);
  const std::string slot = held.slot.namer != nullptr ? held.slot.name() : "";
  return fmt::format("{:.15f},{},{},{},{},{},{},{},{},{},{},{}\n", held.at.seconds(), rank,
                     claims ? "claim" : "release", slot, plan.state.weights + plan.narrow_weights, plan.state.gradients,
                     plan.state.optimizer + held.gradient_copies, held.gathered, held.activations + held.staged,
                     held.recomputed, plan.reserved, plan_.fixed(p) + held.total());
}

void write_memory_peak(const std::string& path, const MemoryPlan& plan, const TrainingStep& step) {
  OutputFile file(path);
  file.print("rank,time_s,kind,virtual_stage,micro_batch,bytes\n");
  for (std::uint32_t r = 0; r < step.mesh().size(); ++r) {
    const PeakMemory& fixed = plan.peak(step.mesh().coordinate(r, Dimension::pp));
    const HeldMemory& held = step.memory().peak(r);
    const auto row = [&](const char* kind, const std::string& place, Bytes bytes) {
      if (bytes > 0) file.print("{},{:.15f},{},{},{}\n", r, held.at.seconds(), kind, place, bytes);
    };
    row("weights", ",", fixed.state.weights + fixed.narrow_weights);
    row("gradients", ",", fixed.state.gradients);
    row("optimizer", ",", fixed.state.optimizer + held.gradient_copies);
    row("gathered", ",", held.gathered);
    for (const auto& [of, bytes] : held.kept) row("activations", fmt::format("{},{}", of.first, of.second), bytes);
    row("offloaded", ",", held.staged);
    row("recomputed", ",", held.recomputed);
    row("software", ",", fixed.reserved);
  }
}

}  // namespace railyard
