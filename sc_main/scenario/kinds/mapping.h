// How a model is split over the GPUs of a group, and the GPU of each rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "platforms/machine_spec.h"
#include "sc_main/scenario/table/record.h"
#include "transformer/model_shape.h"
#include "workload/inference/engine/mapping.h"
#include "workload/inference/engine/serving_rules.h"

namespace railyard::scenario {

struct MappingSection {
  std::optional<std::uint32_t> tp, pp;
  std::uint32_t dp = 1;
  std::optional<std::vector<std::uint32_t>> stage_layers;
};

struct PlacementSection {
  std::optional<std::vector<std::uint32_t>> prefill, decode;
};

constexpr double kMostRanks = 1024, kMostLayers = 4096;

/// The split of a model over a group, from the section's `mapping`. By default, decode repeats prefill's split.
template <class Section>
Record<Section> mapping_record(MappingSection Section::*mapping, bool is_decode) {
  const auto member = [mapping](auto of_mapping) { return within(mapping, of_mapping); };
  Record<Section> r;
  const auto number = [&](const char* key, std::optional<std::uint32_t> MappingSection::*which, const char* doc) {
    Field& field = r.add(key, member(which), doc).range(1, kMostRanks);
    is_decode ? field.fallback("as prefill") : field.required();
  };
  number("tp", &MappingSection::tp, "tensor-parallel ranks; must divide the attention heads");
  number("pp", &MappingSection::pp, "pipeline stages; at most the number of layers");
  r.add("stage_layers", member(&MappingSection::stage_layers), "number of layers of each stage")
      .range(1, kMostLayers)
      .fallback("as even as possible; earlier stages take the remainder");
  return r;
}

nlohmann::json placement_schema();
/// A list without a key is prefill's placement.
void read_placement(PlacementSection& placement, const Node& node, const std::string& path);

/// Where a mapping is written: the key that holds it, the group of GPUs, and the key of its placement.
struct MappingPlace {
  std::string key, group, placement_key;
  workload::inference::ExtraLayers extra_layers = workload::inference::ExtraLayers::first;  ///< without stage_layers
};
/// `otherwise`: mapping for keys that are not written.
workload::inference::Mapping resolve_mapping(const MappingSection& written,
                                             const workload::inference::Mapping* otherwise, const MappingPlace& place,
                                             const std::optional<std::vector<std::uint32_t>>& placement,
                                             const transformer::ModelShape& model,
                                             const platforms::MachineSpec& machine, const Source& source);
/// The written layers of each stage, or layers as even as possible.
/// @param stages  "workload.prefill.pp is 4": what sets their number
/// @param extra   stages that take the remainder
std::vector<std::uint32_t> resolve_stage_layers(
    const std::optional<std::vector<std::uint32_t>>& written, std::uint32_t count, const std::string& stages,
    const transformer::ModelShape& model, const std::string& key, const Source& source,
    workload::inference::ExtraLayers extra = workload::inference::ExtraLayers::first);
/// The written GPUs of a group, one for each rank, or GPU r for rank r.
std::vector<std::uint32_t> resolve_placement(const std::optional<std::vector<std::uint32_t>>& written,
                                             std::uint32_t ranks, std::uint32_t gpus, const std::string& group,
                                             const std::string& key, const Source& source);
/// @throws InputError at `key` if the heads of the model cannot be split over `tp` ranks
void check_heads(std::uint32_t tp, const transformer::ModelShape& model, const std::string& key, const Source& source);

}  // namespace railyard::scenario
