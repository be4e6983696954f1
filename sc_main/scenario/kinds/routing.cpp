#include "sc_main/scenario/kinds/routing.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sc_main/scenario/table/lines.h"
#include "sc_main/scenario/table/render.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

constexpr double kMostSkew = 10, kMostTraced = 1e18;
constexpr double kRoundedSum = 1e-9;
constexpr const char* kUniform = "uniform";

const Fields& skew_fields() {
  static const Record<transformer::Routing> record = [] {
    Record<transformer::Routing> r;
    r.add("skew", &transformer::Routing::skew,
          "exponent of Zipf's law: the i-th most popular expert of a layer is chosen i^-skew times as often as the "
          "first")
        .range(0, kMostSkew)
        .required();
    r.add("seed", &transformer::Routing::seed, "of the order of a layer's experts by popularity");
    return r;
  }();
  return record.fields();
}

/// @throws InputError at the line: no numbers of 0 or more
std::vector<double> numbers_of(const std::string& line, const Lines& lines) {
  std::vector<double> numbers;
  std::istringstream cells(line);
  for (std::string cell; std::getline(cells, cell, ',');) {
    char* end = nullptr;
    const double number = std::strtod(cell.c_str(), &end);
    const bool is_number = end != cell.c_str() && std::string(end).find_first_not_of(" \t") == std::string::npos;
    if (!is_number || !(number >= 0 && number <= kMostTraced))
      throw lines.error(
          fmt::format("cell {}: expected a number from 0 to 1e18, got {}", numbers.size() + 1, in_quotes(cell)));
    numbers.push_back(number);
  }
  return numbers;
}

/// Shares of the experts of a layer.
void normalise(std::vector<double>& counts, double layer, const transformer::ModelShape& model, const Lines& lines) {
  if (counts.size() != model.experts)
    throw lines.error(
        fmt::format("{} experts in layer {}; {} has {}", counts.size(), layer, model.name, model.experts));
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  if (sum == 0) throw lines.error(fmt::format("layer {} has no tokens", layer));
  const std::uint32_t k = model.experts_per_token;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    counts[e] /= sum;
    if (counts[e] * k > 1 + kRoundedSum)
      throw lines.error(fmt::format(
          "expert {} has {:.3g} of the tokens of layer {}; accepted: at most 1/{}, as a token goes to {} experts", e,
          counts[e], layer, k, k));
  }
}

}  // namespace

nlohmann::json routing_schema() {
  return {{"anyOf", {{{"enum", {kUniform}}}, {{"type", "string"}}, schema_of_fields(skew_fields(), false)}}};
}

transformer::Routing traced_routing(const std::string& file, const std::string& key,
                                    const transformer::ModelShape& model, const Source& source) {
  const Origin where = place_of(source.root, key);
  Lines lines(file, key, where);
  std::map<std::uint32_t, std::vector<double>> shares;
  for (std::string line; lines.next(line);) {
    if (line.front() == '#') continue;
    std::vector<double> counts = numbers_of(line, lines);
    const double number = counts.front();
    counts.erase(counts.begin());
    const bool is_layer = number < model.layers && number == static_cast<std::uint32_t>(number);
    if (!is_layer || !model.routes(model.layer(static_cast<std::uint32_t>(number))))
      throw lines.error(fmt::format("{} is no layer of {} with experts", number, model.name));
    normalise(counts, number, model, lines);
    if (!shares.emplace(static_cast<std::uint32_t>(number), std::move(counts)).second)
      throw lines.error(fmt::format("a second line for layer {}", number));
  }
  for (std::uint32_t l = 0; l < model.layers; ++l)
    if (model.routes(model.layer(l)) && shares.count(l) == 0)
      throw InputError(where, fmt::format("{}: {} has no line for layer {} of {}", key, file, l, model.name));
  transformer::Routing routing;
  routing.traced = std::make_shared<const std::map<std::uint32_t, std::vector<double>>>(std::move(shares));
  return routing;
}

std::optional<transformer::Routing> read_routing(const Node& node, const std::string& path, std::string& file) {
  if (node.kind == Node::Kind::scalar && is_file_name(node.text)) {
    file = node.text;
    return std::nullopt;
  }
  if (node.kind == Node::Kind::mapping) {
    transformer::Routing routing;
    read_fields(skew_fields(), &routing, node, path);
    return routing;
  }
  Field word;
  word.choices = {kUniform};
  read_choice(word, node, path);
  return std::nullopt;
}

}  // namespace railyard::scenario
