#include "sc_main/run_parts.h"

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <new>
#include <system_error>

#include "base/input_error.h"
#include "base/output.h"
#include "sc_main/command_line.h"
#include "sc_main/describe.h"
#include "sc_main/results.h"

namespace railyard {

namespace {

/// A reader that has left early (EPIPE) misses nothing that it wanted.
/// @throws std::system_error if text for stdout was lost otherwise
void flush_stdout() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  if (errno != EPIPE) cannot_write("to stdout", errno);
}

}  // namespace

void prepare_systemc() {
  sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
  sc_core::sc_report_handler::set_actions(sc_core::SC_INFO, sc_core::SC_DO_NOTHING);  // stdout is only for the table
  sc_core::sc_report_handler::set_actions(
      sc_core::SC_FATAL, sc_core::SC_DISPLAY | sc_core::SC_THROW);  // not abort(), which would leave files
}

Simulation& simulation_until_exit(const Scenario& scenario, execution::JobSink& sink) {
  static Simulation* only = nullptr;
  only = new Simulation(scenario, sink);
  return *only;
}

std::string text_of(const sc_core::sc_report& report) {
  const bool is_of_module = sc_core::sc_find_object(report.get_msg_type()) != nullptr;
  return (is_of_module ? std::string(report.get_msg_type()) + ": " : "") + report.get_msg();
}

void begin_files(const OutputDirectory& out, const std::string& command, Simulation& simulation) {
  write_file(out.file("command.txt"), command + "\n");
  write_file(out.file("scenario.yaml"), simulation.scenario().resolved);
  write_file(out.file("machine.json"), json_text(describe(simulation)));
  simulation.workload().open_tables(out);
}

void end_files(const OutputDirectory& out, const Value& results, Simulation& simulation) {
  write_file(out.file("summary.json"), json_text(results));
  write_links_csv(simulation, out.file("links.csv"));
  simulation.workload().write_tables(out);
}

std::uint64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::uint64_t kib = 0;
  while (status >> word)
    if (word == "VmHWM:" && status >> kib) break;
  return kib * 1024;
}

int status_of(const std::string& program, const std::string& input, const std::function<int()>& run) {
  try {
    const int status = run();
    flush_stdout();
    return status;
  } catch (const InputError& e) {
    std::cerr << e.what() << "\n";
  } catch (const std::system_error& e) {  // a file or folder is not writable
    std::cerr << program << ": error: " << printable(e.what()) << "\n";
  } catch (const std::bad_alloc&) {
    std::cerr << printable(input)
              << ": error: simulating this machine and workload needs more memory than this computer has\n";
  }
  return kExitBadInput;
}

}  // namespace railyard
