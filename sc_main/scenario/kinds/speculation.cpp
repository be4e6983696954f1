#include "sc_main/scenario/kinds/speculation.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/kinds/mapping.h"
#include "sc_main/scenario/model/config.h"
#include "sc_main/scenario/table/lists.h"
#include "workload/inference/scheduler/acceptance.h"

namespace railyard::scenario {

using workload::inference::DraftMethod;
using workload::inference::DraftSpec;
using workload::inference::InstanceSpec;
using workload::inference::kDraftMethodNames;

namespace {

constexpr double kMostDrafts = 64;

struct SpeculationSection {
  std::optional<DraftMethod> method;
  std::optional<std::uint32_t> tokens;
  std::vector<double> acceptance;
  bool is_by_position = false;
  std::optional<double> synthetic_length;
  std::string draft_model;  ///< path of its config; "": none
  std::optional<std::uint32_t> draft_tp, draft_vocab;
};

/// A draft that is always right would be no draft.
double read_acceptance(const Node& node, const std::string& path) {
  Field ratio;
  ratio.range(0, 1);
  const double value = read_number(ratio, node, path);
  if (value == 1) throw InputError(node.origin, path + ": 1 is out of range; accepted: from 0 to less than 1");
  return value;
}

nlohmann::json acceptance_schema() {
  const nlohmann::json ratio{{"type", "number"}, {"minimum", 0}, {"exclusiveMaximum", 1}};
  return {{"anyOf", {ratio, list_schema(ratio)}}};
}

Record<SpeculationSection> speculation_record() {
  using Section = SpeculationSection;
  Record<Section> r;
  r.choice(
       "method", &Section::method, words_of(kDraftMethodNames),
       "who proposes drafts. ngram: the host, from the request's own tokens; eagle: a dense layer; mtp: a layer of the "
       "model; draft: a smaller model. The last three run after each pass, once for each draft, on the ranks of the "
       "last "
       "stage")
      .fallback("none; a value is required");
  r.add("tokens", &Section::tokens, "drafts of a step for each request that decodes")
      .range(1, kMostDrafts)
      .fallback("none; a value is required");
  r.custom(
       "acceptance",
       "probability that a draft is right if all before it are; or by position, that this draft and all before it are",
       "number or list of numbers", acceptance_schema,
       [](Section& section, const Node& node, const std::string& path) {
         section.is_by_position = node.kind == Node::Kind::sequence;
         section.acceptance = section.is_by_position ? read_list<double>(node, path, read_acceptance)
                                                     : std::vector<double>{read_acceptance(node, path)};
       })
      .fallback("none; this or synthetic_length is required");
  r.add("synthetic_length", &Section::synthetic_length,
        "instead: tokens that a step gives on average, with as little difference between steps as possible; at most "
        "tokens + 1")
      .range(1, kMostDrafts + 1)
      .fallback("none");
  r.add("draft_model", &Section::draft_model, "config.json of the smaller model, with the model's vocabulary")
      .is_path()
      .fallback("none; method: draft needs it");
  r.add("draft_tp", &Section::draft_tp,
        "ranks that divide the layers of eagle, mtp or draft: tp of the instance, or 1: each rank has all of it")
      .range(1, kMostRanks)
      .fallback("tp of the instance");
  r.add("draft_vocab", &Section::draft_vocab,
        "tokens that drafts of eagle can be; fewer than the vocabulary need a head of their own, as in EAGLE-3")
      .range(1, 1 << 24)
      .fallback("the vocabulary");
  return r;
}

/// Where the keys of an instance are written: its own section, or that of all instances.
class Written {
 public:
  Written(const std::string& key, const Source& source)
      : source_(source), common_("workload.speculation"), own_(key + ".speculation") {}

