// The GPUs that take part in a test, and the sizes that the test runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "platforms/machine_spec.h"
#include "sc_main/scenario/table/record.h"

namespace railyard::scenario {

struct RanksSection {
  std::optional<std::uint32_t> rank_count;          ///< the first `rank_count` GPUs
  std::optional<std::vector<std::uint32_t>> ranks;  ///< an explicit list of GPUs
  std::optional<std::uint32_t> ranks_per_server;
};

struct SizesSection {
  std::uint64_t min_bytes = 8;
  std::uint64_t max_bytes = 128u << 20;
  std::uint32_t factor = 2;
  std::vector<std::uint64_t> sizes_bytes;  ///< empty: from min_bytes to max_bytes
};

constexpr double kMostSizeBytes = 16.0 * (1u << 30), kMostGpus = 1 << 20;

nlohmann::json ranks_schema();
void read_ranks(RanksSection& section, const Node& node, const std::string& path);
/// Adds the keys of a section that has ranks.
template <class Section>
void add_ranks(Record<Section>& r, const char* doc) {
  r.custom("ranks", doc, "an integer, or a list of integers", ranks_schema,
           [](Section& section, const Node& node, const std::string& path) { read_ranks(section, node, path); })
      .fallback("every GPU");
  r.add("ranks_per_server", &RanksSection::ranks_per_server, "number of GPUs to use in each server, from its first one")
      .range(1, kMostGpus)
      .fallback("all GPUs of a server");
}

nlohmann::json sizes_schema();
void read_sizes(SizesSection& section, const Node& node, const std::string& path);
/// Adds the keys of a section that has sizes.
template <class Section>
void add_sizes(Record<Section>& r) {
  r.add("min_bytes", &SizesSection::min_bytes, "smallest size").range(1, kMostSizeBytes);
  r.add("max_bytes", &SizesSection::max_bytes, "largest size").range(1, kMostSizeBytes);
  r.add("factor", &SizesSection::factor, "ratio of one size to the previous one").range(2, 1024);
  r.custom("sizes_bytes", "list of sizes, instead of min_bytes, max_bytes and factor", "list of integers", sizes_schema,
           [](Section& section, const Node& node, const std::string& path) { read_sizes(section, node, path); })
      .fallback("from min_bytes, max_bytes and factor");
}

/// The number of a group of the machine. @param key  where it is named  @throws InputError: there is none of this name
std::uint32_t group_named(const std::string& name, const std::string& key, const platforms::MachineSpec& machine,
                          const Source& source);
/// Of all groups.
std::uint32_t all_gpus(const platforms::MachineSpec& machine);
/// Candidates are all GPUs, or the first GPUs of each server. The result: the first candidates, or the listed ones.
std::vector<std::uint32_t> resolve_ranks(const RanksSection& written, const platforms::MachineSpec& machine,
                                         const Source& source);
std::vector<Bytes> resolve_sizes(const SizesSection& written, const Source& source);
/// Refuses a group without ranks: most likely its name is wrong. `gpus` are counted over all groups.
void check_groups_used(const std::vector<std::uint32_t>& gpus, const platforms::MachineSpec& machine,
                       const Source& source);

}  // namespace railyard::scenario
