#include "sc_main/scenario/model/profile.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/table/lines.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using transformer::LayerProfile;
using transformer::ModelShape;

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestMeta = 1u << 20, kLongestName = 100;
constexpr double kMostTokens = 1 << 24, kLongestUs = 1e9, kMostAlpha = 1e3, kMostDegree = 4096;
const std::string kKey = "compute.profile";

/// Reads one table of the bundle, cell by cell.
class Table {
 public:
  Table(const fs::path& file, const std::vector<std::string>& names, const Origin& where)
      : lines_(checked(file, where), kKey, where), names_(names), columns_(lines_, names, "table") {}

  bool next() { return columns_.next(cells_); }
  const std::string& text(std::size_t column) const { return cells_[column]; }
  double number(std::size_t column, double least, double most) const {
    const std::string& text = cells_[column];
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool is_number = !text.empty() && end == text.c_str() + text.size() && value >= least && value <= most;
    if (!is_number)
      throw lines_.error(names_[column] + ": expected a number from " + number_text(least) + " to " +
                         number_text(most) + ", got " + in_quotes(text));
    return value;
  }
  double tokens(std::size_t column) const { return number(column, 0, kMostTokens); }
  /// The last column, converted to seconds.
  double seconds() const {
    const double us = number(names_.size() - 1, 0, kLongestUs);
    if (us == 0) throw lines_.error("time_us: '" + cells_.back() + "' is not a time; accepted: above 0");
    return us * 1e-6;
  }
  /// The upper edge of a class of a quantity, such as "n<=128", "sr<=40%", "kvB<=16k", "kp=0" or "n>128" (none).
  double class_edge(std::size_t column, const std::string& quantity) const {
    const std::string& text = cells_[column];
    const std::size_t from = text.find_first_of("0123456789");
    const std::string sign = text.substr(std::min(quantity.size(), text.size()), from - quantity.size());
    if (from != std::string::npos && text.compare(0, quantity.size(), quantity) == 0) {
      char* end = nullptr;
      const double value = std::strtod(text.c_str() + from, &end);
      const std::string unit = end;
      const double scale = unit == "k" ? 1024 : unit == "%" ? 0.01 : unit.empty() ? 1 : 0;
      if (scale > 0 && sign == ">") return std::numeric_limits<double>::infinity();
      if (scale > 0 && (sign == "<=" || sign == "=")) return value * scale;
    }
    throw lines_.error(names_[column] + ": " + in_quotes(text) + " is not a class; accepted: " + quantity + "<=N or " +
                       quantity + ">N, for example " + quantity + "<=4k");
  }
  /// @pre added is the result of adding a point to a table
  void check_new(bool added) const {
    if (!added) throw lines_.error("a second row for the same point; accepted: one row per point");
  }
  InputError error(const std::string& message) const { return lines_.error(message); }

 private:
  static std::string checked(const fs::path& file, const Origin& where) {
    std::error_code error;
    if (!fs::exists(file, error) && !error)
      throw InputError(where,
                       kKey + ": the bundle has no " + (file.parent_path().filename() / file.filename()).string());
    return file.string();
  }

  Lines lines_;
  std::vector<std::string> names_;
  CsvColumns columns_;
  std::vector<std::string> cells_;
};

void read_layers(std::map<std::string, transformer::ProfileTable<1>>& tables, const fs::path& file,
                 const std::string& quantity, const Origin& where) {
  Table table(file, {"layer", quantity, "time_us"}, where);
  while (table.next()) table.check_new(tables[table.text(0)].add({table.tokens(1)}, table.seconds()));
}

void read_attention(LayerProfile& profile, const fs::path& file, const Origin& where) {
  Table table(file, {"prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"}, where);
  while (table.next()) {
    const double chunk = table.tokens(0), before = table.tokens(1), sequences = table.tokens(2),
                 context = table.tokens(3);
    if (chunk == 0 && sequences == 0) continue;
    const double seconds = table.seconds();
    if (chunk > 0 && sequences > 0) table.check_new(profile.mixed.add({chunk, before, sequences, context}, seconds));
    if (sequences == 0) table.check_new(profile.prefill.add({chunk, before}, seconds));
    if (chunk == 0) table.check_new(profile.decode.add({sequences, context}, seconds));
  }
  if (profile.prefill.empty()) throw table.error("no rows with only prefill (n_decode 0)");
  if (profile.decode.empty()) throw table.error("no rows with only decode (prefill_chunk 0)");
}

void read_experts(LayerProfile& profile, const fs::path& file, const Origin& where) {
  Table table(file, {"activated_experts", "tokens", "time_us"}, where);
  while (table.next()) table.check_new(profile.experts.add({table.tokens(0), table.tokens(1)}, table.seconds()));
  if (profile.experts.empty()) throw table.error("no rows");
}

void check_layers(const LayerProfile& profile, const ModelShape& model, const fs::path& folder) {
  for (const transformer::ProfileLayer& layer : transformer::kProfileLayers) {
    if (layer.of_dense_mlp && model.experts > 0) continue;
    const auto& curves = layer.per_sequence ? profile.per_sequence : profile.dense;
    if (curves.count(layer.layer) != 0) continue;
    std::vector<std::string> found;
    for (const auto& [name, curve] : curves) found.push_back(name);
    const std::string file = (folder / (layer.per_sequence ? "per_sequence.csv" : "dense.csv")).string();
    throw InputError({file, 1, 1}, std::string("no rows of layer '") + layer.layer + "'; it has " + joined(found));
  }
}

