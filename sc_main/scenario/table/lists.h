// Parameters that are lists of values, for custom fields.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sc_main/scenario/table/record.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

constexpr double kMostListed = 4096;

nlohmann::json list_schema(const nlohmann::json& item);

/// @throws InputError for a value that is not a list, for an empty or too long list, and any error of `read`
template <class Value, class Read>
std::vector<Value> read_list(const Node& node, const std::string& path, const Read& read) {
  if (node.kind != Node::Kind::sequence)
    throw InputError(node.origin, path + ": expected a list, got " + node.described());
  if (node.items.empty()) throw InputError(node.origin, path + ": is empty; at least one");
  if (static_cast<double>(node.items.size()) > kMostListed)
    throw InputError(node.origin, path + ": " + std::to_string(node.items.size()) + " entries; accepted: up to " +
                                      number_text(kMostListed));
  std::vector<Value> values;
  for (const NodePtr& item : node.items) values.push_back(read(*item, path + "." + std::to_string(values.size())));
  return values;
}

/// The places in `names` of a list of these words.
template <class Names>
std::vector<std::size_t> read_choices(const Names& names, const Node& node, const std::string& path) {
  Field word;
  word.choices = words_of(names);
  return read_list<std::size_t>(
      node, path, [&](const Node& item, const std::string& its_path) { return read_choice(word, item, its_path); });
}

}  // namespace railyard::scenario
