// Outputs of a run of any kind: summary.json, links.csv and the table on stdout. Documented in docs/results.md.
#pragma once

#include <string>

#include "sc_main/link_table.h"
#include "sc_main/simulation.h"
#include "sc_main/value.h"

namespace railyard {

constexpr int kSummarySchemaVersion = 2;

/// Figures of the simulator on this computer. All other values of a summary are the same in each run.
struct SimulatorFigures {
  double wall_s = 0;
  std::uint64_t peak_rss_bytes = 0;
  bool interrupted = false;
};

/// The metrics that all kinds have.
const Metrics<Simulation>& common_metrics();

Value summary(Simulation& simulation, const SimulatorFigures& figures);
void write_links_csv(Simulation& simulation, const std::string& path);
/// The table on stdout: first the workload's part, then the busiest links, messages and figures of the simulator.
std::string table(Simulation& simulation, const Value& summary);

}  // namespace railyard
