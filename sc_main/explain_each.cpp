#include "sc_main/explain_each.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <istream>
#include <system_error>

#include "sc_main/describe.h"
#include "sc_main/jobs_csv.h"
#include "sc_main/scenario/load.h"
#include "sc_main/simulation.h"

namespace railyard {

namespace {

std::vector<std::string> settings_of(const std::string& line) {
  std::vector<std::string> settings;
  for (std::size_t begin = 0; begin < line.size();) {
    const std::size_t end = std::min(line.find('\t', begin), line.size());
    if (end > begin) settings.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return settings;
}

void print(const Value& answer) {
  fmt::print("{}", json_line(answer));
  std::fflush(stdout);
}

Value refused(const std::string& why) { return {{"error", why}}; }

/// In the child. It ends before the machine is destroyed, which would take a tenth of its time.
[[noreturn]] void answer(const Options& options, const std::string& platform,
                         const std::vector<std::string>& settings) {
  try {
    std::vector<std::string> sets = options.sets;
    sets.insert(sets.end(), settings.begin(), settings.end());
    const Scenario scenario = load_scenario(options.scenario, sets, platform);
    JobsCsv none;
    Simulation simulation(scenario, none);
    print(explain(simulation));
    _exit(kExitDone);
  } catch (const std::exception& e) {  // InputError, or too little memory
    print(refused(e.what()));
    _exit(kExitDone);
  }
}

}  // namespace

void explain_each(const Options& options, const std::string& platform, std::istream& questions) {
  for (std::string line; std::getline(questions, line);) {
    const pid_t child = fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child == 0) answer(options, platform, settings_of(line));
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
      if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != kExitDone)
      print(refused(
          fmt::format("{}: error: this machine and workload ended the process that examined them (wait status {})",
                      options.scenario, status)));
  }
}

}  // namespace railyard
