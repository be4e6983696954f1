// Tracing of a run by command line options: waveform and timeline, with the stream names of the ranks.
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
  /// @param jobs  also forwards jobs to the timeline
  Tracing(const Options& options, const OutputDirectory& out, Simulation& simulation, JobsCsv& jobs);
  void advance(Time now) {
    if (waveform_) waveform_->advance(now);
  }
  /// Converts the waveform if the command line asks for this. @throws InputError if the conversion fails
  /// @param paths  critical paths for the timeline
  void finish(Time end, const std::vector<probe::CriticalPath::Measure>& paths);
  /// True if vcd2fst is installed.
  static bool can_convert();

 private:
  const std::string fst_path_, vcd_path_;  ///< fst_path_ empty: trace.vcd is kept
  std::optional<probe::Waveform> waveform_;
  std::optional<probe::Timeline> timeline_;
};

}  // namespace railyard
