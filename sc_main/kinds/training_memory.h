// Memory of a training step over time: memory.csv, a row for each claim and release, written during the run; and
// memory_peak.csv, what each rank holds at its peak.
#pragma once

#include <string>

#include "sc_main/ordered_rows.h"
#include "workload/training/run/training_step.h"

namespace railyard {

class MemoryTable final : private workload::training::MemoryListener {
 public:
  /// Follows the step until the end of the run. @pre the step has not begun
  MemoryTable(const std::string& path, const workload::training::MemoryPlan& plan,
              workload::training::TrainingStep& step);

 private:
  void on_memory(std::uint32_t rank, const workload::training::HeldMemory& held, bool claims) override;
  std::string row(std::uint32_t rank, const workload::training::HeldMemory& held, bool claims) const;

  const workload::training::MemoryPlan& plan_;
  const workload::Mesh& mesh_;
  OutputFile file_;
  OrderedRows rows_{file_};
};

/// @pre the run is over
void write_memory_peak(const std::string& path, const workload::training::MemoryPlan& plan,
                       const workload::training::TrainingStep& step);

}  // namespace railyard
