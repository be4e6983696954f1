#include "sc_main/scenario/kinds/recompute.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sc_main/scenario/kinds/mapping.h"
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

}  // namespace

nlohmann::json recompute_schema() {
  return {{"anyOf", {{{"enum", words_of(transformer::kRecomputeNames)}}, schema_of_fields(form_fields(), false)}}};
}

RecomputeSection read_recompute(const Node& node, const std::string& path) {
  RecomputeSection section;
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

void resolve_recompute(const RecomputeSection& written, workload::training::TrainingSpec& spec, const Source& source) {
  spec.form.recompute = written.recompute;
  spec.recompute_method = written.method;
  spec.recompute_layers = written.layers;
  const std::uint32_t most = *std::max_element(spec.stage_layers.begin(), spec.stage_layers.end());
  if (spec.recompute_layers > most)
    refuse_workload(
        source, "recompute.layers",
        std::to_string(spec.recompute_layers) + " is more than the " + std::to_string(most) + " layers of a stage");
}

}  // namespace railyard::scenario
