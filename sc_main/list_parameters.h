// --list-parameters: every parameter of the elaborated machine under the hierarchical name of its device.
#pragma once

#include "sc_main/scenario/machine_parameters.h"
#include "sc_main/simulation.h"
#include "sc_main/value.h"

namespace railyard {

/// [{name, value, unit, origin}]: keys of `machine`, then those of each device and its links, then those of modules of the user.
/// Parameters are read-only: they are those of the datasheets and the scenario when the machine was built.
Value list_parameters(Simulation& simulation, const std::vector<scenario::MachineParameter>& parameters);
/// The same as lines "NAME = VALUE  # unit; origin".
std::string parameters_text(const Value& parameters);

}  // namespace railyard
