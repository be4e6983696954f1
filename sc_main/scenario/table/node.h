// A YAML or JSON document as a tree. Every value and key has its position in the file.
//
// The tree is built from yaml-cpp's events, not from its nodes, because duplicate keys, anchors and nesting must be
// checked during reading: a few lines of nested aliases can represent billions of values. In this tree an alias shares
// its target, and its values are counted without expansion.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/input_error.h"

namespace railyard::scenario {

/// True if the position is an option of the command line, not a file.
inline bool is_option(const Origin& origin) { return origin.line == 0; }

struct Node;
using NodePtr = std::shared_ptr<const Node>;

struct Entry {
  std::string key;
  Origin origin;  ///< position of the key
  NodePtr value;
};

struct Node {
  enum class Kind { null, scalar, sequence, mapping };

  Kind kind = Kind::null;
  Origin origin;
  std::string text;            ///< scalar
  bool is_quoted = false;      ///< a quoted scalar is always text
  std::vector<NodePtr> items;  ///< sequence
  std::vector<Entry> entries;  ///< of a mapping, in the order of the file; no key occurs twice
  std::size_t size = 1;        ///< number of values in this subtree; an alias counts at each use
  std::size_t height = 1;

  /// The entry of a mapping, or nullptr.
  const Entry* find(const std::string& key) const;
  /// "a mapping", "a list", "nothing", or the scalar, quoted: for "expected ..., got ...".
  std::string described() const;
};

/// The scenario as written, with --set applied and paths relative to the current directory; also used for errors.
struct Source {
  NodePtr root;
};

/// Reads one YAML document. @throws InputError at the first part that is not a single, plain, bounded YAML document
NodePtr parse_yaml(const std::string& text, const std::string& file);
/// Reads a value from the command line; all its positions are `origin`.
NodePtr parse_yaml_value(const std::string& text, const Origin& origin);
/// Reads one JSON document. @throws InputError with the position of the first error
NodePtr parse_json(const std::string& text, const std::string& file);

/// The whole file. @throws InputError at `origin` if it cannot be read or is longer than `longest_bytes`
std::string read_file(const std::string& path, const Origin& origin, const std::string& key, std::size_t longest_bytes);

/// The value at "a.b.c" (numbers index lists), or nullptr.
NodePtr value_at(const NodePtr& root, const std::string& path);
/// The position of "a.b.c", or of the deepest existing mapping on this path.
Origin place_of(const NodePtr& root, const std::string& path);

/// The document with "a.b.c=VALUE" applied; missing mappings on the path are created.
NodePtr with_set_option(const NodePtr& root, const std::string& option);

}  // namespace railyard::scenario
