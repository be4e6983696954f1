#include "sc_main/scenario/execution_traces/chakra.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sc_main/scenario/execution_traces/chakra_rank.h"

namespace railyard::scenario {

using workload::execution_trace::CommGroup;
using workload::execution_trace::Trace;

namespace {

/// Ranks whose files are there.
std::uint32_t count_ranks(const ChakraFiles& files) {
  const std::filesystem::path prefix(files.prefix);
  const std::filesystem::path folder = prefix.has_parent_path() ? prefix.parent_path() : ".";
  const std::string start = prefix.filename().string() + ".";
  std::vector<std::uint32_t> found;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    constexpr std::size_t kEnding = 3, kLongest = 7;  // ".et", digits
    if (name.size() <= start.size() + kEnding || name.compare(0, start.size(), start) != 0 ||
        name.compare(name.size() - kEnding, kEnding, ".et") != 0)
      continue;
    const std::string rank = name.substr(start.size(), name.size() - kEnding - start.size());
    if (rank.size() > kLongest || rank.find_first_not_of("0123456789") != std::string::npos) continue;
    found.push_back(static_cast<std::uint32_t>(std::stoul(rank)));
  }
  if (found.empty())
    throw InputError(files.prefix_origin,
                     "workload.prefix: no file " + chakra_file(files.prefix, 0) + ", the trace of the first rank");
  std::sort(found.begin(), found.end());
  for (std::uint32_t rank = 0; rank < found.size(); ++rank)
    if (found[rank] != rank)
      throw InputError(files.prefix_origin,
                       fmt::format("workload.prefix: no file {}, but there is {}", chakra_file(files.prefix, rank),
                                   chakra_file(files.prefix, found.back())));
  return static_cast<std::uint32_t>(found.size());
}

std::map<std::string, std::uint32_t> read_groups(const ChakraFiles& files, Trace& trace) {
  std::map<std::string, std::uint32_t> names;
  if (!files.groups) return names;
  const auto refuse = [&](const std::string& what) { throw InputError({*files.groups, 1, 1}, what); };
  std::ifstream stream(*files.groups);
  if (!stream) throw InputError(files.groups_origin, "workload.groups: cannot read " + *files.groups);
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, false);
  if (!json.is_object()) refuse("expected a JSON object of groups: {\"NAME\": [rank, ...]}");
  for (const auto& [name, ranks] : json.items()) {
    CommGroup group{name, TrafficClass::tp, {}};
    if (!ranks.is_array() || ranks.empty()) refuse("group '" + name + "': expected a list of ranks");
    for (const nlohmann::json& rank : ranks) {
      if (!rank.is_number_unsigned() || rank.get<std::uint64_t>() >= trace.ranks.size())
        refuse(fmt::format("group '{}': a rank is {}; accepted: 0 to {}", name, rank.dump(), trace.ranks.size() - 1));
      const auto number = rank.get<std::uint32_t>();
      if (std::find(group.ranks.begin(), group.ranks.end(), number) != group.ranks.end())
        refuse(fmt::format("group '{}': rank {} twice", name, number));
      group.ranks.push_back(number);
    }
    names[name] = static_cast<std::uint32_t>(trace.groups.size());
    trace.groups.push_back(std::move(group));
  }
  return names;
}

}  // namespace

std::string chakra_file(const std::string& prefix, std::uint32_t rank) { return fmt::format("{}.{}.et", prefix, rank); }

Trace read_chakra(const ChakraFiles& files) {
  Trace trace;
  trace.ranks.resize(count_ranks(files));
  CommGroup all{"all", TrafficClass::tp, {}};
  for (std::uint32_t rank = 0; rank < trace.ranks.size(); ++rank) all.ranks.push_back(rank);
  trace.groups.push_back(std::move(all));
  const std::map<std::string, std::uint32_t> names = read_groups(files, trace);
  for (std::uint32_t rank = 0; rank < trace.ranks.size(); ++rank)
    read_chakra_rank(chakra_file(files.prefix, rank), rank, trace, names);
  return trace;
}

}  // namespace railyard::scenario
