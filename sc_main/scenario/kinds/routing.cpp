#include "sc_main/scenario/kinds/routing.h"

#include <nlohmann/json.hpp>

#include "sc_main/scenario/table/render.h"

namespace railyard::scenario {

namespace {

constexpr double kMostSkew = 10;
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

}  // namespace

nlohmann::json routing_schema() {
  return {{"anyOf", {{{"enum", {kUniform}}}, schema_of_fields(skew_fields(), false)}}};
}

std::optional<transformer::Routing> read_routing(const Node& node, const std::string& path) {
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
