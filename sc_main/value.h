// A value of an output: nothing, a truth value, a number, a text, a list, or a group of named values, in the order in
// which they were added. The summary, --describe, --explain and --why are such values. json_text() writes them, so only
// value.cpp includes a JSON library, which takes longer to compile than most of our files.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace railyard {

class Value {
 public:
  struct Member;
  using List = std::vector<Value>;
  using Group = std::vector<Member>;

  Value() = default;  ///< nothing
  Value(bool is_true) : data_(is_true) {}
  Value(double number) : data_(number) {}
  template <class Integer, std::enable_if_t<std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>, int> = 0>
  Value(Integer number) : data_(static_cast<std::uint64_t>(number)) {
    static_assert(std::is_unsigned_v<Integer> || std::is_same_v<Integer, int>, "counts and sizes are not negative");
  }
  Value(const char* text) : data_(std::string(text)) {}
  Value(std::string_view text) : data_(std::string(text)) {}
  Value(std::string text) : data_(std::move(text)) {}
  /// A group: {{"bytes", 4096}, {"time_s", 1e-6}}.
  Value(std::initializer_list<Member> members);
  Value(List items) : data_(std::move(items)) {}

  static Value empty_group();
  static Value empty_list() { return List(); }

  bool is_nothing() const { return std::holds_alternative<std::monostate>(data_); }
  /// @pre a number
  double real() const;
  /// @pre an integer
  std::uint64_t integer() const { return std::get<std::uint64_t>(data_); }
  /// @pre a text
  const std::string& text() const { return std::get<std::string>(data_); }
  /// @pre a truth value
  bool is_true() const { return std::get<bool>(data_); }
  /// @pre a list
  const List& items() const { return std::get<List>(data_); }
  /// @pre a group
  const Group& members() const { return std::get<Group>(data_); }

  bool contains(std::string_view name) const;
  /// The member of a group. @pre contains(name)
  const Value& operator[](std::string_view name) const;
  /// The member of a group; added as nothing if the group does not have it. @pre a group or nothing
  Value& operator[](std::string_view name);
  /// Adds to a list. @pre a list or nothing
  void push_back(Value item);
  /// Adds the members of another group. @pre a group or nothing
  void append(const Value& group);

  /// Calls `visitor` with the content: std::monostate, bool, std::uint64_t, double, std::string, List or Group.
  template <class Visitor>
  auto visit(const Visitor& visitor) const {
    return std::visit(visitor, data_);
  }

 private:
  std::variant<std::monostate, bool, std::uint64_t, double, std::string, List, Group> data_;
};

struct Value::Member {
  std::string name;
  Value value;
};

/// JSON, indented by two, with a line break at the end.
std::string json_text(const Value& value);
/// JSON in one line, with a line break at the end.
std::string json_line(const Value& value);

}  // namespace railyard
