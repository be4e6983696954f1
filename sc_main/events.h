// Finds the links and GPUs of a scenario's events in the machine and schedules the events.
#pragma once

#include <string>
#include <vector>

#include "sc_main/scenario.h"
#include "transport/device/calendar.h"
#include "transport/device/device.h"

namespace railyard {

namespace gpu {
class Gpu;
}
namespace transport {
class Assembly;
struct Undeliverable;
}  // namespace transport
class Simulation;

class MachineEvents final : private transport::CalendarClient {
 public:
  /// @throws InputError for a name that the machine does not have, with the nearest existing name
  explicit MachineEvents(Simulation& simulation);

  /// True if only events of the scenario are left on the calendar: then they cannot affect anything.
  /// @param of_workload  such events of the workload
  bool only_left(std::size_t of_workload) const;
  /// Links whose rates change, and whether links fail.
  const std::vector<transport::LinkEnd>& changed_links() const { return changed_links_; }
  bool fail_links() const { return fail_links_; }
  /// Instants at which GPUs change their speed.
  std::vector<Time> gpu_changes() const;

 private:
  struct Slowing {
    gpu::Gpu* gpu = nullptr;
    double ratio = 1;
    Time at;
  };
  void add_link_event(Simulation& simulation, const MachineEvent& event);
  void add_gpu_event(Simulation& simulation, const MachineEvent& event);
  void on_event(std::uint32_t tag, std::uint64_t number) override;

  transport::Assembly& fabric_;
  std::vector<Slowing> slowings_;
  std::size_t slowings_left_ = 0;
  std::vector<transport::LinkEnd> changed_links_;
  bool fail_links_ = false;
};

/// One line: the undeliverable bytes, the job that sent them, and the failed links.
std::string describe(const transport::Undeliverable& what, Simulation& simulation);

}  // namespace railyard
