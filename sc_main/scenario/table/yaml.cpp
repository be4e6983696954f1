#include <map>
#include <optional>
#include <sstream>
#include <unordered_map>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "sc_main/scenario/table/node.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

// A scenario is about a page of text. These limits allow
// long request lists and stop malicious files early.
constexpr std::size_t kMostBytes = 1u << 20;
constexpr std::size_t kMostValues = 100'000;
constexpr std::size_t kDeepestNode = 64;

/// Converts a parser's mark into a position: in a file, or always the option that gave the value.
class Places {
 public:
  explicit Places(Origin base) : base_(std::move(base)) {}
  Origin at(const YAML::Mark& mark) const {
    if (base_.line == 0 || mark.is_null()) return base_;
    return {base_.file, mark.line + 1, mark.column + 1};
  }
  Origin at(int line, int column) const { return base_.line == 0 ? base_ : Origin{base_.file, line, column}; }

 private:
  Origin base_;
};

class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const Places& places) : places_(places) {}

  /// Null if the document was empty.
  NodePtr take_root() {
    if (odd_key_) throw *odd_key_;
    return std::move(root_);
  }

  Origin innermost(const Origin& otherwise) const { return open_.empty() ? otherwise : open_.back().node->origin; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { leaf(mark, anchor, Node::Kind::null, "?", ""); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    leaf(mark, anchor, Node::Kind::scalar, tag, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::sequence);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::mapping);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end()) throw InputError(places_.at(mark), "an alias inside the value that it stands for");
    if (open_.size() + target->second->height > kDeepestNode) too_deep(mark);
    add(mark, target->second, true);
  }

 private:
  struct Open {
    std::shared_ptr<Node> node;
    YAML::anchor_t anchor;
    bool has_key = false;
    std::string key;
    Origin key_origin;
    std::unordered_map<std::string, int> lines;  ///< lines of the keys so far
  };

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag.empty() || tag == "?" || tag == "!") return;
    throw InputError(places_.at(mark), "a YAML tag, " + in_quotes(tag) + "; values here have no tags");
  }

  [[noreturn]] void too_deep(const YAML::Mark& mark) const {
    throw InputError(places_.at(mark), "values nested more than " + std::to_string(kDeepestNode) + " deep");
  }

  void leaf(const YAML::Mark& mark, YAML::anchor_t anchor, Node::Kind kind, const std::string& tag,
            const std::string& value) {
    refuse_tag(mark, tag);
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->origin = places_.at(mark);
    node->text = value;
    node->is_quoted = tag == "!";
    if (anchor) anchors_[anchor] = node;
    add(mark, node, false);
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    refuse_tag(mark, tag);
    if (open_.size() >= kDeepestNode) too_deep(mark);
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->origin = places_.at(mark);
    open_.push_back({node, anchor, false, "", {}, {}});
  }

  void close() {
    const Open done = std::move(open_.back());
    open_.pop_back();
    if (done.anchor) anchors_[done.anchor] = done.node;
    add(YAML::Mark::null_mark(), done.node, false);
  }

  bool expects_key() const {
    return !open_.empty() && open_.back().node->kind == Node::Kind::mapping && !open_.back().has_key;
  }

  void add(const YAML::Mark& mark, const NodePtr& node, bool is_alias) {
    if (open_.empty()) {
      root_ = node;
      return;
    }
    Open& parent = open_.back();
    if (expects_key()) {
      const Origin origin = is_alias ? places_.at(mark) : node->origin;
      parent.has_key = true;
      if (node->kind != Node::Kind::scalar) {
        if (!odd_key_) odd_key_ = InputError(origin, "a key that is not a word");
        return;
      }
      const auto [first, is_new] = parent.lines.emplace(node->text, origin.line);
      if (!is_new) {
        throw InputError(origin,
                         "duplicate key " + in_quotes(node->text) +
                             (origin.line == 0 ? "" : "; first given at line " + std::to_string(first->second)));
      }
      parent.key = node->text;
      parent.key_origin = origin;
      return;
    }
    parent.node->size += node->size;
    if (parent.node->size > kMostValues) {
      throw InputError(is_alias ? places_.at(mark) : node->origin,
                       "more than " + std::to_string(kMostValues) + " values, counting what aliases stand for");
    }
    parent.node->height = std::max(parent.node->height, node->height + 1);
    if (parent.node->kind == Node::Kind::sequence) {
      parent.node->items.push_back(node);
    } else {
      parent.node->entries.push_back({parent.key, parent.key_origin, node});
      parent.has_key = false;
    }
  }

  const Places& places_;
  NodePtr root_;
  std::optional<InputError> odd_key_;  ///< reported last: an open bracket looks the same until the parser finds it
  std::vector<Open> open_;
  std::map<YAML::anchor_t, NodePtr> anchors_;
};

/// Bytes that YAML forbids and yaml-cpp misreads or accepts: binary bytes, and tabs as indentation.
void check_bytes(const std::string& text, const Places& places) {
  int line = 1, column = 1;
  bool indenting = true;
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8_length(text, i);
    if (length == 0) throw InputError(places.at(line, column), "not UTF-8 text");
    if ((c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f) {
      throw InputError(places.at(line, column), "a control character in the text");
    }
    if (c == '\t' && indenting) throw InputError(places.at(line, column), "a tab in the indentation; use spaces");
    if (c == '\n') {
      ++line;
      column = 1;
      indenting = true;
    } else {
      column += static_cast<int>(length);
      if (c != ' ') indenting = false;
    }
    i += length;
  }
}

NodePtr parse(const std::string& text, const Places& places) {
  if (text.size() > kMostBytes) {
    throw InputError(places.at(1, 1), "longer than " + std::to_string(kMostBytes) + " bytes");
  }
  check_bytes(text, places);
  // yaml-cpp accepts an unterminated quote if the text ends in a line break.
  const auto last = text.find_last_not_of(" \t\r\n");
  std::istringstream stream(last == std::string::npos ? "" : text.substr(0, last + 1));
  TreeBuilder builder(places), extra(places);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return nullptr;
    if (parser.HandleNextDocument(extra)) {
      const NodePtr second = extra.take_root();
      throw InputError(second ? second->origin : places.at(1, 1), "a second YAML document; one is expected");
    }
  } catch (const YAML::Exception& error) {
    // At the end of the text the parser has no position; then the innermost open bracket is reported.
    const bool has_place = error.mark.line > 0 || error.mark.column > 0;
    throw InputError(has_place ? places.at(error.mark) : builder.innermost(places.at(1, 1)),
                     "not valid YAML: " + error.msg);
  }
  return builder.take_root();
}

}  // namespace

NodePtr parse_yaml(const std::string& text, const std::string& file) {
  const NodePtr root = parse(text, Places({file, 1, 1}));
  if (!root) throw InputError({file, 1, 1}, "the file is empty");
  return root;
}

NodePtr parse_yaml_value(const std::string& text, const Origin& origin) {
  if (NodePtr value = parse(text, Places(origin))) return value;
  auto nothing = std::make_shared<Node>();
  nothing->origin = origin;
  return nothing;
}

}  // namespace railyard::scenario
