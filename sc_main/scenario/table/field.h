// A Field has its key, type, unit, range, default, meaning and source, and a function that stores a value in its
// struct. The same tables check and read files, and are rendered as --help text, JSON Schema and reference page
// (render.h), so that these always agree.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "sc_main/scenario/table/node.h"

namespace railyard::scenario {

struct Field;
using Fields = std::vector<Field>;

struct Field {
  enum class Kind { integer, number, boolean, text, choice, integers, mapping, list, named, variants, forms, custom };
  enum class Path { none, always, unless_name };  ///< unless_name: the name of a shipped datasheet, or a path

  std::string key;
  Kind kind = Kind::text;
  Path path = Path::none;
  std::string doc;
  std::string source;        ///< source of the default, if it is a fact
  std::string default_text;  ///< "" if none
  double least = 0;
  double most = 0;
  bool takes_zero = false;  ///< 0 is accepted below `least`, and means none
  bool is_required = false;
  bool is_partial = false;    ///< mapping: required members can be omitted (what-if overrides)
  bool is_inherited = false;  ///< datasheets: if omitted, the value of the sheet's family applies
  std::vector<std::string>
      choices;  ///< of a choice or a boolean; of a number or mapping: words accepted instead ("auto")
  std::shared_ptr<const Fields> members;  ///< of a mapping, or of each item of a list or of named structs
  std::shared_ptr<const std::vector<Fields>> alternatives;  ///< of variants and forms
  std::string tag;                                          ///< of forms: the key whose word selects the form
  std::function<nlohmann::json()> schema;                   ///< custom
  std::string type_text;                                    ///< custom: type shown to users

  using Store = std::function<void(const Field&, void* record, const Node&, const std::string& path)>;
  Store store;
  /// The value in a record, as text; null: not a scalar.
  std::function<std::string(const Field&, const void* record)> show;
  /// Of a mapping: the records in which its members are.
  std::function<std::vector<void*>(void* record)> targets;

  Field& required() {
    is_required = true;
    default_text.clear();
    return *this;
  }
  Field& range(double from, double to) {
    least = from;
    most = to;
    takes_zero = false;
    return *this;
  }
  /// For divisors: more than `from`, by enough to avoid overflow of the quotient.
  Field& above(double from, double to) {
    constexpr double kEnough = 1e-6;
    return range(from + kEnough, to);
  }
  /// Accepts 0 for none, or a value from least to most.
  Field& none_or(double from, double to) {
    range(from, to);
    takes_zero = true;
    return *this;
  }
  Field& fallback(std::string text) {
    default_text = std::move(text);
    return *this;
  }
  Field& inherited() {
    is_inherited = true;
    return *this;
  }
  Field& cite(std::string text) {
    source = std::move(text);
    return *this;
  }
  Field& partial() {
    is_partial = true;
    return *this;
  }
  Field& is_path(Path how = Path::always) {
    path = how;
    return *this;
  }
};

/// Reads a mapping into `record`; missing fields keep the values in the record.
/// @throws InputError: an unknown key, a wrong type or unit, a value out of range, a missing required field
void read_fields(const Fields& fields, void* record, const Node& node, const std::string& path,
                 bool is_partial = false);

// Checked scalars. Each throws an InputError with `path` and the accepted values of the field.
std::uint64_t read_integer(const Field& field, const Node& node, const std::string& path);
double read_number(const Field& field, const Node& node, const std::string& path);
bool read_boolean(const Field& field, const Node& node, const std::string& path);
std::string read_text(const Field& field, const Node& node, const std::string& path);
std::size_t read_choice(const Field& field, const Node& node, const std::string& path);
std::vector<std::uint32_t> read_integers(const Field& field, const Node& node, const std::string& path);
/// @throws InputError: neither a mapping nor a word of the field
[[noreturn]] void refuse_later(const Field& field, const Node& node, const std::string& path);
/// True if the node is one of the words that a number field accepts instead of a number.
bool is_word(const Field& field, const Node& node);
/// Checks a name that the user gives as the key of an entry: it becomes part of module names, followed by a number.
void check_name(const Entry& entry, const std::string& path);
extern const char* const kNamePattern;
std::string number_text(double value);
/// For a field with Path::unless_name: true if the value has a '/' or ends in ".yaml" or ".csv".
bool is_file_name(const std::string& value);
/// The variant to which the mapping's keys belong. @throws InputError for keys of two variants
std::size_t variant_of(const Field& field, const Node& node, const std::string& path);

/// The form selected by the mapping's tag. @throws InputError if the tag is missing or unknown
std::size_t form_of(const Field& field, const Node& node, const std::string& path);

}  // namespace railyard::scenario
