#include "sc_main/scenario/import/names.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>
#include <vector>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

namespace fs = std::filesystem;

/// LLMServingSim's short names; it has profiles of RTX4090 and RTXPRO6000, the others follow their pattern.
constexpr std::pair<const char*, const char*> kHardware[] = {
    {"A100", "A100-SXM4-80GB"}, {"A40", "A40-48GB"},
    {"A800", "A800-SXM4-80GB"}, {"B200", "B200-SXM-180GB"},
    {"B300", "B300-SXM-270GB"}, {"GB200", "GB200-186GB"},
    {"GB300", "GB300-278GB"},   {"H100", "H100-SXM5-80GB"},
    {"H20", "H20-SXM-96GB"},    {"H200", "H200-SXM-141GB"},
    {"H800", "H800-SXM5-80GB"}, {"L20", "L20-48GB"},
    {"RTX3090", "RTX-3090"},    {"RTX4090", "RTX-4090"},
    {"RTX5090", "RTX-5090"},    {"RTXPRO6000", "RTX-PRO-6000-Blackwell-Server"},
    {"V100", "V100-SXM2-32GB"}};

/// scenarios/models of the folder of the executable or of the one above (build/bin, and bin of an installation), or of
/// the sources.
fs::path shipped_models() {
  std::error_code error;
  const fs::path home = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  for (const fs::path& root : {home, home.parent_path()})
    if (fs::is_directory(root / "scenarios" / "models", error)) return root / "scenarios" / "models";
  return RAILYARD_SHIPPED_MODELS;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string without_organisation(const std::string& model) { return model.substr(model.rfind('/') + 1); }

/// Names of the configs in a folder and its folders, without .json.
std::vector<std::string> configs_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  const auto add = [&](const fs::path& path, const std::string& prefix) {
    if (path.extension() == ".json") names.push_back(prefix + path.stem().string());
  };
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    add(entry.path(), "");
    if (!entry.is_directory(error)) continue;
    for (const fs::directory_entry& inner : fs::directory_iterator(entry.path(), error))
      add(inner.path(), entry.path().filename().string() + "/");
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string datasheet_of_hardware(const std::string& hardware, const Origin& where, const std::string& key) {
  std::vector<std::string> names = shipped_datasheets("gpus");
  if (std::count(names.begin(), names.end(), hardware) > 0) return hardware;
  for (const auto& [name, datasheet] : kHardware) {
    if (hardware == name) return datasheet;
    names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  const std::string near = nearest(hardware, names);
  throw InputError(where, key + ": unknown hardware " + in_quotes(hardware) + "; accepted: " + joined(names) +
                              (near.empty() ? "" : " (did you mean '" + near + "'?)"));
}

std::string config_of_model(const std::string& model, const std::string& folder, const Origin& where,
                            const std::string& key) {
  std::string flat = model;
  std::replace(flat.begin(), flat.end(), '/', '_');
  const fs::path place = folder.empty() ? shipped_models() : fs::path(folder);
  const std::vector<std::string> tried = folder.empty()
                                             ? std::vector<std::string>{lower_case(without_organisation(model))}
                                             : std::vector<std::string>{flat, model};
  const std::vector<std::string> names = configs_in(place);
  for (const std::string& name : tried)
    if (std::count(names.begin(), names.end(), name) > 0) return (place / (name + ".json")).string();
  const std::string near = nearest(tried.front(), names);
  throw InputError(where,
                   key + ": no config of " + in_quotes(model) + " in " + in_quotes(place.string()) +
                       (names.empty() ? "; expected ORG_NAME.json or ORG/NAME.json" : "; it has " + joined(names)) +
                       (near.empty() ? "" : " (did you mean '" + near + "'?)") +
                       (folder.empty() ? "; --models DIR names another folder" : ""));
}

}  // namespace railyard::scenario
