// Renders a table of fields as text: JSON Schema, --help, reference page.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "sc_main/scenario/table/record.h"

namespace railyard::scenario {

constexpr std::size_t kPageWidth = 100;

/// Calls `visit(path, form, field)` for every leaf, in the order of the tables; form: the word of its form, or "".
template <class Visit>
void for_each_leaf(const Fields& fields, const std::string& prefix, bool is_partial, const Visit& visit,
                   const std::string& form = "") {
  for (const Field& field : fields) {
    const std::string path = prefix.empty() ? field.key : prefix + "." + field.key;
    const bool partial = is_partial || field.is_partial;
    if (field.kind == Field::Kind::mapping) {
      if (!field.choices.empty()) visit(path, form, field);
      for_each_leaf(*field.members, path, partial, visit, form);
    } else if (field.kind == Field::Kind::list) {
      for_each_leaf(*field.members, path + "[]", partial, visit, form);
    } else if (field.kind == Field::Kind::named) {
      for_each_leaf(*field.members, path + ".NAME", partial, visit, form);
    } else if (field.kind == Field::Kind::variants) {
      for (const Fields& variant : *field.alternatives) for_each_leaf(variant, path, partial, visit, form);
    } else if (field.kind == Field::Kind::forms) {
      for (std::size_t i = 0; i < field.choices.size(); ++i)
        for_each_leaf((*field.alternatives)[i], path, partial, visit, field.choices[i]);
    } else {
      Field shown = field;
      if (partial) {
        shown.is_required = false;
        shown.default_text = "from the datasheet";
      }
      visit(path, form, shown);
    }
  }
}

/// JSON Schema of a mapping with these keys. `is_partial`: no key is required.
nlohmann::json schema_of_fields(const Fields& fields, bool is_partial);
/// A key, its properties and its meaning, as in --help.
std::string help_of(const std::string& path, const Field& field);
/// The text, broken into lines of the page's width.
std::string wrapped(const std::string& text, std::size_t indent);
/// A table in Markdown, one row per key. `prefix` of the keys, or "".
std::string table_of(const Fields& fields, const std::string& prefix, bool is_partial);

}  // namespace railyard::scenario
