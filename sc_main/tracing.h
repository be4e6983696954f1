// What follows a run, as the command line asks for it: its waveform and its timeline, with the names of ranks' streams.
#pragma once

#include <optional>

#include "probe/timeline.h"
#include "probe/waveform.h"
#include "sc_main/command_line.h"
#include "sc_main/jobs_csv.h"
#include "sc_main/output_directory.h"
#include "sc_main/simulation.h"

namespace railyard {

class Tracing {
 public:
  /// @param jobs  tells the timeline of jobs as well
  Tracing(const Options& options, const OutputDirectory& out, Simulation& simulation, JobsCsv& jobs);
  void advance(Time now) {
    if (waveform_) waveform_->advance(now);
  }
  /// Also converts the waveform, where the command line asks for that. @throws InputError when that fails
  /// @param paths  for the timeline
  void finish(Time end, const std::vector<probe::CriticalPath::Measure>& paths);
  /// Whether vcd2fst is installed.
  static bool can_convert();

 private:
  const std::string fst_path_, vcd_path_;  ///< the first is empty: trace.vcd stays
  std::optional<probe::Waveform> waveform_;
  std::optional<probe::Timeline> timeline_;
};

}  // namespace railyard
