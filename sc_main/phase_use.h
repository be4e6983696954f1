// Utilisation of each link during the phases of the metrics. Utilisation over the whole run can be low even if a short
// phase saturates a link.
#pragma once

#include <string>
#include <vector>

#include "sc_main/link_table.h"
#include "workload/phase_listener.h"

namespace railyard {

class PhaseUse final : public workload::PhaseListener {
 public:
  /// @param links  rows of link_table(), in its order
  PhaseUse(transport::Assembly& fabric, std::vector<std::string> phases, const std::vector<LinkRow>& links);

  const std::vector<std::string>& phases() const { return phases_; }
  /// Share of the phase for which the link was charged; 0 if the phase did not occur. A running phase lasts until
  /// `now`.
  double utilisation(std::size_t phase, std::size_t link, Time now) const;

  void on_phase_begun(std::size_t phase) override;
  void on_phase_ended(std::size_t phase) override;

 private:
  struct Window {
    Time lasted, since;
    bool open = false;
    std::vector<Time> busy, busy_before;  ///< by link
  };
  transport::Assembly& fabric_;
  const std::vector<std::string> phases_;
  const std::vector<LinkRow> links_;
  std::vector<Window> windows_;
};

}  // namespace railyard
