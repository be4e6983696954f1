#include "sc_main/scenario/kinds/tp_overlap.h"

#include <nlohmann/json.hpp>

#include "sc_main/scenario/table/render.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using workload::training::kOverlapWordNames;
using workload::training::OverlapWord;
using workload::training::TpOverlap;

namespace {

constexpr const char* kDefault = "default";

std::vector<std::string> words_for(std::size_t product) {
  std::vector<std::string> words;
  for (std::size_t w = 0; w < kOverlapWordNames.size(); ++w)
    if (TpOverlap::accepts(TpOverlap::use_of(product), static_cast<OverlapWord>(w)))
      words.emplace_back(kOverlapWordNames[w]);
  return words;
}

OverlapWord read_word(const std::vector<std::string>& words, const Node& node, const std::string& path) {
  Field field;
  field.choices = words;
  const std::string& word = words[read_choice(field, node, path)];
  const auto found = std::find(kOverlapWordNames.begin(), kOverlapWordNames.end(), word);
  return static_cast<OverlapWord>(found - kOverlapWordNames.begin());
}

/// A product with options of its method.
struct ProductSection {
  OverlapWord method = OverlapWord::none;
  std::optional<std::uint32_t> comm_sms;
};

Record<ProductSection> product_record(std::size_t product) {
  Record<ProductSection> r;
  r.custom(
       "method", "how the product overlaps with its collective", "as for a product",
       [product] {
         return nlohmann::json{{"enum", words_for(product)}};
       },
       [product](ProductSection& section, const Node& node, const std::string& path) {
         section.method = read_word(words_for(product), node, path);
       })
      .required();
  r.add("comm_sms", &ProductSection::comm_sms, "pipelined, bulk: SMs of the collective, which the product leaves free")
      .range(1, 1024)
      .fallback("16");
  return r;
}

void read_product(TpOverlap& overlap, std::size_t product, const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::mapping) {
    overlap.set(product, read_word(words_for(product), node, path));
    return;
  }
  ProductSection section;
  product_record(product).read(section, node, path);
  overlap.set(product, section.method);
  if (!section.comm_sms) return;
  const OverlapWord word = overlap.word(TpOverlap::use_of(product));
  if (word != OverlapWord::pipelined && word != OverlapWord::bulk)
    throw InputError(node.find("comm_sms")->origin,
                     path + ".comm_sms: needs method: pipelined or bulk; this method uses no SMs of its own");
  overlap.set_comm_sms(product, *section.comm_sms);
}

}  // namespace

nlohmann::json tp_overlap_schema() {
  nlohmann::json products = {{kDefault, {{"enum", words_of(kOverlapWordNames)}}}};
  for (std::size_t p = 0; p < TpOverlap::kProducts; ++p)
    products[TpOverlap::name_of(p)] = {
        {"anyOf", {{{"enum", words_for(p)}}, schema_of_fields(product_record(p).fields(), false)}}};
  return {{"anyOf",
           {{{"enum", words_of(kOverlapWordNames)}},
            {{"type", "object"}, {"properties", products}, {"additionalProperties", false}}}}};
}

TpOverlap read_tp_overlap(const Node& node, const std::string& path) {
  TpOverlap overlap;
  if (node.kind != Node::Kind::mapping) {
    overlap.set_all(read_word(words_of(kOverlapWordNames), node, path));
    return overlap;
  }
  if (const Entry* entry = node.find(kDefault))
    overlap.set_all(read_word(words_of(kOverlapWordNames), *entry->value, path + "." + kDefault));
  std::vector<std::string> names{kDefault};
  for (std::size_t p = 0; p < TpOverlap::kProducts; ++p) names.push_back(TpOverlap::name_of(p));
  for (const Entry& entry : node.entries) {
    const auto found = std::find(names.begin(), names.end(), entry.key);
    if (found == names.end())
      throw InputError(entry.origin, path + ": unknown key " + in_quotes(entry.key) + suggestion(entry.key, names));
    if (entry.key == kDefault) continue;
    const auto product = static_cast<std::size_t>(found - names.begin()) - 1;
    read_product(overlap, product, *entry.value, path + "." + entry.key);
  }
  return overlap;
}

void resolve_tp_overlap(workload::training::TrainingSpec& spec, const std::optional<TpOverlap>& written,
                        const platforms::MachineSpec& machine, const Source& source) {
  if (written) {
    spec.tp_overlap = *written;
  } else if (spec.sequence_parallel) {
    spec.tp_overlap.set_all(spec.software.tp_overlap);
  }
  spec.tp_direct = std::none_of(machine.groups.begin(), machine.groups.end(),
                                [](const auto& group) { return group.nvlink_planes.empty(); });
  spec.form.input_reduce = spec.tp_overlap.input_reduce(spec.software.reduce_beside_wgrad);
  if (!spec.tp_overlap.any()) return;
  const auto refuse = [&](const std::string& text) { refuse_workload(source, "tp_overlap", text); };
  if (!spec.sequence_parallel) refuse("needs sequence_parallel: true");
  if (spec.form.narrow && !spec.form.narrow->gathers_narrow()) {
    for (std::size_t p = 0; p < TpOverlap::kProducts; ++p)
      if (spec.tp_overlap.gathers(p) && value_at(source.root, "workload.tp_overlap." + TpOverlap::name_of(p)))
        refuse(TpOverlap::name_of(p) + " gathers activations that precision.recipe: " +
               std::string(name_of(spec.form.narrow->recipe)) + " narrows after their gather; accepted: none");
    spec.tp_overlap.drop_gathers();
    if (!spec.tp_overlap.any())
      refuse("precision.recipe: " + std::string(name_of(spec.form.narrow->recipe)) +
             " narrows activations after their gather, so only words for reduce-scatters overlap; accepted: none, "
             "pipelined, decomposed, fused, userbuffers");
  }
  const std::uint64_t pieces = std::uint64_t{TpOverlap::kOptions.splits} * spec.tp(), tokens = spec.rank_tokens();
  if (spec.tp_overlap.uses(OverlapWord::pipelined) && tokens % pieces != 0)
    refuse("pipelined needs tokens in " + std::to_string(TpOverlap::kOptions.splits) + " pieces for tp " +
           std::to_string(spec.tp()) + ", but a micro-batch of a rank has " + std::to_string(tokens) + " tokens");
  for (const platforms::GroupSpec& group : machine.groups)
    if (const std::uint32_t most = spec.tp_overlap.most_comm_sms(); most >= group.gpu.sm.count)
      refuse("its collectives use " + std::to_string(most) + " SMs, but " + group.gpu.name + " has " +
             std::to_string(group.gpu.sm.count));
  if (!spec.tp_overlap.has_userbuffers()) return;
  for (std::uint32_t r = 0; r < spec.ranks(); r += spec.tp()) {
    const std::uint32_t server = spec.placement[r] / machine.board.gpus;
    for (std::uint32_t t = 1; t < spec.tp(); ++t)
      if (spec.placement[r + t] / machine.board.gpus != server)
        refuse("userbuffers need the tensor-parallel ranks of a group in one server, but ranks " + std::to_string(r) +
               " and " + std::to_string(r + t) + " are in servers " + std::to_string(server) + " and " +
               std::to_string(spec.placement[r + t] / machine.board.gpus));
  }
}

}  // namespace railyard::scenario
