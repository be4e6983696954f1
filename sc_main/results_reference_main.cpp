// results_reference ROOT: writes the tables of metrics into ROOT/docs/results.md.
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <systemc>

#include "sc_main/results_page.h"

// libsystemc has main(), which calls this function.
int sc_main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: results_reference PROJECT_ROOT\n";
    return 2;
  }
  const std::string path = std::string(argv[1]) + "/docs/results.md";
  try {
    std::ifstream in(path);
    const std::string page = railyard::with_metric_tables({std::istreambuf_iterator<char>(in), {}});
    in.close();
    std::ofstream out(path);
    out << page;
    out.close();
    if (out) return 0;
    std::cerr << "results_reference: cannot write " << path << "\n";
  } catch (const std::exception& e) {
    std::cerr << "results_reference: " << path << ": error: " << e.what() << "\n";
  }
  return 2;
}