/// The skew of decodes, if the bundle enables it. A bundle without classes has only a default.
void read_skew(LayerProfile& profile, const NodePtr& meta, const fs::path& file, std::uint32_t tp,
               const Origin& where) {
  const std::string enabled_key = "skew_fit.enabled";
  const std::string default_key = "skew_fit.per_tp." + std::to_string(tp) + ".alpha_default";
  const NodePtr enabled = value_at(meta, enabled_key), alpha = value_at(meta, default_key);
  if (!enabled || !read_boolean({}, *enabled, enabled_key)) return;
  if (alpha)
    profile.skew = transformer::DecodeSkew(read_number(Field().range(-kMostAlpha, kMostAlpha), *alpha, default_key));
  std::error_code error;
  if (!fs::exists(file, error) && !error) return;
  Table table(file, {"pc", "n_label", "skew_rate_label", "kv_big_label", "kp_label", "alpha"}, where);
  while (table.next()) {
    const transformer::DecodeSkew::Batch edges{table.tokens(0), table.class_edge(1, "n"), table.class_edge(2, "sr"),
                                               table.class_edge(3, "kvB"), table.class_edge(4, "kp")};
    table.check_new(profile.skew.add(edges, table.number(5, -kMostAlpha, kMostAlpha)));
  }
}

/// Refuses a bundle of another model. The profiler writes the sizes of one rank of the last tp of `tp_degrees`.
void check_sizes(const NodePtr& root, const ModelShape& model) {
  const NodePtr degrees = value_at(root, "tp_degrees");
  const bool has_degrees = degrees && degrees->kind == Node::Kind::sequence && !degrees->items.empty();
  Field degree;
  degree.range(1, kMostDegree);
  const std::uint64_t tp = has_degrees ? read_integer(degree, *degrees->items.back(), "tp_degrees") : 1;
  const std::string where = "engine_effective.hf_overrides.";
  for (const auto& [key, value] : {std::pair{"intermediate_size", model.dense_ffn > 0 ? model.dense_ffn : model.ffn},
                                   {"num_attention_heads", model.heads},
                                   {"num_key_value_heads", model.kv_heads},
                                   {"vocab_size", model.vocab}}) {
    const NodePtr node = value_at(root, where + key);
    const std::uint64_t expected = std::max<std::uint64_t>(1, value / tp);
    if (node && node->text != std::to_string(expected))
      throw InputError(node->origin, where + key + ": " + in_quotes(node->text) + "; " + model.name + " has " +
                                         std::to_string(expected) +
                                         (tp > 1 ? " on a rank of tp " + std::to_string(tp) : ""));
  }
}

void read_meta(LayerProfile& profile, const fs::path& bundle, const ModelShape& model, std::uint32_t tp,
               const Origin& place) {
  const fs::path file = bundle / "meta.yaml";
  std::error_code error;
  if (!fs::exists(file, error) && !error) return;
  const NodePtr root = parse_yaml(read_file(file.string(), {file.string(), 1, 1}, kKey, kLongestMeta), file.string());
  if (const NodePtr hardware = value_at(root, "hardware")) profile.hardware = printable(hardware->text, kLongestName);
  read_skew(profile, root, bundle / ("tp" + std::to_string(tp)) / "skew_fit.csv", tp, place);
  check_sizes(root, model);
}

}  // namespace

Record<ComputeSection> compute_record() {
  Record<ComputeSection> r;
  r.custom(
       "profile",
       "folder of a LLMServingSim profile bundle: its measured kernel times replace those of the datasheet; only for "
       "kinds that run a model",
       "text or null",
       [] {
         return nlohmann::json{{"type", {"string", "null"}}};
       },
       [](ComputeSection& section, const Node& node, const std::string& path) {
         if (node.kind == Node::Kind::null) return;
         Field text;
         section.profile = read_text(text, node, path);
       })
      .is_path()
      .fallback("null: times from the datasheet");
  return r;
}

std::shared_ptr<const LayerProfile> load_profile(const ComputeSection& written, const ModelShape& model,
                                                 std::uint32_t tp, const Source& source) {
  if (written.profile.empty()) return nullptr;
  const Origin where = place_of(source.root, kKey);
  const fs::path bundle = written.profile;
  std::error_code error;
  if (!fs::is_directory(bundle, error))
    throw InputError(where, kKey + ": no folder " + in_quotes(bundle.string()) +
                                "; expected a profile bundle, with tp<N>/dense.csv and others");
  const fs::path folder = bundle / ("tp" + std::to_string(tp));
  if (!fs::is_directory(folder, error)) {
    std::vector<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(bundle, error))
      if (entry.is_directory(error) && entry.path().filename().string().rfind("tp", 0) == 0)
        found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    throw InputError(where, kKey + ": " + in_quotes(bundle.string()) + " has no tp" + std::to_string(tp) +
                                (found.empty() ? "; expected a profile bundle, with tp<N>/dense.csv and others"
                                               : "; it has " + joined(found)));
  }
  if (model.kinds.size() > 1)
    throw InputError(where, kKey + ": the layers of " + model.name + " are of " + std::to_string(model.kinds.size()) +
                                " kinds (windows, experts, number formats); a profile has times for only one kind");
  auto profile = std::make_shared<LayerProfile>();
  profile->path = fs::absolute(bundle / ".").lexically_normal().parent_path().filename().string();
  read_meta(*profile, bundle, model, tp, where);
  read_layers(profile->dense, folder / "dense.csv", "tokens", where);
  read_layers(profile->per_sequence, folder / "per_sequence.csv", "sequences", where);
  read_attention(*profile, folder / "attention.csv", where);
  if (model.experts > 0) read_experts(*profile, folder / "moe.csv", where);
  check_layers(*profile, model, folder);
  return profile;
}

}  // namespace railyard::scenario
