#include "sc_main/scenario/kinds/mapping.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <nlohmann/json.hpp>

#include "workload/inference/engine/serving_rules.h"

namespace railyard::scenario {

using nlohmann::json;
using transformer::ModelShape;
using workload::inference::Mapping;

namespace {

[[noreturn]] void refuse_mapping(const Source& source, const std::string& key, const std::string& what) {
  throw InputError(place_of(source.root, key), key + ": " + what);
}

std::string count(std::uint64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

}  // namespace

json placement_schema() {
  const json gpus = {{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}};
  const json side = {{"anyOf", {json{{"const", "auto"}}, gpus}}};
  const json both = {
      {"type", "object"}, {"additionalProperties", false}, {"properties", {{"prefill", side}, {"decode", side}}}};
  return {{"anyOf", {json{{"const", "auto"}}, gpus, both}}};
}

void read_placement(PlacementSection& placement, const Node& node, const std::string& path) {
  static const Record<PlacementSection> record = [] {
    Record<PlacementSection> r;
    r.number_or("prefill", "auto", &PlacementSection::prefill, "GPU of rank p*tp+t");
    r.number_or("decode", "auto", &PlacementSection::decode, "GPU of rank p*tp+t");
    return r;
  }();
  if (node.kind == Node::Kind::mapping) {
    record.read(placement, node, path);
  } else {
    const Field& prefill = record.fields().front();
    prefill.store(prefill, &placement, node, path);
  }
}

Mapping resolve_mapping(const MappingSection& written, const Mapping* otherwise, const MappingPlace& place,
                        const std::optional<std::vector<std::uint32_t>>& placement, const ModelShape& model,
                        const platforms::MachineSpec& machine, const Source& source) {
  const std::string &key = place.key, &group = place.group;
  Mapping mapping;
  mapping.tp = written.tp.value_or(otherwise ? otherwise->tp : 1);
  mapping.pp = written.pp.value_or(otherwise ? otherwise->pp : 1);
  mapping.dp = written.dp;
  check_heads(mapping.tp, model, key + ".tp", source);
  if (mapping.pp > model.layers)
    refuse_mapping(
        source, key + ".pp",
        std::to_string(mapping.pp) + " is more than the " + count(model.layers, "layer") + " of " + model.name);
  mapping.stage_layers =
      resolve_stage_layers(written.stage_layers, mapping.pp, key + ".pp is " + std::to_string(mapping.pp), model,
                           key + ".stage_layers", source, place.extra_layers);
  const auto spec =
      std::find_if(machine.groups.begin(), machine.groups.end(), [&](const auto& g) { return g.name == group; });
  const std::uint32_t gpus = spec->servers * machine.board.gpus;
  if (mapping.ranks() > gpus) {
    const std::uint64_t servers = ceil_div(mapping.ranks(), machine.board.gpus);
    refuse_mapping(source, key + ".tp",
                   "tp " + std::to_string(mapping.tp) + (mapping.dp > 1 ? " x dp " + std::to_string(mapping.dp) : "") +
                       " x pp " + std::to_string(mapping.pp) + " needs " + count(mapping.ranks(), "GPU") + "; the " +
                       group + " group has " + std::to_string(gpus) + " (" + count(spec->servers, "server") + " of " +
                       std::to_string(machine.board.gpus) + "); set machine.groups." + group + ".servers to " +
                       std::to_string(servers) + " or more");
  }
  mapping.placement = resolve_placement(placement, mapping.ranks(), gpus, group, place.placement_key, source);
  return mapping;
}

std::vector<std::uint32_t> resolve_stage_layers(const std::optional<std::vector<std::uint32_t>>& written,
                                                std::uint32_t stages, const std::string& stages_text,
                                                const ModelShape& model, const std::string& key, const Source& source,
                                                workload::inference::ExtraLayers extra) {
  if (!written) return workload::inference::divided_layers(model.layers, stages, extra);
  if (written->size() != stages)
    refuse_mapping(source, key, "has " + count(written->size(), "stage") + "; " + stages_text);
  const std::uint64_t sum = std::accumulate(written->begin(), written->end(), std::uint64_t{0});
  if (sum != model.layers)
    refuse_mapping(source, key,
                   "the sum is " + std::to_string(sum) + "; " + model.name + " has " + count(model.layers, "layer"));
  return *written;
}

std::vector<std::uint32_t> resolve_placement(const std::optional<std::vector<std::uint32_t>>& written,
                                             std::uint32_t ranks, std::uint32_t gpus, const std::string& group,
                                             const std::string& key, const Source& source) {
  if (!written) {
    std::vector<std::uint32_t> identity(ranks);
    std::iota(identity.begin(), identity.end(), 0u);
    return identity;
  }
  if (written->size() != ranks) {
    refuse_mapping(source, key,
                   "lists " + count(written->size(), "GPU") + "; the " + group + " group runs " + count(ranks, "rank"));
  }
  std::set<std::uint32_t> taken;
  for (std::size_t rank = 0; rank < written->size(); ++rank) {
    const std::uint32_t gpu = (*written)[rank];
    const std::string item = key + "." + std::to_string(rank);
    if (gpu >= gpus)
      refuse_mapping(
          source, item,
          "no GPU " + std::to_string(gpu) + "; the " + group + " group has GPUs 0 to " + std::to_string(gpus - 1));
    if (!taken.insert(gpu).second)
      refuse_mapping(source, item, "GPU " + std::to_string(gpu) + " is listed twice; each GPU holds one rank");
  }
  return *written;
}

void check_heads(std::uint32_t tp, const ModelShape& model, const std::string& key, const Source& source) {
  if (model.heads % tp != 0) {
    refuse_mapping(
        source, key,
        std::to_string(tp) + " does not divide the " + count(model.heads, "attention head") + " of " + model.name);
  }
  if (model.kv_heads % tp != 0 && tp % model.kv_heads != 0) {
    refuse_mapping(source, key,
                   std::to_string(tp) + " neither divides nor is a multiple of the " +
                       count(model.kv_heads, "KV head") + " of " + model.name);
  }
}

}  // namespace railyard::scenario
