// The values that a table of fields can hold (record.h): how each C++ type is described in a field, read from a node into a
// member, and shown again. A type that is not here does not compile as a member of a record.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "sc_main/scenario/table/field.h"

namespace railyard::scenario::values {

inline std::string shown(bool value) { return value ? "true" : "false"; }
template <class I, std::enable_if_t<std::is_unsigned_v<I> && !std::is_same_v<I, bool>, int> = 0>
std::string shown(I value) {
  return std::to_string(value);
}
inline std::string shown(double value) { return number_text(value); }
inline std::string shown(const std::string& value) { return value; }
inline std::string shown(const std::vector<std::uint32_t>& values) {
  std::string text;
  for (const std::uint32_t value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}
template <class M>
std::string shown(const std::optional<M>& value) {
  return value ? shown(*value) : "";
}
template <class E>
std::optional<std::size_t> chosen(const E& value) {
  return static_cast<std::size_t>(value);
}
template <class E>
std::optional<std::size_t> chosen(const std::optional<E>& value) {
  return value ? std::optional<std::size_t>(static_cast<std::size_t>(*value)) : std::nullopt;
}

inline void describe(Field& field, bool value) {
  field.kind = Field::Kind::boolean;
  field.default_text = value ? "true" : "false";
}
template <class I, std::enable_if_t<std::is_unsigned_v<I> && !std::is_same_v<I, bool>, int> = 0>
void describe(Field& field, I value) {
  field.kind = Field::Kind::integer;
  field.most = static_cast<double>(std::numeric_limits<I>::max());
  field.default_text = std::to_string(value);
}
inline void describe(Field& field, double value) {
  field.kind = Field::Kind::number;
  field.most = std::numeric_limits<double>::max();
  field.default_text = number_text(value);
}
inline void describe(Field& field, const std::string& value) {
  field.kind = Field::Kind::text;
  field.default_text = value;
}
inline void describe(Field& field, const std::vector<std::uint32_t>&) {
  field.kind = Field::Kind::integers;
  field.most = static_cast<double>(std::numeric_limits<std::uint32_t>::max());
}
template <class M>
void describe(Field& field, const std::optional<M>& value) {
  describe(field, value.value_or(M()));
  if (!value) field.default_text.clear();
}

inline void assign(const Field& self, bool& to, const Node& node, const std::string& path) {
  to = read_boolean(self, node, path);
}
template <class I, std::enable_if_t<std::is_unsigned_v<I> && !std::is_same_v<I, bool>, int> = 0>
void assign(const Field& self, I& to, const Node& node, const std::string& path) {
  to = static_cast<I>(read_integer(self, node, path));
}
inline void assign(const Field& self, double& to, const Node& node, const std::string& path) {
  to = read_number(self, node, path);
}
inline void assign(const Field& self, std::string& to, const Node& node, const std::string& path) {
  to = read_text(self, node, path);
}
inline void assign(const Field& self, std::vector<std::uint32_t>& to, const Node& node, const std::string& path) {
  to = read_integers(self, node, path);
}
template <class M>
void assign(const Field& self, std::optional<M>& to, const Node& node, const std::string& path) {
  assign(self, to.emplace(), node, path);
}

template <class E>
void store_choice(E& to, std::size_t which) {
  to = static_cast<E>(which);
}
template <class E>
void store_choice(std::optional<E>& to, std::size_t which) {
  to = static_cast<E>(which);
}

}  // namespace railyard::scenario::values
