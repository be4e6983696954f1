// scenario_reference ROOT: writes ROOT/docs/scenario-reference.md and ROOT/scenarios/scenario.schema.json from the
// parameter table.
#include <fstream>
#include <iostream>

#include "sc_main/scenario/load.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: scenario_reference PROJECT_ROOT\n";
    return 2;
  }
  const std::string root = argv[1];
  std::ofstream page(root + "/docs/scenario-reference.md"), schema(root + "/scenarios/scenario.schema.json");
  page << railyard::parameter_reference_markdown();
  schema << railyard::scenario_schema();
  page.close();
  schema.close();
  if (page && schema) return 0;
  std::cerr << "scenario_reference: cannot write below " << root << "\n";
  return 2;
}
