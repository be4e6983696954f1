// The room `table` is about values with positions and tables of keys. Node is a tree of values (node.h), from YAML,
// JSON or Lines of text; Record is the table of a struct, which reads a Node into it and is rendered as help, schema
// and reference (render.h); resolved.h makes paths absolute and writes the scenario of a run. All of the loader stands
// on it.
//
// One table of typed fields (field.h) for each struct that a user can write: scenario sections, datasheets, what-if overrides.
// Defaults are the structs' member initialisers, read from a default-constructed record.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sc_main/scenario/table/field.h"
#include "sc_main/scenario/table/values.h"

namespace railyard::scenario {

template <class T>
class Record;

/// One form of a struct T: the word that selects it, its table, and the struct into which it is read.
template <class T>
struct Form {
  std::string word;
  Fields fields;
  std::function<void*(T&)> target;
};
/// A member of a member, for the functions of Record.
template <class Outer, class Inner>
auto within(Outer outer, Inner inner) {
  return [outer, inner](auto& record) -> decltype(auto) { return std::invoke(inner, std::invoke(outer, record)); };
}

/// Names of enumerators, in the form that tables of fields need.
template <class Names>
std::vector<std::string> words_of(const Names& names) {
  return {names.begin(), names.end()};
}

/// The table of a struct T, built by a chain of calls in its constructor.
template <class T>
class Record {
 public:
  Record() = default;
  /// For a struct whose defaults depend on its position.
  explicit Record(T defaults) : defaults_(std::move(defaults)) {}

  // A member is a pointer to a member of T or of a base of T, or a function that returns a reference inside a T.

  /// A scalar or list member: bool, unsigned integer, double, text, integers, or an optional of these.
  template <class Member>
  Field& add(const char* key, Member member, const char* doc) {
    Field field;
    field.key = key;
    field.doc = doc;
    values::describe(field, std::invoke(member, defaults_));
    field.store = [member](const Field& self, void* record, const Node& node, const std::string& path) {
      values::assign(self, std::invoke(member, *static_cast<T*>(record)), node, path);
    };
    field.show = [member](const Field&, const void* record) {
      return values::shown(std::invoke(member, record_of(record)));
    };
    return push(std::move(field));
  }

  /// An enum member with named enumerators, in order; or an optional enum, if the choice can be omitted.
  template <class Member>
  Field& choice(const char* key, Member member, std::vector<std::string> names, const char* doc) {
    using Value = std::remove_reference_t<std::invoke_result_t<Member, T&>>;
    Field field;
    field.key = key;
    field.doc = doc;
    field.kind = Field::Kind::choice;
    if constexpr (std::is_enum_v<Value>)
      field.default_text = names[static_cast<std::size_t>(std::invoke(member, defaults_))];
    field.choices = std::move(names);
    field.store = [member](const Field& self, void* record, const Node& node, const std::string& path) {
      values::store_choice(std::invoke(member, *static_cast<T*>(record)), read_choice(self, node, path));
    };
    field.show = [member](const Field& self, const void* record) {
      const auto value = values::chosen(std::invoke(member, record_of(record)));
      return value ? self.choices[*value] : self.default_text;
    };
    return push(std::move(field));
  }

  /// The same, with a word for no choice (std::nullopt).
  template <class Member>
  Field& choice_or(const char* key, const char* word, Member member, std::vector<std::string> names, const char* doc) {
    names.insert(names.begin(), word);
    Field& field = choice(key, member, std::move(names), doc);
    field.default_text = word;
    field.store = [member](const Field& self, void* record, const Node& node, const std::string& path) {
      auto& target = std::invoke(member, *static_cast<T*>(record));
      const std::size_t which = read_choice(self, node, path);
      target.reset();
      if (which > 0) values::store_choice(target, which - 1);
    };
    field.show = [member](const Field& self, const void* record) {
      const auto value = values::chosen(std::invoke(member, record_of(record)));
      return self.choices[value ? *value + 1 : 0];
    };
    return field;
  }

