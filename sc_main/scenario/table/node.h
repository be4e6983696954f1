// A YAML or JSON document as a tree in which every value and key knows its place in the file.
//
// The tree is built from yaml-cpp's events rather than its own nodes, because duplicate keys, anchors and nesting must
// be judged while reading: a few lines of nested aliases can stand for billions of values. An alias shares its target
// here, and what it stands for is counted without being expanded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/input_error.h"

namespace railyard::scenario {

/// Whether the place is an option of the command line, not a file.
inline bool is_option(const Origin& origin) { return origin.line == 0; }

struct Node;
using NodePtr = std::shared_ptr<const Node>;

struct Entry {
  std::string key;
  Origin origin;  ///< of the key
  NodePtr value;
};

struct Node {
  enum class Kind { null, scalar, sequence, mapping };

  Kind kind = Kind::null;
  Origin origin;
  std::string text;            ///< scalar
  bool is_quoted = false;      ///< a quoted scalar is text, whatever it looks like
  std::vector<NodePtr> items;  ///< sequence
  std::vector<Entry> entries;  ///< mapping, in the order of the file, no key twice
  std::size_t size = 1;        ///< values in this subtree, aliases counted as often as they are used
  std::size_t height = 1;

  /// The entry of a mapping, or nullptr.
  const Entry* find(const std::string& key) const;
  /// "a mapping", "a list", "nothing", or the scalar, quoted: for "expected ..., got ...".
  std::string described() const;
};

/// The scenario as it is written, with --set applied and paths relative to the current directory; for errors, too.
struct Source {
  NodePtr root;
};

/// Reads one YAML document. @throws InputError at the first thing that is not one plain, bounded YAML document
NodePtr parse_yaml(const std::string& text, const std::string& file);
/// Reads a value given on the command line: every place in it is `origin`.
NodePtr parse_yaml_value(const std::string& text, const Origin& origin);
/// Reads one JSON document. @throws InputError with the place of the first fault
NodePtr parse_json(const std::string& text, const std::string& file);

/// The whole file. @throws InputError at `origin` when it cannot be read or is longer than `longest_bytes`
std::string read_file(const std::string& path, const Origin& origin, const std::string& key, std::size_t longest_bytes);

/// The value at "a.b.c" (numbers index lists), or nullptr.
NodePtr value_at(const NodePtr& root, const std::string& path);
/// The place of "a.b.c", or of the deepest mapping on the way that exists.
Origin place_of(const NodePtr& root, const std::string& path);

/// The document with "a.b.c=VALUE" applied; mappings on the way are created where missing.
NodePtr with_set_option(const NodePtr& root, const std::string& option);

}  // namespace railyard::scenario
