#include "sc_main/scenario/kinds/ranges.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/table/lists.h"

namespace railyard::scenario {

using nlohmann::json;

namespace {

constexpr double kMostStep = 1 << 20;

/// A range from one value to another.
struct RangeSection {
  std::uint64_t min = 0, max = 0;
  std::optional<std::uint64_t> factor, step;
};

std::vector<std::uint64_t> read_range(const Field& number, const Node& node, const std::string& path) {
  Record<RangeSection> record;
  record.add("min", &RangeSection::min, "first value").range(number.least, number.most).required();
  record.add("max", &RangeSection::max, "largest value").range(number.least, number.most).required();
  record.add("factor", &RangeSection::factor, "ratio of one value to the previous one; default 2 without step")
      .range(2, kMostStep);
  record.add("step", &RangeSection::step, "difference of one value to the previous one").range(1, kMostStep);
  RangeSection range;
  record.read(range, node, path);
  if (range.factor && range.step)
    throw InputError(node.origin, path + ": has both factor and step; set only one of them");
  if (range.max < range.min)
    throw InputError(node.origin,
                     path + ": max " + std::to_string(range.max) + " is less than min, " + std::to_string(range.min));
  if (range.min == 0 && !range.step)
    throw InputError(node.origin, path + ": a range from 0 needs step instead of factor");
  std::vector<std::uint64_t> values;
  for (std::uint64_t v = range.min; v <= range.max; v = range.step ? v + *range.step : v * range.factor.value_or(2)) {
    values.push_back(v);
    if (static_cast<double>(values.size()) > kMostListed)
      throw InputError(node.origin, path + ": more than " + number_text(kMostListed) + " values");
  }
  return values;
}

}  // namespace

std::vector<std::uint64_t> read_numbers(const Field& number, const Node& node, const std::string& path) {
  const auto one = [&](const Node& n, const std::string& p) { return read_integer(number, n, p); };
  switch (node.kind) {
    case Node::Kind::sequence: return read_list<std::uint64_t>(node, path, one);
    case Node::Kind::mapping: return read_range(number, node, path);
    default: return {one(node, path)};
  }
}

json numbers_schema(double least, double most) {
  const json number = {{"type", "integer"}, {"minimum", least}, {"maximum", most}};
  const json range = {{"type", "object"},
                      {"additionalProperties", false},
                      {"required", {"min", "max"}},
                      {"properties",
                       {{"min", number},
                        {"max", number},
                        {"factor", {{"type", "integer"}, {"minimum", 2}}},
                        {"step", {{"type", "integer"}, {"minimum", 1}}}}}};
  return {{"anyOf", {number, list_schema(number), range}}};
}

}  // namespace railyard::scenario