  /// A text member that accepts one of several words.
  template <class Member>
  Field& word(const char* key, Member member, std::vector<std::string> names, const char* doc) {
    Field& field = add(key, member, doc);
    field.kind = Field::Kind::choice;
    field.choices = std::move(names);
    field.store = [member](const Field& self, void* record, const Node& node, const std::string& path) {
      std::invoke(member, *static_cast<T*>(record)) = self.choices[read_choice(self, node, path)];
    };
    return field;
  }

  /// A number, or a word for "no number": std::nullopt, or 0.
  template <class Member>
  Field& number_or(const char* key, const char* word, Member member, const char* doc) {
    using Value = std::remove_reference_t<std::invoke_result_t<Member, T&>>;
    Field& field = add(key, member, doc);
    field.choices = {word};
    if (std::invoke(member, defaults_) == Value()) field.default_text = word;
    field.store = [member](const Field& self, void* record, const Node& node, const std::string& path) {
      auto& target = std::invoke(member, *static_cast<T*>(record));
      if (is_word(self, node))
        target = Value();
      else
        values::assign(self, target, node, path);
    };
    return field;
  }

  /// A struct member with a separate table.
  template <class Member, class M>
  Field& nested(const char* key, Member member, const Record<M>& members, const char* doc) {
    return mapping(key, members.fields(), doc, [member](void* record) {
      M& target = std::invoke(member, *static_cast<T*>(record));
      return std::vector<void*>{&target};
    });
  }

  /// Members of this struct that are written under a separate key.
  Field& group(const char* key, const Record<T>& members, const char* doc) {
    return mapping(key, members.fields(), doc, [](void* record) { return std::vector<void*>{record}; });
  }

  /// The same, or a word that leaves these members as they are.
  Field& group_or(const char* key, const char* word, const Record<T>& members, const char* doc) {
    Field& field = group(key, members, doc);
    field.choices = {word};
    field.default_text = word;
    field.store = [of_members = std::move(field.store)](const Field& self, void* record, const Node& node,
                                                        const std::string& path) {
      if (is_word(self, node)) return;
      if (node.kind != Node::Kind::mapping)
        throw InputError(node.origin,
                         path + ": expected a mapping or '" + self.choices.front() + "', got " + node.described());
      of_members(self, record, node, path);
    };
    return field;
  }

  /// A mapping whose members are stored in every record listed by `targets`.
  Field& mapping(const char* key, Fields members, const char* doc, std::function<std::vector<void*>(void*)> targets) {
    Field field;
    field.key = key;
    field.doc = doc;
    field.kind = Field::Kind::mapping;
    field.members = std::make_shared<const Fields>(std::move(members));
    field.targets = targets;
    field.store = [targets = std::move(targets)](const Field& self, void* record, const Node& node,
                                                 const std::string& path) {
      for (void* target : targets(record)) read_fields(*self.members, target, node, path, self.is_partial);
    };
    return push(std::move(field));
  }

  /// A mapping, or a word, that is read and checked later, over values that are not known yet.
  Field& later(const char* key, std::vector<std::string> words, Fields members, const char* doc) {
    Field& field = mapping(key, std::move(members), doc, nullptr);
    field.choices = std::move(words);
    field.store = [](const Field& self, void*, const Node& node, const std::string& path) {
      if (node.kind != Node::Kind::mapping && !is_word(self, node)) refuse_later(self, node, path);
    };
    return field;
  }

  /// A list of structs.
  template <class M>
  Field& list(const char* key, std::vector<M> T::*member, const Record<M>& members, const char* doc) {
    Field& field = mapping(key, members.fields(), doc, nullptr);
    field.kind = Field::Kind::list;
    field.store = [member](const Field& self, void* record, const Node& node, const std::string& path) {
      if (node.kind != Node::Kind::sequence)
        throw InputError(node.origin, path + ": expected a list, got " + node.described());
      auto& items = static_cast<T*>(record)->*member;
      items.clear();
      for (const NodePtr& item : node.items) {
        items.emplace_back();
        read_fields(*self.members, &items.back(), *item, path + "." + std::to_string(items.size() - 1));
      }
    };
    return field;
  }

