#include "sc_main/scenario/table/resolved.h"

#include <filesystem>
#include <functional>
#include <sstream>

#include <yaml-cpp/yaml.h>

namespace railyard::scenario {

namespace fs = std::filesystem;

namespace {

using Move = std::function<std::string(const Node&)>;

const Field* field_named(const Fields& fields, const std::string& key) {
  for (const Field& field : fields)
    if (field.key == key) return &field;
  return nullptr;
}

NodePtr moved(const NodePtr& node, const Field& field, const Move& move);

/// The mapping with paths moved under the keys that `field_of` knows.
NodePtr moved_mapping(const NodePtr& node, const std::function<const Field*(const std::string&)>& field_of,
                      const Move& move) {
  if (node->kind != Node::Kind::mapping) return node;
  auto copy = std::make_shared<Node>(*node);
  for (Entry& entry : copy->entries)
    if (const Field* field = field_of(entry.key)) entry.value = moved(entry.value, *field, move);
  return copy;
}

NodePtr moved_members(const NodePtr& node, const Fields& members, const Move& move) {
  return moved_mapping(
      node, [&](const std::string& key) { return field_named(members, key); }, move);
}

NodePtr moved(const NodePtr& node, const Field& field, const Move& move) {
  if (field.path != Field::Path::none) {
    const bool is_path = node->kind == Node::Kind::scalar && !node->text.empty() &&
                         (field.path == Field::Path::always || is_file_name(node->text));
    if (!is_path) return node;
    auto copy = std::make_shared<Node>(*node);
    copy->text = move(*node);
    return copy;
  }
  if (field.kind == Field::Kind::mapping) return moved_members(node, *field.members, move);
  if (field.kind == Field::Kind::named) {
    Field one;
    one.kind = Field::Kind::mapping;
    one.members = field.members;
    return moved_mapping(
        node, [&](const std::string&) { return &one; }, move);
  }
  if (field.kind == Field::Kind::list && node->kind == Node::Kind::sequence) {
    auto copy = std::make_shared<Node>(*node);
    for (NodePtr& item : copy->items) item = moved_members(item, *field.members, move);
    return copy;
  }
  if (field.kind == Field::Kind::variants || field.kind == Field::Kind::forms) {
    const auto in_any_form = [&](const std::string& key) -> const Field* {
      for (const Fields& form : *field.alternatives)
        if (const Field* found = field_named(form, key)) return found;
      return nullptr;
    };
    return moved_mapping(node, in_any_form, move);
  }
  return node;
}

bool is_flat(const Node& node) {
  for (const NodePtr& item : node.items)
    if (item->kind == Node::Kind::mapping || item->kind == Node::Kind::sequence) return false;
  return true;
}

void emit(YAML::Emitter& out, const Node& node) {
  switch (node.kind) {
    case Node::Kind::null: out << YAML::Null; break;
    case Node::Kind::scalar:
      if (node.is_quoted) out << YAML::DoubleQuoted;
      out << node.text;
      break;
    case Node::Kind::sequence:
      out << (is_flat(node) ? YAML::Flow : YAML::Block) << YAML::BeginSeq;
      for (const NodePtr& item : node.items) emit(out, *item);
      out << YAML::EndSeq;
      break;
    case Node::Kind::mapping:
      out << (node.entries.empty() ? YAML::Flow : YAML::Block) << YAML::BeginMap;
      for (const Entry& entry : node.entries) {
        out << YAML::Key << entry.key << YAML::Value;
        emit(out, *entry.value);
      }
      out << YAML::EndMap;
      break;
  }
}

}  // namespace

NodePtr with_paths_from_here(const NodePtr& root, const Fields& fields, const std::string& folder) {
  return moved_members(root, fields, [&](const Node& path) {
    return is_option(path.origin) ? path.text : (fs::path(folder) / path.text).string();
  });
}

std::string resolved_text(const NodePtr& root, const Fields& fields, const std::string& name,
                          const std::string& platform) {
  const NodePtr absolute =
      moved_members(root, fields, [](const Node& path) { return fs::absolute(path.text).lexically_normal().string(); });
  YAML::Emitter out;
  out << YAML::BeginMap;
  out << YAML::Key << "name" << YAML::Value << YAML::DoubleQuoted << name;
  out << YAML::Key << "schema_version" << YAML::Value << 1;
  out << YAML::Key << "platform" << YAML::Value << platform;
  for (const Entry& entry : absolute->entries) {
    if (entry.key == "name" || entry.key == "schema_version" || entry.key == "platform") continue;
    out << YAML::Key << entry.key << YAML::Value;
    emit(out, *entry.value);
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace railyard::scenario
