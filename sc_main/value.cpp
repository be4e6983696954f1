#include "sc_main/value.h"

#include <algorithm>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace railyard {

namespace {

using Json = nlohmann::ordered_json;

template <class Group>
auto find(Group& group, std::string_view name) {
  return std::find_if(group.begin(), group.end(), [&](const Value::Member& member) { return member.name == name; });
}

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  template <class Plain>
  Json operator()(const Plain& plain) const {
    return plain;
  }
  Json operator()(const Value::List& list) const {
    Json array = Json::array();
    for (const Value& item : list) array.push_back(item.visit(*this));
    return array;
  }
  Json operator()(const Value::Group& group) const {
    Json object = Json::object();
    for (const Value::Member& member : group) object.push_back({member.name, member.value.visit(*this)});
    return object;
  }
};

}  // namespace

Value::Value(std::initializer_list<Member> members) : data_(Group(members)) {}

Value Value::empty_group() {
  Value value;
  value.data_ = Group();
  return value;
}

double Value::real() const {
  if (const auto* integer = std::get_if<std::uint64_t>(&data_)) return static_cast<double>(*integer);
  return std::get<double>(data_);
}

bool Value::contains(std::string_view name) const { return find(members(), name) != members().end(); }

const Value& Value::operator[](std::string_view name) const {
  const auto found = find(members(), name);
  if (found == members().end()) throw std::out_of_range("no value " + std::string(name));
  return found->value;
}

Value& Value::operator[](std::string_view name) {
  if (is_nothing()) data_ = Group();
  Group& group = std::get<Group>(data_);
  if (const auto found = find(group, name); found != group.end()) return found->value;
  group.push_back({std::string(name), {}});
  return group.back().value;
}

void Value::push_back(Value item) {
  if (is_nothing()) data_ = List();
  std::get<List>(data_).push_back(std::move(item));
}

void Value::append(const Value& group) {
  for (const Member& member : group.members()) (*this)[member.name] = member.value;
}

std::string json_text(const Value& value) { return value.visit(ToJson()).dump(2) + "\n"; }
std::string json_line(const Value& value) { return value.visit(ToJson()).dump() + "\n"; }

}  // namespace railyard
