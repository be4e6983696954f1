#include "sc_main/scenario/kinds/ranks_and_sizes.h"

#include <numeric>
#include <set>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/table/lists.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using nlohmann::json;

namespace {

/// The groups of these GPUs, which are counted over all groups.
std::set<std::uint32_t> groups_of(const std::vector<std::uint32_t>& gpus, const platforms::MachineSpec& machine) {
  std::set<std::uint32_t> used;
  for (const std::uint32_t gpu : gpus) {
    std::uint32_t group = 0, first = 0;
    while (gpu >= first + machine.groups[group].servers * machine.board.gpus)
      first += machine.groups[group++].servers * machine.board.gpus;
    used.insert(group);
  }
  return used;
}

}  // namespace

json ranks_schema() {
  const json gpu = {{"type", "integer"}, {"minimum", 0}};
  return {{"anyOf", {json{{"type", "integer"}, {"minimum", 2}}, list_schema(gpu)}}};
}

void read_ranks(RanksSection& section, const Node& node, const std::string& path) {
  Field gpu;
  gpu.range(node.kind == Node::Kind::sequence ? 0 : 2, kMostGpus);
  if (node.kind != Node::Kind::sequence) {
    section.rank_count = static_cast<std::uint32_t>(read_integer(gpu, node, path));
  } else {
    section.ranks = read_integers(gpu, node, path);
  }
}

json sizes_schema() {
  return list_schema({{"type", "integer"}, {"minimum", 1}, {"maximum", static_cast<std::uint64_t>(kMostSizeBytes)}});
}

void read_sizes(SizesSection& section, const Node& node, const std::string& path) {
  Field bytes;
  bytes.range(1, kMostSizeBytes);
  section.sizes_bytes = read_list<std::uint64_t>(
      node, path, [&](const Node& n, const std::string& p) { return read_integer(bytes, n, p); });
}

std::uint32_t group_named(const std::string& name, const std::string& key, const platforms::MachineSpec& machine,
                          const Source& source) {
  std::vector<std::string> names;
  for (std::uint32_t g = 0; g < machine.groups.size(); ++g) {
    if (machine.groups[g].name == name) return g;
    names.push_back(machine.groups[g].name);
  }
  throw InputError(place_of(source.root, key), key + ": no group " + in_quotes(name) + suggestion(name, names));
}

std::uint32_t all_gpus(const platforms::MachineSpec& machine) {
  return std::accumulate(machine.groups.begin(), machine.groups.end(), 0u,
                         [&](std::uint32_t sum, const auto& g) { return sum + g.servers * machine.board.gpus; });
}

std::vector<std::uint32_t> resolve_ranks(const RanksSection& written, const platforms::MachineSpec& machine,
                                         const Source& source) {
  const std::uint32_t per_server = machine.board.gpus;
  const std::uint32_t gpus = all_gpus(machine);
  if (written.ranks) {
    if (written.ranks_per_server) refuse_workload(source, "ranks_per_server", "is not accepted with a list of ranks");
    if (written.ranks->size() < 2) refuse_workload(source, "ranks", "too few GPUs; accepted: at least two");
    std::set<std::uint32_t> taken;
    for (std::size_t r = 0; r < written.ranks->size(); ++r) {
      const std::uint32_t gpu = (*written.ranks)[r];
      const std::string item = "ranks." + std::to_string(r);
      if (gpu >= gpus)
        refuse_workload(source, item,
                        "no GPU " + std::to_string(gpu) + "; the machine has GPUs 0 to " + std::to_string(gpus - 1));
      if (!taken.insert(gpu).second)
        refuse_workload(source, item, "GPU " + std::to_string(gpu) + " is listed twice; each GPU holds one rank");
    }
    return *written.ranks;
  }
  const std::uint32_t first = written.ranks_per_server.value_or(per_server);
  if (first > per_server)
    refuse_workload(
        source, "ranks_per_server",
        std::to_string(first) + "; a server of " + machine.board.name + " has " + std::to_string(per_server) + " GPUs");
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu)
    if (gpu % per_server < first) ranks.push_back(gpu);
  if (written.rank_count) {
    if (*written.rank_count > ranks.size())
      refuse_workload(source, "ranks",
                      std::to_string(*written.rank_count) + "; there are " + std::to_string(ranks.size()) +
                          " GPUs; set machine.groups.*.servers for more");
    ranks.resize(*written.rank_count);
  }
  if (ranks.size() < 2) refuse_workload(source, "ranks_per_server", "leaves one GPU; accepted: at least two");
  return ranks;
}

std::vector<Bytes> resolve_sizes(const SizesSection& written, const Source& source) {
  if (!written.sizes_bytes.empty()) {
    std::set<Bytes> seen;
    for (std::size_t i = 0; i < written.sizes_bytes.size(); ++i)
      if (!seen.insert(written.sizes_bytes[i]).second)
        refuse_workload(source, "sizes_bytes." + std::to_string(i), std::to_string(written.sizes_bytes[i]) + " twice");
    return written.sizes_bytes;
  }
  if (written.max_bytes < written.min_bytes)
    refuse_workload(
        source, "max_bytes",
        std::to_string(written.max_bytes) + " is less than min_bytes, " + std::to_string(written.min_bytes));
  std::vector<Bytes> sizes;
  for (Bytes bytes = written.min_bytes; bytes <= written.max_bytes; bytes *= written.factor) sizes.push_back(bytes);
  return sizes;
}

void check_groups_used(const std::vector<std::uint32_t>& gpus, const platforms::MachineSpec& machine,
                       const Source& source) {
  const std::set<std::uint32_t> used = groups_of(gpus, machine);
  std::vector<std::string> names;
  for (const std::uint32_t group : used) names.push_back(machine.groups[group].name);
  for (std::uint32_t g = 0; g < machine.groups.size(); ++g) {
    const std::string key = "machine.groups." + machine.groups[g].name;
    if (used.count(g) == 0)
      throw InputError(place_of(source.root, key),
                       key + ": the workload uses no GPU of this group" + suggestion(machine.groups[g].name, names));
  }
}

}  // namespace railyard::scenario
