// The fidelity that a run can afford, decided before time zero. Links are one set where traffic can connect them: two ways that
// share a link, in either direction, are of one set, so no link carries both fidelities and no message crosses both. What a set
// would cost as trains is estimated from the bytes it will carry: transactions, times the links each crosses. The cheapest sets
// are trains as long as all of them together stay within a budget; the others are fluid. All links among which a message's way is
// chosen when it gets there (ECMP, adaptive routing) are one set, too.
#pragma once

#include <vector>

#include "transport/device/device.h"
#include "transport/study/fidelity.h"

namespace railyard::transport {

class Routes;

/// What one memory sends to another during a whole run, about.
struct Traffic {
  Window source = 0, destination = 0;
  std::uint8_t traffic_class = 0;
  double bytes = 0;
  /// Number of the group whose collectives these are, if they are computed once where the links are theirs alone.
  std::int64_t reused_by = kNobody;
  static constexpr std::int64_t kNobody = -1;
};

struct FidelityChoice {
  std::size_t sets = 0, fluid_sets = 0;
  double hops = 0;             ///< transactions on links, if all were trains
  double train_hops = 0;       ///< of the sets that are
  std::vector<LinkEnd> fluid;  ///< directions of the fluid sets' links

  Fidelity fidelity() const;  ///< automatic: of both kinds
};

/// About a minute of processor time.
constexpr double kAffordableHops = 2e8;

/// What is not affordable as trains is to be fluid.
FidelityChoice choose_fidelity(const Routes& routes, const std::vector<Device*>& devices,
                               const std::vector<Traffic>& traffic, double affordable_hops = kAffordableHops);

}  // namespace railyard::transport
