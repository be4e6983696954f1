// The energy of a run, of all GPUs with a rank: gpu/energy.h has the formula. Its metrics, and its line in the table.
//
// A GPU also has a share of what surrounds it, where datasheets say what this draws: of its server, one of so many GPUs; of the
// network's switches, the ports with a cable, divided by the GPUs of the machine. Both draw a constant power, and a server a
// share of what its GPUs draw on top of it, so their energy follows from the time and the GPUs' energy. docs/energy.md has
// the sources.
#pragma once

#include <optional>
#include <string>

#include "gpu/energy.h"
#include "sc_main/simulation.h"

namespace railyard {

struct RunEnergy {
  EnergyPer per = EnergyPer::nothing;
  gpu::Energy joules;  ///< of all GPUs; those of a folded machine count as often as they stand for others
  double gpus = 0;
  double seconds = 0;
  WorkDone work;
  std::optional<double> servers_j, network_j;  ///< the shares of these GPUs; none: not known
  /// GPUs, servers and network; none: a part is not known.
  std::optional<double> all_j() const {
    if (!servers_j || !network_j) return std::nullopt;
    return joules.total_j() + *servers_j + *network_j;
  }
  double mean_w() const { return seconds > 0 ? joules.total_j() / (seconds * gpus) : 0; }
};

/// None for kinds that report no energy, and if the datasheet of a GPU has no constants.
std::optional<RunEnergy> run_energy(Simulation& simulation);
/// The metrics of a kind; none for EnergyPer::nothing.
const Metrics<RunEnergy>& energy_metrics(EnergyPer per);
/// Why a kind that reports its energy has none in this run; "": it has, or reports none.
std::string why_no_energy(Simulation& simulation);
/// The energy in two lines; "" if it is not known.
std::string energy_text(Simulation& simulation);

}  // namespace railyard