  /// None: this instance has no speculation.
  std::optional<SpeculationSection> read() const {
    std::optional<SpeculationSection> section;
    for (const std::string& path : {common_, own_}) {
      const NodePtr node = value_at(source_.root, path);
      if (!node) continue;
      if (node->kind != Node::Kind::mapping) {
        section.reset();  // none
        continue;
      }
      if (!section) section.emplace();
      // One replaces the other.
      if (node->find("acceptance")) section->synthetic_length.reset();
      if (node->find("synthetic_length")) section->acceptance.clear();
      speculation_record().read(*section, *node, path);
    }
    return section;
  }
  [[noreturn]] void refuse(const char* key, const std::string& what) const {
    throw InputError(place(key), path_of(key) + ": " + what);
  }
  Origin place(const char* key) const { return place_of(source_.root, path_of(key)); }
  std::string path_of(const std::string& key) const {
    const std::string dot_key = key.empty() ? key : "." + key;
    const bool is_own =
        value_at(source_.root, own_ + dot_key) || (value_at(source_.root, own_) && !value_at(source_.root, common_));
    return (is_own ? own_ : common_) + dot_key;
  }

 private:
  const Source& source_;
  std::string common_, own_;
};

std::vector<std::string> names_of(const std::vector<DraftMethod>& methods) {
  std::vector<std::string> names;
  for (const DraftMethod method : methods) names.emplace_back(kDraftMethodNames[static_cast<std::size_t>(method)]);
  return names;
}

/// Shipped engines that have some method.
std::vector<std::string> engines_with_speculation() {
  std::vector<std::string> names;
  for (const std::string& name : shipped_datasheets("engines"))
    if (!load_engine({name, "workload.engine", {}}).rules.speculation.methods.empty()) names.push_back(name);
  return names;
}

void check_engine(const InstanceSpec& instance, DraftMethod method, const Written& written) {
  const std::vector<DraftMethod>& methods = instance.rules.speculation.methods;
  if (methods.empty())
    written.refuse("", "no speculative decoding is known of engine " + instance.engine.name + "; accepted with " +
                           joined(engines_with_speculation()));
  if (std::find(methods.begin(), methods.end(), method) == methods.end())
    written.refuse("method", std::string(kDraftMethodNames[static_cast<std::size_t>(method)]) +
                                 " is not known of engine " + instance.engine.name +
                                 "; accepted: " + joined(names_of(methods)));
}

/// What makes drafts, and on how many ranks each layer is.
void resolve_model(InstanceSpec& instance, const SpeculationSection& section, const Written& written,
                   const Setting& setting) {
  using namespace workload::inference;
  Speculation& speculation = *instance.speculation;
  const char* const method = kDraftMethodNames[static_cast<std::size_t>(speculation.method)];
  if (!section.draft_model.empty() && speculation.method != DraftMethod::draft)
    written.refuse("draft_model", std::string("method ") + method + " takes none; accepted with method: draft");
  if (section.draft_vocab && speculation.method != DraftMethod::eagle)
    written.refuse("draft_vocab",
                   std::string("method ") + method + " has none of its own; accepted with method: eagle");
  switch (speculation.method) {
    case DraftMethod::ngram:
      if (section.draft_tp)
        written.refuse("draft_tp", "method ngram has no layers; accepted with eagle, mtp and draft");
      return;
    case DraftMethod::eagle:
      speculation.model = eagle_model(setting.model);
      if (section.draft_vocab.value_or(0) > setting.model.vocab)
        written.refuse("draft_vocab", std::to_string(*section.draft_vocab) + " is more than the vocabulary, " +
                                          std::to_string(setting.model.vocab));
      speculation.model.vocab = section.draft_vocab.value_or(setting.model.vocab);
      speculation.has_own_head = speculation.model.vocab < setting.model.vocab;
      break;
    case DraftMethod::mtp: speculation.model = mtp_model(setting.model); break;
    case DraftMethod::draft:
      if (section.draft_model.empty()) written.refuse("", "draft_model is required by method: draft");
      speculation.model =
          load_model(section.draft_model, written.place("draft_model"), "", "", written.path_of("draft_model")).shape;
      if (speculation.model.vocab != setting.model.vocab)
        written.refuse("draft_model", "its vocabulary has " + std::to_string(speculation.model.vocab) +
                                          " tokens, that of the model " + std::to_string(setting.model.vocab) +
                                          "; accepted: a model with the same vocabulary");
      break;
  }
  speculation.joins_hidden_state = drops_last_hit(speculation.method);
  speculation.draft_graphs = instance.rules.speculation.draft_graphs;
  speculation.tp = section.draft_tp.value_or(instance.mapping.tp);
  if (speculation.tp != 1 && speculation.tp != instance.mapping.tp)
    written.refuse("draft_tp", std::to_string(speculation.tp) + " is neither 1 nor the instance's tp, " +
                                   std::to_string(instance.mapping.tp) + "; accepted: one of them");
  if (speculation.model.heads % speculation.tp != 0)
    written.refuse("draft_model", "its " + std::to_string(speculation.model.heads) +
                                      " attention heads cannot be divided over " + std::to_string(speculation.tp) +
                                      " ranks; accepted: draft_tp: 1, or a tp that divides them");
  const gpu::GpuDatasheet& gpu = setting.machine.groups[instance.group].gpu;
  if (gpu.sm.flop_per_clock[static_cast<std::size_t>(speculation.model.dtype)] == 0)
    written.refuse("draft_model", no_tensor_rate(gpu, speculation.model.dtype));
}

std::vector<double> acceptance_of(const SpeculationSection& section, const Written& written) {
  using namespace workload::inference;
  const std::uint32_t tokens = *section.tokens;
  if (section.synthetic_length) {
    if (!section.acceptance.empty())
      written.refuse("synthetic_length",
                     "is not accepted beside acceptance; one of them says how many drafts are right");
    if (*section.synthetic_length > tokens + 1)
      written.refuse("synthetic_length", number_text(*section.synthetic_length) + " is more than a step of " +
                                             std::to_string(tokens) + " drafts can give; accepted: 1 to " +
                                             std::to_string(tokens + 1));
    return acceptance_of_length(*section.synthetic_length, tokens);
  }
  if (section.acceptance.empty()) written.refuse("", "acceptance, or synthetic_length, is required");
  if (!section.is_by_position) return acceptance_of_ratio(section.acceptance.front(), tokens);
  if (section.acceptance.size() != tokens)
    written.refuse("acceptance", "has " + std::to_string(section.acceptance.size()) +
                                     " positions; accepted: one for each of " + std::to_string(tokens) + " tokens");
  for (std::size_t i = 1; i < section.acceptance.size(); ++i)
    if (section.acceptance[i] > section.acceptance[i - 1])
      written.refuse("acceptance", "position " + std::to_string(i) + " has " + number_text(section.acceptance[i]) +
                                       ", more than the position before it; accepted: a list that never increases, "
                                       "because a draft counts only if all before it are right");
  return acceptance_of_positions(section.acceptance);
}

}  // namespace

Fields speculation_fields() { return speculation_record().fields(); }

void resolve_speculation(InstanceSpec& instance, const std::string& key, const Setting& setting) {
  const Written written(key, setting.source);
  const std::optional<SpeculationSection> section = written.read();
  if (!section) return;
  if (!section->method) written.refuse("", "method is required; accepted: " + joined(words_of(kDraftMethodNames)));
  if (!section->tokens) written.refuse("", "tokens is required: the drafts of a step");
  check_engine(instance, *section->method, written);
  instance.speculation.emplace();
  instance.speculation->method = *section->method;
  resolve_model(instance, *section, written, setting);
}

void resolve_drafts(InstanceSpec& instance, const std::string& key, const Setting& setting) {
  if (!instance.speculation) return;
  const Written written(key, setting.source);
  const SpeculationSection section = *written.read();
  const DraftMethod method = instance.speculation->method;
  DraftSpec& drafts = instance.scheduler.drafts;
  drafts.tokens = *section.tokens;
  drafts.acceptance = acceptance_of(section, written);
  drafts.seed = setting.machine.seed;
  drafts.lookahead = has_draft_kv(method) ? drafts.tokens : 0;
  drafts.drops_last_hit = drops_last_hit(method);
  drafts.frees_rejected = instance.rules.speculation.rejected == workload::inference::RejectedBlocks::free;
}

}  // namespace railyard::scenario
