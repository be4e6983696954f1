// The command line of all platform executables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "sc_main/scenario/import/llmservingsim.h"

namespace railyard {

enum class JobsLevel { all, stage, none };
enum class VcdLevel { summary, links, all };

struct Options {
  std::string command;   ///< the command as typed, quoted for a shell
  std::string scenario;  ///< "": llmservingsim instead
  scenario::LlmServingSimOptions llmservingsim;
  std::vector<std::string> sets;
  std::string dump_scenario;  ///< file for the scenario that runs; empty: none
  std::string out;            ///< empty: only the table on stdout
  bool vcd = false, timeline = false, why = false;
  bool fst = false;  ///< write trace.fst instead of trace.vcd
  VcdLevel vcd_level = VcdLevel::links;
  std::vector<std::string> vcd_filters;
  Time vcd_from, vcd_to = Time::max();
  std::string export_et;  ///< prefix of the files; empty: none
  bool iterations = false;
  std::optional<Time> log_interval;
  std::optional<JobsLevel> jobs;  ///< absent: depends on the number of jobs
  std::string explain_each;       ///< file of settings, -: stdin; empty: none
  std::string schedule_times;     ///< file of schedules, -: stdin; empty: none
  bool describe = false, list_parameters = false, explain = false, check = false, schema = false, json = false,
       quiet = false;

  /// The file that describes the run.
  const std::string& input() const { return scenario.empty() ? llmservingsim.cluster_config : scenario; }
};

/// The result of parse(): run with `options`, or exit with `status` (help and version print and exit with 0).
struct Parsed {
  std::optional<Options> options;
  int status = 0;
};

constexpr int kExitDone = 0;
constexpr int kExitBadInput = 2;
constexpr int kExitNoProgress = 3;

Parsed parse(const std::string& platform, int argc, char** argv);

}  // namespace railyard
