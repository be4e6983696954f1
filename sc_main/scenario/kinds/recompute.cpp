#include "sc_main/scenario/kinds/recompute.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sc_main/scenario/kinds/mapping.h"
#include "sc_main/scenario/kinds/word_list.h"
#include "sc_main/scenario/table/render.h"

namespace railyard::scenario {

namespace {

const Fields& form_fields() {
  static const Record<RecomputeSection> record = [] {
    Record<RecomputeSection> r;
    r.choice("method", &RecomputeSection::method, words_of(workload::training::kRecomputeMethodNames),
             "uniform: all layers, in groups; block: the first layers of each virtual stage")
        .required();
    r.add("layers", &RecomputeSection::layers, "layers of a group, or of each virtual stage")
        .range(1, kMostLayers)
        .required();
    return r;
  }();
  return record.fields();
}

constexpr const char* kModules = "modules";

}  // namespace

nlohmann::json recompute_schema() {
  const nlohmann::json modules = {
      {"type", "object"},
      {"properties", {{kModules, word_list_schema(words_of(transformer::kRecomputeModuleNames))}}},
      {"required", {kModules}},
      {"additionalProperties", false}};
  return {
      {"anyOf", {{{"enum", words_of(transformer::kRecomputeNames)}}, schema_of_fields(form_fields(), false), modules}}};
}

RecomputeSection read_recompute(const Node& node, const std::string& path) {
  RecomputeSection section;
  if (const Entry* modules = node.find(kModules)) {
    for (const Entry& entry : node.entries)
      if (&entry != modules)
        throw InputError(entry.origin, path + "." + printable(entry.key) + ": not accepted with modules");
    section.recompute = transformer::Recompute::selective;
    section.modules =
        read_word_set(transformer::kRecomputeModuleNames, *modules->value, path + "." + std::string(kModules));
    return section;
  }
  if (node.kind == Node::Kind::mapping) {
    read_fields(form_fields(), &section, node, path);
    section.recompute = transformer::Recompute::full;
    return section;
  }
  Field words;
  words.choices = words_of(transformer::kRecomputeNames);
  section.recompute = static_cast<transformer::Recompute>(read_choice(words, node, path));
  return section;
}

namespace {

void check_modules(const workload::training::TrainingSpec& spec, const transformer::ModelShape& model,
                   const Source& source) {
  using transformer::RecomputeModule;
  const auto refuse = [&](RecomputeModule module, const std::string& what) {
    refuse_workload(source, "recompute.modules",
                    std::string(transformer::kRecomputeModuleNames[static_cast<std::size_t>(module)]) + ": " + what);
  };
  const auto routes = [&](const transformer::LayerShape& layer) { return model.routes(layer); };
  const bool has_experts = std::any_of(model.kinds.begin(), model.kinds.end(), routes);
  const bool has_dense = !std::all_of(model.kinds.begin(), model.kinds.end(), routes);
  for (const RecomputeModule module : {RecomputeModule::moe, RecomputeModule::moe_act})
    if (spec.form.recomputes(module) && !has_experts)
      refuse(module, model.name + " has no experts; accepted: core_attn, layernorm, mlp");
  if (spec.form.recomputes(RecomputeModule::mlp) && !has_dense)
    refuse(RecomputeModule::mlp,
           "all layers of " + model.name + " have experts; accepted: core_attn, layernorm, moe, moe_act");
}

}  // namespace

void resolve_recompute(const RecomputeSection& written, workload::training::TrainingSpec& spec,
                       const transformer::ModelShape& model, const Source& source) {
  spec.form.recompute = written.recompute;
  spec.recompute_method = written.method;
  spec.recompute_layers = written.layers;
  if (written.modules) {
    spec.form.modules = *written.modules;
    check_modules(spec, model, source);
  }
  const std::uint32_t most = *std::max_element(spec.stage_layers.begin(), spec.stage_layers.end());
  if (spec.recompute_layers > most)
    refuse_workload(
        source, "recompute.layers",
        std::to_string(spec.recompute_layers) + " is more than the " + std::to_string(most) + " layers of a stage");
}

}  // namespace railyard::scenario
