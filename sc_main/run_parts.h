// What all executables that run a simulation share: settings of SystemC, the Simulation of the process, files of a run, and the exit
// status of an error.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sc_main/output_directory.h"
#include "sc_main/simulation.h"
#include "sc_main/value.h"

namespace railyard {

/// Once, before a simulation.
void prepare_systemc();
/// A simulation that lives as long as the process: SystemC removes the ports of a machine one by one, and searches each.
/// @throws as Simulation
Simulation& simulation_until_exit(const Scenario& scenario, execution::JobSink& sink);

/// What an error of SystemC says, after the name of the module that reports it, if it is one.
std::string text_of(const sc_core::sc_report& report);

/// Before a run: command.txt, scenario.yaml, machine.json, and the tables of the workload.
void begin_files(const OutputDirectory& out, const std::string& command, Simulation& simulation);
/// After it: summary.json, links.csv, and the rest of these tables.
void end_files(const OutputDirectory& out, const Value& results, Simulation& simulation);
/// Of this process alone: getrusage() also counts what the process that started it had.
std::uint64_t peak_rss_bytes();

/// Runs, and writes what is left for stdout. @return what `run` returns; after an error, which is one line on stderr, kExitBadInput
/// @param input  the file that describes the run
int status_of(const std::string& program, const std::string& input, const std::function<int()>& run);

}  // namespace railyard
