// Listens to the phases of a run that metrics measure, such as prefill and decode. Phases can overlap and can repeat. A
// listener does not influence the run.
#pragma once

#include <cstddef>

namespace railyard::workload {

class PhaseListener {
 public:
  /// @param phase  its number, in the order in which the workload names its phases
  virtual void on_phase_begun(std::size_t phase) = 0;
  virtual void on_phase_ended(std::size_t phase) = 0;

 protected:
  ~PhaseListener() = default;
};

}  // namespace railyard::workload
