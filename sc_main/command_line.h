// The command line that every platform executable has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace railyard {

enum class JobsLevel { all, stage, none };
enum class VcdLevel { summary, links, all };

struct Options {
  std::string command;  ///< as it was typed, quoted for a shell
  std::string scenario;
  std::vector<std::string> sets;
  std::string out;  ///< empty: only the table
  bool vcd = false, timeline = false, why = false;
  bool fst = false;  ///< trace.fst in place of trace.vcd
  VcdLevel vcd_level = VcdLevel::links;
  std::vector<std::string> vcd_filters;
  Time vcd_from, vcd_to = Time::max();
  std::optional<JobsLevel> jobs;  ///< absent: by size
  bool describe = false, explain = false, check = false, schema = false, json = false, quiet = false;
};

/// What parse() decided: run with `options`, or leave with `status` (help and version print and leave with 0).
struct Parsed {
  std::optional<Options> options;
  int status = 0;
};

constexpr int kExitDone = 0;
constexpr int kExitBadInput = 2;
constexpr int kExitNoProgress = 3;

Parsed parse(const std::string& platform, int argc, char** argv);

}  // namespace railyard
