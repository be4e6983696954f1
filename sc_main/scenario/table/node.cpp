#include "sc_main/scenario/table/node.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts;
  std::istringstream stream(path);
  for (std::string part; std::getline(stream, part, '.');) parts.push_back(part);
  if (path.empty() || path.back() == '.') parts.emplace_back();
  return parts;
}

/// A list index: only digits, few enough not to overflow.
std::optional<std::size_t> index_of(const std::string& part) {
  constexpr std::size_t kMostDigits = 9;
  if (part.empty() || part.size() > kMostDigits || part.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::stoul(part);
}

NodePtr replaced(const NodePtr& node, const std::vector<std::string>& parts, std::size_t depth, const NodePtr& value,
                 const Origin& origin) {
  if (depth == parts.size()) return value;
  const std::string& part = parts[depth];
  auto copy = std::make_shared<Node>();
  if (node && node->kind != Node::Kind::null) {
    *copy = *node;
  } else {
    copy->kind = Node::Kind::mapping;
    copy->origin = origin;
  }
  std::string so_far = parts[0];
  for (std::size_t i = 1; i < depth; ++i) so_far += "." + parts[i];
  if (copy->kind == Node::Kind::sequence) {
    const auto index = index_of(part);
    if (!index || *index >= copy->items.size()) {
      const std::string has =
          copy->items.empty() ? "is empty" : "has items 0 to " + std::to_string(copy->items.size() - 1);
      throw InputError(origin, so_far + ": no item " + in_quotes(part) + "; the list " + has);
    }
    copy->items[*index] = replaced(copy->items[*index], parts, depth + 1, value, origin);
  } else if (copy->kind == Node::Kind::mapping) {
    for (Entry& entry : copy->entries) {
      if (entry.key != part) continue;
      entry.value = replaced(entry.value, parts, depth + 1, value, origin);
      return copy;
    }
    copy->entries.push_back({part, origin, replaced(nullptr, parts, depth + 1, value, origin)});
  } else {
    throw InputError(origin, so_far + ": is " + node->described() + ", which has no key " + in_quotes(part));
  }
  return copy;
}

}  // namespace

const Entry* Node::find(const std::string& key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

std::string Node::described() const {
  switch (kind) {
    case Kind::null: return "nothing";
    case Kind::scalar: return (is_quoted ? "the quoted text " : "") + in_quotes(text);
    case Kind::sequence: return "a list";
    case Kind::mapping: return "a mapping";
  }
  return "";
}

NodePtr value_at(const NodePtr& root, const std::string& path) {
  NodePtr node = root;
  for (const std::string& part : split_path(path)) {
    if (!node) return nullptr;
    if (node->kind == Node::Kind::sequence) {
      const auto index = index_of(part);
      node = index && *index < node->items.size() ? node->items[*index] : nullptr;
    } else {
      const Entry* entry = node->find(part);
      node = entry ? entry->value : nullptr;
    }
  }
  return node;
}

Origin place_of(const NodePtr& root, const std::string& path) {
  std::string rest = path;
  while (!rest.empty()) {
    if (const NodePtr node = value_at(root, rest)) return node->origin;
    const auto dot = rest.rfind('.');
    rest = dot == std::string::npos ? "" : rest.substr(0, dot);
  }
  return root->origin;
}

NodePtr with_set_option(const NodePtr& root, const std::string& option) {
  constexpr std::size_t kLongestOption = 120;
  const Origin origin{"--set " + printable(option, kLongestOption), 0, 0};
  const auto equals = option.find('=');
  if (equals == std::string::npos) throw InputError(origin, "expected a.b.c=VALUE");
  const std::vector<std::string> parts = split_path(option.substr(0, equals));
  constexpr std::size_t kDeepestPath = 16;
  if (parts.size() > kDeepestPath) throw InputError(origin, "the key has more than 16 parts");
  for (const std::string& part : parts) {
    if (part.empty()) throw InputError(origin, "the key has an empty part; expected a.b.c=VALUE");
  }
  return replaced(root, parts, 0, parse_yaml_value(option.substr(equals + 1), origin), origin);
}

std::string read_file(const std::string& path, const Origin& origin, const std::string& key,
                      std::size_t longest_bytes) {
  const std::string subject = key.empty() ? "" : key + ": ";
  const auto refuse = [&](const std::string& why) -> InputError {
    return InputError(origin, subject + "cannot read " + in_quotes(path) + ": " + why);
  };
  if (path.find('\0') != std::string::npos) throw refuse("a NUL byte in its name");
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw refuse("it is a directory");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw refuse(std::strerror(errno));
  std::string text;
  constexpr std::size_t kBlock = 65536;
  char block[kBlock];
  while (stream.read(block, kBlock) || stream.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > longest_bytes) throw refuse("it is longer than " + std::to_string(longest_bytes) + " bytes");
  }
  return text;
}

}  // namespace railyard::scenario
