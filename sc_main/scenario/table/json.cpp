#include <array>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/table/node.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

constexpr std::size_t kDeepestNesting = 64;

/// Walks the text and counts the characters read by the parser, because the parser's callbacks give no position.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** reached;

  const char& operator*() const { return *at; }
  CountingIterator& operator++() {
    *reached = ++at;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
  bool operator!=(const CountingIterator& other) const { return at != other.at; }
};

/// Infinity and NaN, which Python's json module writes and JSON does not have: the parser reads zeros of their length.
std::string without_words(const std::string& text) {
  constexpr std::array<std::pair<const char*, const char*>, 2> kWords{{{"Infinity", "0.000000"}, {"NaN", "0.0"}}};
  std::string plain = text;
  bool in_string = false;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (in_string && plain[i] == '\\') {
      ++i;
    } else if (plain[i] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      for (const auto& [word, zeros] : kWords)
        if (plain.compare(i, std::strlen(word), word) == 0) plain.replace(i, std::strlen(word), zeros);
    }
  }
  return plain;
}

class JsonBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonBuilder(const std::string& text, const std::string& file)
      : written_(text), text_(without_words(text)), file_(file), reached_(text_.data()) {}

  NodePtr build() {
    const CountingIterator begin{text_.data(), &reached_}, end{text_.data() + text_.size(), &reached_};
    nlohmann::json::sax_parse(begin, end, this);
    return root_;
  }

  bool null() override { return leaf(Node::Kind::null, "null", false); }
  bool boolean(bool value) override { return leaf(Node::Kind::scalar, value ? "true" : "false", false); }
  bool number_integer(number_integer_t value) override {
    return leaf(Node::Kind::scalar, std::to_string(value), false);
  }
  bool number_unsigned(number_unsigned_t value) override {
    return leaf(Node::Kind::scalar, std::to_string(value), false);
  }
  bool number_float(number_float_t, const string_t& number) override {
    return leaf(Node::Kind::scalar, written_.substr(token_start(false), number.size()), false);
  }
  bool string(string_t& value) override { return leaf(Node::Kind::scalar, value, true); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Node::Kind::mapping); }
  bool start_array(std::size_t) override { return open(Node::Kind::sequence); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    const Origin origin = token_origin(true);
    if (!open_.back().keys.insert(value).second) throw InputError(origin, "duplicate key " + in_quotes(value));
    open_.back().key = value;
    open_.back().key_origin = origin;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    std::string what =
        error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..."
    const auto colon = what.find(": ");
    what = colon == std::string::npos ? what : what.substr(colon + 2);
    constexpr std::size_t kLongestMessage = 160;
    throw InputError(origin_at(position > 0 ? position - 1 : 0), "not valid JSON: " + printable(what, kLongestMessage));
  }

 private:
  /// Line and column of a byte. Calls must be in the order of the text.
  Origin origin_at(std::size_t offset) {
    for (; cursor_ < offset && cursor_ < text_.size(); ++cursor_) {
      line_ += text_[cursor_] == '\n';
      column_ = text_[cursor_] == '\n' ? 1 : column_ + 1;
    }
    return {file_, line_, column_};
  }

  Origin token_origin(bool is_string) { return origin_at(token_start(is_string)); }

  /// The token just read starts after the last quote, or after the last character that cannot be part of a number or
  /// word.
  std::size_t token_start(bool is_string) const {
    auto end = static_cast<std::size_t>(reached_ - text_.data());
    if (is_string) {
      std::size_t quote = end - 1;  // the closing one
      do {
        quote = text_.rfind('"', quote - 1);
      } while (quote != 0 && quote != std::string::npos && text_[quote - 1] == '\\');
      return quote;
    }
    const char* const token = "+-.0123456789abcdefghijklmnopqrstuvwxyzE";
    std::size_t last = end;  // the parser reads one character beyond a number
    while (last > 0 && !std::strchr(token, text_[last - 1])) --last;
    while (last > 0 && std::strchr(token, text_[last - 1])) --last;
    return last;
  }

  bool leaf(Node::Kind kind, const std::string& text, bool is_string) {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->text = text;
    node->is_quoted = is_string;
    node->origin = token_origin(is_string);
    add(node);
    return true;
  }

  bool open(Node::Kind kind) {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->origin = origin_at(static_cast<std::size_t>(reached_ - text_.data()) - 1);
    if (open_.size() >= kDeepestNesting) throw InputError(node->origin, "values nested more than 64 deep");
    open_.push_back({node, "", {}, {}});
    return true;
  }

  bool close() {
    const NodePtr node = open_.back().node;
    open_.pop_back();
    add(node);
    return true;
  }

  void add(const NodePtr& node) {
    if (open_.empty()) {
      root_ = node;
    } else if (open_.back().node->kind == Node::Kind::sequence) {
      open_.back().node->items.push_back(node);
    } else {
      open_.back().node->entries.push_back({open_.back().key, open_.back().key_origin, node});
    }
  }

  struct Open {
    std::shared_ptr<Node> node;
    std::string key;
    Origin key_origin;
    std::unordered_set<std::string> keys;
  };

  const std::string& written_;
  const std::string text_;  ///< what the parser reads
  const std::string& file_;
  const char* reached_;
  NodePtr root_;
  std::vector<Open> open_;
  std::size_t cursor_ = 0;
  int line_ = 1, column_ = 1;
};

}  // namespace

NodePtr parse_json(const std::string& text, const std::string& file) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) throw InputError({file, 1, 1}, "the file is empty");
  return JsonBuilder(text, file).build();
}

}  // namespace railyard::scenario
