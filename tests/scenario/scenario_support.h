// A scratch folder with scenario files, the current directory while it is there, and refusals as text, for the scenario loader's tests.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "sc_main/scenario/load.h"

namespace railyard::test {

inline const std::string kSource = RAILYARD_SOURCE_DIR;
inline const std::string kPlxScenario = kSource + "/scenarios/disagg_llama3_70b_plx.yaml";
inline const std::string kDgxScenario = kSource + "/scenarios/disagg_llama3_70b_dgx.yaml";

/// The smallest scenario; each line of it can be replaced by a test.
inline std::string small_scenario() {
  return "model: {config: " + kSource +
         "/scenarios/models/llama-3.1-8b.json}\n"
         "workload:\n"
         "  kind: disaggregated_prefill\n"
         "  requests: {prompt_tokens: 1024}\n"
         "  prefill: {tp: 4, pp: 2}\n";
}

inline std::string text_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

class Scratch {
 public:
  Scratch() : path_(std::filesystem::temp_directory_path() / ("railyard_scenario_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
    std::filesystem::current_path(path_);  // paths of --set count from here
  }
  ~Scratch() {
    std::filesystem::current_path(path_.parent_path());
    std::filesystem::remove_all(path_);
  }

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

  Scenario load(const std::string& text, const std::vector<std::string>& sets = {},
                const std::string& platform = "plx_box") const {
    return load_scenario(write("s.yaml", text), sets, platform);
  }
  Scenario load_with(const std::vector<std::string>& sets) const { return load(small_scenario(), sets); }

  /// The refusal of a scenario, without this folder's name; "accepted" if there is none.
  std::string refusal(const std::string& text, const std::vector<std::string>& sets = {},
                      const std::string& platform = "plx_box") const {
    const std::string file = write("s.yaml", text);
    try {
      load_scenario(file, sets, platform);
    } catch (const InputError& error) {
      std::string what = error.what();
      const std::string folder = path_.string() + "/";
      for (std::size_t at; (at = what.find(folder)) != std::string::npos;) what.erase(at, folder.size());
      return what;
    }
    return "accepted";
  }
  /// The refusal of a --set on the small scenario.
  std::string refusal_of_set(const std::string& option, const std::string& platform = "plx_box") const {
    return refusal(small_scenario(), {option}, platform);
  }

 private:
  std::filesystem::path path_;
};

/// The refusal of a shipped datasheet ("software/megatron_core") in which a line is replaced; "accepted" if there is none.
/// @param load  gets the name of the file
template <class Load>
std::string refusal_of_sheet(const std::string& sheet, const std::string& line, const std::string& replacement,
                             const Load& load) {
  const Scratch scratch;
  std::string text = text_of(kSource + "/platforms/datasheets/" + sheet + ".yaml");
  const std::size_t at = text.find("\n" + line);
  BOOST_TEST_REQUIRE(at != std::string::npos);
  text.replace(at + 1, text.find('\n', at + 1) - at, replacement);
  scratch.write("mine.yaml", text);
  try {
    load("mine.yaml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace railyard::test
