#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "sc_main/scenario/datasheets.h"
#include "sc_main/scenario/load.h"
#include "sc_main/scenario/parameters.h"
#include "sc_main/scenario/words.h"

namespace railyard {

using namespace scenario;
using nlohmann::json;

namespace {

constexpr std::size_t kPageWidth = 100;
const char* const kOverrides = "machine.overrides";

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
    case Field::Kind::mapping: return "mapping";
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

/// Calls `visit(path, form, field)` for every leaf, in the order of the tables; form: the word by which its form is chosen, or "".
template <class Visit>
void for_each_leaf(const Fields& fields, const std::string& prefix, bool is_partial, const Visit& visit,
                   const std::string& form = "") {
  for (const Field& field : fields) {
    const std::string path = prefix.empty() ? field.key : prefix + "." + field.key;
    const bool partial = is_partial || field.is_partial;
    if (field.kind == Field::Kind::mapping) {
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
        shown.default_text = "the datasheet's";
      }
      visit(path, form, shown);
    }
  }
}

json schema_of(const Field& field, bool is_partial);

json schema_of_fields(const Fields& fields, bool is_partial) {
  json schema = {{"type", "object"}, {"additionalProperties", false}, {"properties", json::object()}};
  for (const Field& field : fields) {
    schema["properties"][field.key] = schema_of(field, is_partial || field.is_partial);
    if (field.is_required && !is_partial) schema["required"].push_back(field.key);
  }
  return schema;
}

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
    case Field::Kind::mapping: schema = schema_of_fields(*field.members, is_partial); break;
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

/// A key, its facts, and what it means, as --help shows them.
std::string help_of(const std::string& path, const Field& field) {
  std::string facts = type_text(field);
  if (const std::string unit = unit_of_key(field.key); !unit.empty()) facts += ", " + unit;
  if (const std::string range = range_text(field); !range.empty()) facts += ", " + range;
  if (const std::string otherwise = default_text(field); !otherwise.empty())
    facts += field.is_required ? ", required" : ", default " + otherwise;
  return "  " + path + "  (" + facts + ")\n" + wrapped(field.doc, 6);
}

/// "a.b[].c" is under "a.b", and "a.b" under itself.
bool is_under(const std::string& path, const std::string& section) {
  return path.compare(0, section.size(), section) == 0 &&
         (path.size() == section.size() || path[section.size()] == '.' || path[section.size()] == '[');
}

std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\|");
  return text;
}

std::string table(const Fields& fields, const std::string& prefix, bool is_partial) {
  std::string page = "| key | type | unit | accepted | default | meaning |\n| --- | --- | --- | --- | --- | --- |\n";
  for_each_leaf(fields, prefix, is_partial, [&](const std::string& path, const std::string&, const Field& field) {
    const std::string source = field.source.empty() ? "" : " (source: " + field.source + ")";
    page += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", path, cell(type_text(field)), unit_of_key(field.key),
                        range_text(field), default_text(field), cell(field.doc + source));
  });
  return page;
}

const char* const kPageHead = R"(# Scenario reference

<!-- Generated from the parameter table by scenario_reference; edit sc_main/scenario/parameters.cpp and datasheets.cpp. -->

A scenario is one YAML file. Every key is optional unless it is marked *required*; a unit is part of the key's name, and
`gb_per_s` is 1e9 bytes per second in one direction. A path in a scenario is relative to the scenario's folder.
`--set a.b.c=VALUE` on the command line sets or replaces any key (`a.0.b` indexes a list) and passes the same checks; a path given
there is relative to the current directory.
Schema version 1; a JSON Schema for editors is `scenarios/scenario.schema.json`.

## Smallest scenario

```yaml
model: {config: models/llama-3.1-8b.json}
workload:
  kind: disaggregated_prefill
  requests: {prompt_tokens: 1024}
  prefill: {tp: 4, pp: 2}
```

## Keys

`workload.kind` says which of the workload's keys there are; they follow kind by kind. `workload.requests` takes one of three forms: equal requests (`count`, `prompt_tokens`), a `list`, or a trace (`format`, `file`).
`machine.groups` maps names to groups of servers: disaggregated_prefill runs on `prefill` and `decode`.

)";

const char* const kOverridesHead = R"(
## What-if: machine.overrides

`machine.overrides` changes any value of the datasheets in use, by role, for example
`overrides: {plx_uplink: {gb_per_s: 60, latency_ns: 110}}`. The rate of a PCIe link follows from the generation of its two ends
and that of a cable from NIC and switch, unless it is given here; `gpu` applies to every group. Datasheet files use the same keys.

)";

/// The scenario's keys but for machine.overrides, which has a list of its own.
Fields without_overrides() {
  Fields fields = scenario_table().fields();
  for (Field& section : fields) {
    if (section.key != "machine") continue;
    Fields members = *section.members;
    members.erase(std::remove_if(members.begin(), members.end(), [](const Field& f) { return f.is_partial; }),
                  members.end());
    section.members = std::make_shared<const Fields>(std::move(members));
  }
  return fields;
}

std::string datasheet_list() {
  std::string page =
      "\n## Shipped datasheets\n\nA value with a `/` or ending in `.yaml` names a file of your own instead.\n\n";
  for (const char* folder : {"boards", "gpus", "nics", "network_switches", "pcie_switches"}) {
    page += fmt::format("- {}: {}\n", folder, joined(shipped_datasheets(folder)));
  }
  return page;
}

}  // namespace

json scenario_schema() {
  json schema = schema_of_fields(scenario_table().fields(), false);
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["title"] = "Railyard scenario, schema version 1";
  return schema;
}

std::vector<std::string> parameter_sections() {
  std::vector<std::string> sections;
  for (const Field& field : scenario_table().fields()) {
    if (field.kind == Field::Kind::forms) {
      for (const std::string& word : field.choices) sections.push_back(word);
    } else if (field.kind == Field::Kind::mapping || field.kind == Field::Kind::list) {
      sections.push_back(field.key);
    }
  }
  sections.push_back(kOverrides);
  return sections;
}

std::string parameter_help(const std::string& section) {
  std::string text, form_so_far;
  const auto show = [&](const std::string& path, const std::string& form, const Field& field) {
    if (!section.empty() && section != form && !is_under(path, section)) return;
    if (form != form_so_far && !form.empty()) text += "\n  with workload.kind: " + form + "\n";
    form_so_far = form;
    text += help_of(path, field);
  };
  for_each_leaf(without_overrides(), "", false, show);
  if (section.empty()) {
    text += std::string("\nWhat-if on any datasheet value, by role (units and ranges: --help ") + kOverrides + ")\n";
    for (const Field& role : override_fields()) {
      std::vector<std::string> keys;
      for_each_leaf(*role.members, "", true,
                    [&](const std::string& path, const std::string&, const Field&) { keys.push_back(path); });
      text += fmt::format("  {}.{}  ({})\n", kOverrides, role.key, role.doc) + wrapped(joined(keys), 6);
    }
  } else {
    for_each_leaf(override_fields(), kOverrides, true, show);
  }
  if (text.empty())
    throw InputError(Origin{"--help " + printable(section, kPageWidth), 0, 0},
                     "no such section" + suggestion(section, parameter_sections()));
  return text;
}

std::string parameter_reference_markdown() {
  return kPageHead + table(without_overrides(), "", false) + kOverridesHead + table(override_fields(), "", true) +
         datasheet_list();
}

}  // namespace railyard
