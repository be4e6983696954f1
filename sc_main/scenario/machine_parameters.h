// Every parameter of a machine, with its value and where this comes from. What it may be set to is in the tables of keys.
#pragma once

#include <string>
#include <vector>

#include "sc_main/scenario/parameters.h"

namespace railyard::scenario {

struct MachineParameter {
  std::string role;         ///< of machine.overrides: "gpu", "nic_pcie"; "": a key of `machine`
  std::uint32_t group = 0;  ///< of the machine, where roles have values by group
  std::string key;          ///< "hbm.gb_per_s"
  std::string value;
  std::string unit;  ///< "": none
  /// Where the value is written, or how it came about: "override FILE:LINE:COLUMN", "scenario ...", "datasheet ...", "derived"
  /// from others, or "default".
  std::string origin;
};

/// @param written  the section `machine`, from which `machine` was made
std::vector<MachineParameter> machine_parameters(const MachineSection& written, const platforms::MachineSpec& machine,
                                                 const Source& source);

}  // namespace railyard::scenario
