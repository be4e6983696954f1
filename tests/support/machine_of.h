// The machine of a `machine:` section alone, as resolved for a workload on groups with certain names.
#pragma once

#include <string>
#include <vector>

#include "sc_main/scenario/machine.h"

namespace railyard::test {

inline platforms::MachineSpec machine_of(const std::string& yaml, const std::string& platform = "plx_box",
                                         const std::vector<std::string>& roles = {}) {
  scenario::Source source;
  source.root = scenario::parse_yaml(yaml, "s.yaml");
  scenario::ScenarioFile written;
  for (const scenario::Field& field : scenario::scenario_table().fields()) {
    if (field.key == "machine") field.store(field, &written, *source.root->find("machine")->value, "machine");
  }
  return scenario::resolve_machine(written.machine, platform, roles, false, source);
}

}  // namespace railyard::test
