// Choice of the fidelity that a run can afford, before time zero. Links that traffic can connect form one set: two
// paths that share a link, in either direction, belong to one set, so no link and no message has both fidelities. All
// links among which a message's path is chosen at run time (ECMP, adaptive routing) are one set, too. The cost of a set
// as trains is estimated from its traffic: transactions times the links on their paths. The cheapest sets become trains
// while their total stays within a budget; all other sets become fluid.
#pragma once

#include <vector>

#include "transport/device/device.h"
#include "transport/study/fidelity.h"

namespace railyard::transport {

class Routes;

/// Estimated traffic from one memory to another during a whole run.
struct Traffic {
  Window source = 0, destination = 0;
  std::uint8_t traffic_class = 0;
  double bytes = 0;
  /// Number of the group of these collectives, if they are computed only once when no other traffic uses their links.
  std::int64_t reused_by = kNobody;
  static constexpr std::int64_t kNobody = -1;
  /// Its sender says from when on it may send (transport/horizon.h), so that collectives are computed once beside it, too.
  bool is_announced = false;
};

struct FidelityChoice {
  std::size_t sets = 0, fluid_sets = 0;
  double hops = 0;             ///< transactions times links, if all sets were trains
  double train_hops = 0;       ///< of the sets that are trains
  std::vector<LinkEnd> fluid;  ///< directions of the fluid sets' links

  Fidelity fidelity() const;  ///< automatic: both kinds occur
};

/// Transactions of this traffic as trains times the links on their paths.
double hops(const Routes& routes, const std::vector<Traffic>& traffic);

/// About a minute of processor time.
constexpr double kAffordableHops = 2e8;

/// Sets that are too expensive as trains become fluid.
FidelityChoice choose_fidelity(const Routes& routes, const std::vector<Device*>& devices,
                               const std::vector<Traffic>& traffic, double affordable_hops = kAffordableHops);

}  // namespace railyard::transport
