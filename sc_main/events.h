// A scenario's events, looked up in the machine and put on the calendar.
#pragma once

#include <string>
#include <vector>

#include "sc_main/scenario.h"
#include "transport/device/calendar.h"

namespace railyard {

namespace gpu {
class Gpu;
}
namespace transport {
class Assembly;
struct Undeliverable;
}  // namespace transport
class Simulation;

class MachineEvents : private transport::CalendarClient {
 public:
  /// @throws InputError for a name that the machine has not, with the nearest that it has
  explicit MachineEvents(Simulation& simulation);

  /// Nothing is left on the calendar but events of the scenario: nothing is left for them to happen to.
  bool only_left() const;
  /// Whether any of them is of a link.
  bool change_links() const { return change_links_; }

 private:
  struct Slowing {
    gpu::Gpu* gpu = nullptr;
    double ratio = 1;
  };
  void add_link_event(Simulation& simulation, const MachineEvent& event);
  void add_gpu_event(Simulation& simulation, const MachineEvent& event);
  void on_event(std::uint32_t tag, std::uint64_t number) override;

  transport::Assembly& fabric_;
  std::vector<Slowing> slowings_;
  std::size_t slowings_left_ = 0;
  bool change_links_ = false;
};

/// What could not be delivered, whose it was, and the links that are lost, on one line.
std::string describe(const transport::Undeliverable& what, Simulation& simulation);

}  // namespace railyard
