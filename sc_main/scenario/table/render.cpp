#include "sc_main/scenario/table/render.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using nlohmann::json;

namespace {

bool is_bounded(const Field& field) {
  return field.most < static_cast<double>(std::numeric_limits<std::uint32_t>::max());
}

json bound(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? json(whole) : json(value);
}

std::string type_text(const Field& field) {
  switch (field.kind) {
    case Field::Kind::integer:
    case Field::Kind::number: {
      std::string text = field.kind == Field::Kind::integer ? "integer" : "number";
      for (const std::string& word : field.choices) text += " or " + word;
      return text;
    }
    case Field::Kind::boolean: return "true or false";
    case Field::Kind::text: return "text";
    case Field::Kind::choice: return fmt::format("{}", fmt::join(field.choices, " | "));
    case Field::Kind::integers: return "list of integers";
    case Field::Kind::mapping: return field.choices.empty() ? "mapping" : field.choices.front() + " or mapping";
    case Field::Kind::list: return "list";
    case Field::Kind::named: return "mapping";
    case Field::Kind::variants:
    case Field::Kind::forms: return "mapping";
    case Field::Kind::custom: return field.type_text;
  }
  return "";
}

std::string range_text(const Field& field) {
  const bool is_number =
      field.kind == Field::Kind::integer || field.kind == Field::Kind::number || field.kind == Field::Kind::integers;
  if (!is_number) return field.kind == Field::Kind::boolean && !field.choices.empty() ? "only " + field.choices[0] : "";
  const std::string least = number_text(field.least);
  if (field.least == field.most) return least;
  const std::string none = field.takes_zero ? "0, or " : "";
  return is_bounded(field) ? none + least + " to " + number_text(field.most) : none + ">= " + least;
}

std::string default_text(const Field& field) { return field.is_required ? "required" : field.default_text; }

json number_schema(const Field& field) {
  json schema = {{"type", field.kind == Field::Kind::number ? "number" : "integer"}};
  schema["minimum"] = bound(field.least);
  if (is_bounded(field) || field.most < 1e16) schema["maximum"] = bound(field.most);
  if (field.takes_zero) return {{"anyOf", {json{{"const", 0}}, schema}}};
  return schema;
}

json schema_of(const Field& field, bool is_partial) {
  json schema;
  switch (field.kind) {
    case Field::Kind::integer:
    case Field::Kind::number:
      schema = number_schema(field);
      if (!field.choices.empty()) schema = {{"anyOf", {json{{"enum", field.choices}}, schema}}};
      break;
    case Field::Kind::boolean:
      schema = {{"type", "boolean"}};
      if (!field.choices.empty()) schema["const"] = field.choices[0] == "true";
      break;
    case Field::Kind::text: schema = {{"type", {"string", "number"}}, {"minLength", 1}}; break;
    case Field::Kind::choice: schema = {{"enum", field.choices}}; break;
    case Field::Kind::integers: schema = {{"type", "array"}, {"items", number_schema(field)}}; break;
    case Field::Kind::mapping:
      schema = schema_of_fields(*field.members, is_partial);
      if (!field.choices.empty()) schema = {{"anyOf", {json{{"enum", field.choices}}, schema}}};
      break;
    case Field::Kind::list:
      schema = {{"type", "array"}, {"items", schema_of_fields(*field.members, is_partial)}};
      break;
    case Field::Kind::named:
      schema = {{"type", "object"},
                {"propertyNames", {{"pattern", kNamePattern}, {"maxLength", 32}}},
                {"additionalProperties", schema_of_fields(*field.members, is_partial)}};
      break;
    case Field::Kind::variants:
    case Field::Kind::forms:
      for (const Fields& form : *field.alternatives) schema["oneOf"].push_back(schema_of_fields(form, is_partial));
      break;
    case Field::Kind::custom: schema = field.schema(); break;
  }
  std::string doc = field.doc;
  if (const std::string unit = unit_of_key(field.key); !unit.empty()) doc += "; in " + unit;
  if (!is_partial && !field.is_required && !field.default_text.empty()) doc += "; default " + field.default_text;
  if (!field.source.empty()) doc += "; source: " + field.source;
  schema["description"] = doc;
  return schema;
}

std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\|");
  return text;
}

}  // namespace

json schema_of_fields(const Fields& fields, bool is_partial) {
  json schema = {{"type", "object"}, {"additionalProperties", false}, {"properties", json::object()}};
  for (const Field& field : fields) {
    schema["properties"][field.key] = schema_of(field, is_partial || field.is_partial);
    if (field.is_required && !is_partial) schema["required"].push_back(field.key);
  }
  return schema;
}

std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out, line(indent, ' ');
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (line.size() > indent && line.size() + 1 + word.size() > kPageWidth) {
      out += line + "\n";
      line.assign(indent, ' ');
    }
    line += (line.size() > indent ? " " : "") + word;
    at = end + 1;
  }
  return out + line + "\n";
}

std::string help_of(const std::string& path, const Field& field) {
  std::string facts = type_text(field);
  if (const std::string unit = unit_of_key(field.key); !unit.empty()) facts += ", " + unit;
  if (const std::string range = range_text(field); !range.empty()) facts += ", " + range;
  if (const std::string otherwise = default_text(field); !otherwise.empty())
    facts += field.is_required ? ", required" : ", default " + otherwise;
  return "  " + path + "  (" + facts + ")\n" + wrapped(field.doc, 6);
}

std::string table_of(const Fields& fields, const std::string& prefix, bool is_partial) {
  std::string page = "| key | type | unit | accepted | default | meaning |\n| --- | --- | --- | --- | --- | --- |\n";
  for_each_leaf(fields, prefix, is_partial, [&](const std::string& path, const std::string&, const Field& field) {
    const std::string source = field.source.empty() ? "" : " (source: " + field.source + ")";
    page += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", path, cell(type_text(field)), unit_of_key(field.key),
                        range_text(field), default_text(field), cell(field.doc + source));
  });
  return page;
}

}  // namespace railyard::scenario
