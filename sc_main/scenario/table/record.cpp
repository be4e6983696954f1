#include "sc_main/scenario/table/record.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>

#include <fmt/format.h>

#include "sc_main/scenario/table/not_modelled.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

[[noreturn]] void refuse(const Node& node, const std::string& path, const std::string& what) {
  throw InputError(node.origin, path + ": " + what);
}

std::string joined_path(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

std::vector<std::string> keys_of(const Fields& fields) {
  std::vector<std::string> keys;
  for (const Field& field : fields) keys.push_back(field.key);
  return keys;
}

[[noreturn]] void refuse_key(const Entry& entry, const std::string& path, const std::vector<std::string>& accepted) {
  constexpr std::size_t kLongestKey = 60;
  const std::string plain = joined_path(path, printable(entry.key, kLongestKey));
  const std::string same = same_quantity(entry.key, accepted);
  if (!same.empty()) {
    throw InputError(entry.origin, plain + ": wrong unit; the key is '" + same + "', in " + unit_of_key(same));
  }
  if (const char* feature = not_modelled(entry.key))
    throw InputError(entry.origin, plain + ": not modelled: " + feature);
  throw InputError(entry.origin, plain + ": unknown key" + suggestion(entry.key, accepted));
}

std::string or_words(const Field& field) {
  std::string text;
  for (const std::string& word : field.choices) text += " or '" + word + "'";
  return text;
}

std::string unit_text(const Field& field) {
  const std::string unit = unit_of_key(field.key);
  return unit.empty() ? "" : " (" + unit + ")";
}

[[noreturn]] void refuse_type(const Field& field, const Node& node, const std::string& path,
                              const std::string& expected) {
  refuse(node, path, "expected " + expected + unit_text(field) + or_words(field) + ", got " + node.described());
}

[[noreturn]] void refuse_range(const Field& field, const Node& node, const std::string& path) {
  if (field.least == field.most)
    refuse(node, path, in_quotes(node.text) + " is out of range; accepted: " + number_text(field.most));
  const bool is_bounded = field.most < static_cast<double>(std::numeric_limits<std::uint32_t>::max()) ||
                          std::strtod(node.text.c_str(), nullptr) > field.most;
  const std::string from =
      (field.takes_zero ? "0, or " : "") + std::string(is_bounded ? "" : "at least ") + number_text(field.least);
  const std::string to = is_bounded ? " to " + number_text(field.most) : "";
  refuse(node, path, in_quotes(node.text) + " is out of range; accepted: " + from + to + unit_text(field));
}

bool is_in_range(const Field& field, double value) {
  return (value >= field.least && value <= field.most) || (field.takes_zero && value == 0);
}

/// -?digits without leading zeros, so that no number reads as octal and none is rounded.
bool is_integer_text(const std::string& text) {
  const std::size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const std::string digits = text.substr(sign);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return false;
  return digits == "0" || digits[0] != '0';
}

}  // namespace

bool is_file_name(const std::string& name) {
  const auto ends = [&](const std::string& ending) {
    return name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
  };
  return name.find('/') != std::string::npos || ends(".yaml") || ends(".csv");
}

std::string number_text(double value) {
  return std::abs(value) < 1e15 ? fmt::format("{:.15g}", value) : fmt::format("{:.6g}", value);
}

std::uint64_t read_integer(const Field& field, const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::scalar || node.is_quoted || !is_integer_text(node.text)) {
    refuse_type(field, node, path, "an integer");
  }
  std::uint64_t value = 0;
  const char* const begin = node.text.data() + (node.text[0] == '+' ? 1 : 0);
  const char* const end = node.text.data() + node.text.size();
  const auto parsed = std::from_chars(begin, end, value);  // fails for a minus sign and on overflow
  if (parsed.ec != std::errc() || parsed.ptr != end || !is_in_range(field, static_cast<double>(value))) {
    refuse_range(field, node, path);
  }
  return value;
}

double read_number(const Field& field, const Node& node, const std::string& path) {
  const std::size_t sign = !node.text.empty() && (node.text[0] == '-' || node.text[0] == '+') ? 1 : 0;
  const bool looks_like_one = node.kind == Node::Kind::scalar && !node.is_quoted && node.text.size() > sign &&
                              ((node.text[sign] >= '0' && node.text[sign] <= '9') || node.text[sign] == '.');
  double value = 0;
  if (!looks_like_one) refuse_type(field, node, path, "a number");
  const char* const begin = node.text.data() + (node.text[0] == '+' ? 1 : 0);
  const char* const end = node.text.data() + node.text.size();
  const auto parsed = std::from_chars(begin, end, value, std::chars_format::general);
  if (parsed.ptr != end || parsed.ec == std::errc::invalid_argument) refuse_type(field, node, path, "a number");
  if (parsed.ec != std::errc() || !std::isfinite(value) || !is_in_range(field, value)) refuse_range(field, node, path);
  return value;
}

bool read_boolean(const Field&, const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::scalar || node.is_quoted || (node.text != "true" && node.text != "false")) {
    refuse(node, path, "expected true or false, got " + node.described());
  }
  return node.text == "true";
}

std::string read_text(const Field&, const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::scalar || node.text.empty())
    refuse(node, path, "expected text, got " + node.described());
  for (const char c : node.text) {
    if (static_cast<unsigned char>(c) < 0x20) refuse(node, path, "a control character in " + node.described());
  }
  return node.text;
}

