#include "sc_main/scenario/datasheets/sheet_file.h"

#include <filesystem>

#include "sc_main/scenario/datasheets/embedded.h"
#include "sc_main/scenario/table/lists.h"
#include "sc_main/scenario/table/tree.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

constexpr std::size_t kLongestDatasheet = 1u << 20;

/// Trees of embedded files, in their order, or nullptr. Shipped sheets are parsed once; it takes most of the time of loading.
std::vector<NodePtr>& shipped_trees() {
  static std::vector<NodePtr> trees(kEmbeddedFileCount);
  return trees;
}

Sheet open_with_base(const std::string& folder, const DatasheetName& which, std::uint32_t followers) {
  check_chain(which, "base", followers);
  Sheet sheet = open_sheet(folder, which);
  const Entry* const named = sheet.root->find("base");
  if (!named || !sheet.root->find("source")) return sheet;
  auto own = std::make_shared<Node>(*sheet.root);
  own->entries.erase(
      std::find_if(own->entries.begin(), own->entries.end(), [](const Entry& e) { return e.key == "base"; }));
  sheet.root = joined(own, open_with_base(folder, named_in(sheet, *named), followers + 1).root);
  return sheet;
}

}  // namespace

Sheet open_sheet(const std::string& folder, const DatasheetName& which) {
  const std::string& name = which.name;
  if (is_file_name(name)) return {name, parse_yaml(read_file(name, which.origin, which.key, kLongestDatasheet), name)};
  for (std::size_t i = 0; i < kEmbeddedFileCount; ++i) {
    if (folder + "/" + name == kEmbeddedFiles[i].path) {
      const std::string path = "platforms/datasheets/" + folder + "/" + name + ".yaml";
      NodePtr& root = shipped_trees()[i];
      if (!root) root = parse_yaml(kEmbeddedFiles[i].text, path);
      return {path, root};
    }
  }
  const std::vector<std::string> shipped = shipped_datasheets(folder);
  const std::string near = nearest(name, shipped);
  throw InputError(which.origin, which.key + ": no datasheet " + in_quotes(name) + "; shipped: " + joined(shipped) +
                                     "; or a path to a .yaml file" +
                                     (near.empty() ? "" : " (did you mean '" + near + "'?)"));
}

Sheet open_with_base(const std::string& folder, const DatasheetName& which) { return open_with_base(folder, which, 0); }

DatasheetName named_in(const Sheet& sheet, const Entry& entry) {
  DatasheetName name{read_text({}, *entry.value, entry.key), entry.key, entry.value->origin};
  if (is_file_name(name.name)) name.name = (std::filesystem::path(sheet.file).parent_path() / name.name).string();
  return name;
}

void check_chain(const DatasheetName& which, const char* key, std::uint32_t followers) {
  constexpr std::uint32_t kMostFollowers = 8;
  if (followers > kMostFollowers)
    throw InputError(which.origin, which.key + ": more than " + std::to_string(kMostFollowers) +
                                       " datasheets in a chain of '" + key + "' keys, or a cycle");
}

std::vector<std::string> shipped_datasheets(const std::string& folder) {
  std::vector<std::string> names;
  const std::string prefix = folder + "/";
  for (std::size_t i = 0; i < kEmbeddedFileCount; ++i) {
    const std::string path = kEmbeddedFiles[i].path;
    if (path.compare(0, prefix.size(), prefix) == 0) names.push_back(path.substr(prefix.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace railyard::scenario
