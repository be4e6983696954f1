// Builds parts of a tree from values of other files. Each part has the place of the value from which it comes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sc_main/scenario/table/node.h"

namespace railyard::scenario {

using Members = std::vector<std::pair<std::string, NodePtr>>;

/// A word of the schema, or a number as written.
inline NodePtr word(const std::string& text, const Origin& origin) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::scalar;
  node->origin = origin;
  node->text = text;
  return node;
}
inline NodePtr number(std::uint64_t value, const Origin& origin) { return word(std::to_string(value), origin); }
inline NodePtr flag(bool value, const Origin& origin) { return word(value ? "true" : "false", origin); }

/// A user's text, even if it looks like a number.
inline NodePtr text(const std::string& value, const Origin& origin) {
  auto node = std::make_shared<Node>(*word(value, origin));
  node->is_quoted = true;
  return node;
}

inline NodePtr mapping(const Origin& origin, const Members& members) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::mapping;
  node->origin = origin;
  for (const auto& [key, value] : members) node->entries.push_back({key, value->origin, value});
  return node;
}

/// Both mappings in one; where both have a key, its values are joined. @param more  null: none
inline NodePtr joined(const NodePtr& one, const NodePtr& more) {
  if (more == nullptr) return one;
  auto node = std::make_shared<Node>(*one);
  for (const auto& entry : more->entries) {
    const auto same = std::find_if(node->entries.begin(), node->entries.end(),
                                   [&](const auto& other) { return other.key == entry.key; });
    if (same == node->entries.end()) {
      node->entries.push_back(entry);
    } else {
      same->value = joined(same->value, entry.value);
    }
  }
  return node;
}

inline NodePtr list(const Origin& origin, std::vector<NodePtr> items) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::sequence;
  node->origin = origin;
  node->items = std::move(items);
  return node;
}

}  // namespace railyard::scenario