std::size_t read_choice(const Field& field, const Node& node, const std::string& path) {
  if (node.kind == Node::Kind::scalar) {
    for (std::size_t i = 0; i < field.choices.size(); ++i) {
      if (field.choices[i] == node.text) return i;
    }
    const std::string near = nearest(node.text, field.choices);
    refuse(node, path,
           "unknown value " + in_quotes(node.text) + "; accepted: " + joined(field.choices) +
               (near.empty() ? "" : " (did you mean '" + near + "'?)"));
  }
  refuse(node, path,
         "expected " + std::string(field.choices.size() > 1 ? "one of " : "") + joined(field.choices) + ", got " +
             node.described());
}

std::vector<std::uint32_t> read_integers(const Field& field, const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::sequence) refuse(node, path, "expected a list of integers, got " + node.described());
  std::vector<std::uint32_t> values;
  for (const NodePtr& item : node.items) {
    values.push_back(
        static_cast<std::uint32_t>(read_integer(field, *item, path + "." + std::to_string(values.size()))));
  }
  return values;
}

bool is_word(const Field& field, const Node& node) {
  if (node.kind != Node::Kind::scalar) return false;
  for (const std::string& word : field.choices) {
    if (node.text == word) return true;
  }
  return false;
}

void refuse_later(const Field& field, const Node& node, const std::string& path) {
  if (node.kind == Node::Kind::scalar && field.choices.size() > 1) read_choice(field, node, path);
  refuse(node, path, "expected a mapping" + or_words(field) + ", got " + node.described());
}

const char* const kNamePattern = "^[a-z]([a-z0-9_]*[a-z_])?$";

void check_name(const Entry& entry, const std::string& path) {
  constexpr std::size_t kLongestName = 32;
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::string& name = entry.key;
  const bool is_good =
      !name.empty() && name.size() <= kLongestName && is_letter(name.front()) && !is_digit(name.back()) &&
      std::all_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
  if (is_good) return;
  throw InputError(entry.origin,
                   path + ": " + in_quotes(name) +
                       " is not a valid name; accepted: at most 32 lower-case letters, digits and _, beginning with a "
                       "letter and not ending in a digit");
}

std::size_t variant_of(const Field& field, const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::mapping) refuse(node, path, "expected a mapping, got " + node.described());
  const std::vector<Fields>& forms = *field.alternatives;
  // The form with the most written keys; if equal, the form whose required keys match.
  std::size_t best = 0, best_hits = 0;
  std::vector<std::string> all;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    std::size_t hits = 0;
    for (const Field& member : forms[i]) {
      all.push_back(member.key);
      hits += node.find(member.key) ? (member.is_required ? 2 : 1) : 0;
    }
    if (hits > best_hits) {
      best = i;
      best_hits = hits;
    }
  }
  for (const Entry& entry : node.entries) {
    const auto is_key = [&](const Fields& form) {
      for (const Field& member : form) {
        if (member.key == entry.key) return true;
      }
      return false;
    };
    if (is_key(forms[best])) continue;
    for (const Fields& form : forms) {
      if (is_key(form)) {
        throw InputError(entry.origin, joined_path(path, entry.key) +
                                           ": is not accepted with the other keys here; accepted with them: " +
                                           joined(keys_of(forms[best])));
      }
    }
    refuse_key(entry, path, best_hits == 0 ? all : keys_of(forms[best]));
  }
  if (best_hits == 0) refuse(node, path, "is empty; accepted: " + joined(keys_of(forms[0])));
  return best;
}

std::size_t form_of(const Field& field, const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::mapping) refuse(node, path, "expected a mapping, got " + node.described());
  const std::string tag_path = joined_path(path, field.tag);
  const Field& tag = field.alternatives->front().front();
  const Entry* entry = node.find(field.tag);
  if (!entry) refuse(node, tag_path, "is required; " + tag.doc);
  return read_choice(field, *entry->value, tag_path);
}

void read_fields(const Fields& fields, void* record, const Node& node, const std::string& path, bool is_partial) {
  if (node.kind != Node::Kind::mapping) {
    throw InputError(node.origin, (path.empty() ? "" : path + ": ") + "expected a mapping, got " + node.described());
  }
  std::set<std::string> given;
  for (const Entry& entry : node.entries) {
    const Field* match = nullptr;
    for (const Field& field : fields) {
      if (field.key == entry.key) match = &field;
    }
    if (!match) refuse_key(entry, path, keys_of(fields));
    given.insert(entry.key);
    if (is_partial && match->kind == Field::Kind::mapping) {
      Field lenient = *match;
      lenient.is_partial = true;
      lenient.store(lenient, record, *entry.value, joined_path(path, entry.key));
    } else {
      match->store(*match, record, *entry.value, joined_path(path, entry.key));
    }
  }
  if (is_partial) return;
  for (const Field& field : fields) {
    if (field.is_required && !given.count(field.key)) {
      const std::string otherwise = field.is_inherited ? "; or name a 'family:' to take it from" : "";
      throw InputError(node.origin, joined_path(path, field.key) + ": is required; " + field.doc + otherwise);
    }
  }
}

}  // namespace railyard::scenario
