#include "sc_main/phase_use.h"

namespace railyard {

PhaseUse::PhaseUse(transport::Assembly& fabric, std::vector<std::string> phases, const std::vector<LinkRow>& links)
    : fabric_(fabric), phases_(std::move(phases)), links_(links), windows_(phases_.size()) {
  if (!phases_.empty()) fabric.follow_charges();
  for (Window& window : windows_) {
    window.busy.resize(links_.size());
    window.busy_before.resize(links_.size());
  }
}

void PhaseUse::on_phase_begun(std::size_t phase) {
  Window& window = windows_[phase];
  window.open = true;
  window.since = fabric_.now();
  fabric_.charge_until_now();
  for (std::size_t link = 0; link < links_.size(); ++link) window.busy_before[link] = links_[link].busy(window.since);
}

void PhaseUse::on_phase_ended(std::size_t phase) {
  Window& window = windows_[phase];
  window.open = false;
  const Time now = fabric_.now();
  window.lasted += now - window.since;
  fabric_.charge_until_now();
  for (std::size_t link = 0; link < links_.size(); ++link)
    window.busy[link] += links_[link].busy(now) - window.busy_before[link];
}

double PhaseUse::utilisation(std::size_t phase, std::size_t link, Time now) const {
  const Window& window = windows_[phase];
  Time lasted = window.lasted, busy = window.busy[link];
  if (window.open) {
    lasted += now - window.since;
    busy += links_[link].busy(now) - window.busy_before[link];
  }
  return lasted == Time() ? 0.0 : busy.seconds() / lasted.seconds();
}

}  // namespace railyard
