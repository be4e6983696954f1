// The waveform of a run, as the command line asks for it: which signals, which part, and how ranks' streams are called.
#pragma once

#include <memory>
#include <string>

#include "probe/waveform.h"
#include "sc_main/command_line.h"
#include "sc_main/simulation.h"

namespace railyard {

class Tracing {
 public:
  /// @param path  of trace.vcd; its view is written beside it
  Tracing(const Options& options, const std::string& path, Simulation& simulation);
  void advance(Time now) { waveform_.advance(now); }
  /// Also converts it, where the command line asks for that. @throws InputError when that fails
  void finish(Time end);
  /// Whether vcd2fst is installed.
  static bool can_convert();

 private:
  const std::string fst_path_, vcd_path_;  ///< the first is empty: trace.vcd stays
  probe::Waveform waveform_;
};

}  // namespace railyard
