// workload.instances: the serving engines of a service, each with its engine's sheet, its part of the model, GPUs and settings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sc_main/scenario/datasheets/engine_record.h"
#include "sc_main/scenario/kinds/experts.h"
#include "sc_main/scenario/kinds/instance_placement.h"
#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/mapping.h"
#include "workload/inference/engine/instance_spec.h"

namespace railyard::scenario {

constexpr double kMostBlocks = 1e9;

struct InstanceSection {
  std::string name;
  workload::inference::InstanceRole role = workload::inference::InstanceRole::colocated;
  std::string group;                  ///< "": the first group
  std::optional<std::string> engine;  ///< none: that of all instances
  std::uint32_t count = 1;
  InstancePlacement placement = InstancePlacement::pack;
  MappingSection mapping;
  std::optional<std::uint32_t> ep;
  std::optional<std::vector<std::uint32_t>> gpus;
  std::optional<std::uint32_t> kv_blocks;
  std::optional<DataType> kv_dtype;
};
Record<InstanceSection> instance_record();
/// workload.cudagraph.
Record<GraphSheet> graphs_record();

/// What is said once for all instances.
struct InstanceDefaults {
  std::string engine;
  std::optional<std::uint32_t> kv_blocks;
  workload::inference::KvMemory memory;
  bool streams = true;
  ExpertsSection experts;
};

/// Each instance as often as its count says, with its GPUs. Those of the role `decode` are last.
/// @param written  none: one on the first group
/// @throws InputError
std::vector<workload::inference::InstanceSpec> resolve_instances(const std::vector<InstanceSection>& written,
                                                                 const InstanceDefaults& defaults,
                                                                 const Setting& setting);

}  // namespace railyard::scenario
