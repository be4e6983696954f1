// The machine of a scenario: datasheets looked up, rates of links derived from what they join, what-ifs applied.
#pragma once

#include <string>

#include "sc_main/scenario/parameters.h"

namespace railyard::scenario {

/// Where the scenario's text is, for errors and for paths relative to it.
struct Source {
  NodePtr root;
  std::string folder;
};

platforms::MachineSpec resolve_machine(const MachineSection& written, const std::string& platform,
                                       const Source& source);

}  // namespace railyard::scenario