  /// Structs with names given by the user; each struct stores its name in its member `name`.
  template <class M>
  Field& named(const char* key, std::vector<M> T::*member, const Record<M>& members, const char* doc) {
    Field& field = mapping(key, members.fields(), doc, nullptr);
    field.kind = Field::Kind::named;
    field.store = [member](const Field& self, void* record, const Node& node, const std::string& path) {
      if (node.kind != Node::Kind::mapping)
        throw InputError(node.origin, path + ": expected a mapping, got " + node.described());
      auto& items = static_cast<T*>(record)->*member;
      items.clear();
      for (const Entry& entry : node.entries) {
        check_name(entry, path);
        items.emplace_back();
        items.back().name = entry.key;
        read_fields(*self.members, &items.back(), *entry.value, path + "." + entry.key);
      }
    };
    return field;
  }

  /// A struct with several forms, distinguished by their keys.
  template <class M>
  Field& variants(const char* key, M T::*member, const std::vector<Record<M>>& forms, const char* doc) {
    Field field;
    field.key = key;
    field.doc = doc;
    field.kind = Field::Kind::variants;
    std::vector<Fields> alternatives;
    for (const Record<M>& form : forms) alternatives.push_back(form.fields());
    field.alternatives = std::make_shared<const std::vector<Fields>>(std::move(alternatives));
    field.store = [member](const Field& self, void* record, const Node& node, const std::string& path) {
      read_fields((*self.alternatives)[variant_of(self, node, path)], &(static_cast<T*>(record)->*member), node, path);
    };
    return push(std::move(field));
  }

  /// A struct with several forms, each with its own table; the word under `tag` selects the form.
  template <class M>
  Field& forms(const char* key, M T::*member, const char* tag, const std::vector<Form<M>>& all, const char* doc,
               const char* tag_doc) {
    Field field;
    field.key = key;
    field.doc = doc;
    field.kind = Field::Kind::forms;
    field.tag = tag;
    std::vector<Fields> alternatives;
    for (const Form<M>& one : all) {
      field.choices.push_back(one.word);
      Field word;
      word.key = tag;
      word.doc = tag_doc;
      word.kind = Field::Kind::choice;
      word.choices = {one.word};
      word.is_required = true;
      word.store = [](const Field&, void*, const Node&, const std::string&) {};  // stored by form_of()
      alternatives.push_back({word});
      alternatives.back().insert(alternatives.back().end(), one.fields.begin(), one.fields.end());
    }
    field.alternatives = std::make_shared<const std::vector<Fields>>(std::move(alternatives));
    field.store = [member, all](const Field& self, void* record, const Node& node, const std::string& path) {
      M& target = static_cast<T*>(record)->*member;
      const std::size_t which = form_of(self, node, path);
      read_fields((*self.alternatives)[which], all[which].target(target), node, path);
    };
    return push(std::move(field));
  }

  /// A value with a special form.
  Field& custom(const char* key, const char* doc, const char* type_text, std::function<nlohmann::json()> schema,
                std::function<void(T&, const Node&, const std::string& path)> read) {
    Field field;
    field.key = key;
    field.doc = doc;
    field.kind = Field::Kind::custom;
    field.type_text = type_text;
    field.schema = std::move(schema);
    field.store = [read = std::move(read)](const Field&, void* record, const Node& node, const std::string& path) {
      read(*static_cast<T*>(record), node, path);
    };
    return push(std::move(field));
  }

  /// A field of a base of T.
  Field& adopt(const Field& field) { return push(field); }

  /// For all keys so far.
  void require_all() {
    for (Field& field : fields_) field.required();
  }
  void fallback_all(const std::string& text) {
    for (Field& field : fields_) field.fallback(text);
  }

  const Fields& fields() const { return fields_; }
  void read(T& record, const Node& node, const std::string& path) const { read_fields(fields_, &record, node, path); }

 private:
  Field& push(Field field) {
    fields_.push_back(std::move(field));
    return fields_.back();
  }

  /// Functions that return a reference inside a T may want one that can change.
  static T& record_of(const void* record) { return *static_cast<T*>(const_cast<void*>(record)); }

  T defaults_{};
  Fields fields_;
};

}  // namespace railyard::scenario
