// Text generated from the parameter table: --help, JSON Schema and reference page.
#include <algorithm>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/load.h"
#include "sc_main/scenario/parameters.h"
#include "sc_main/scenario/table/render.h"
#include "sc_main/scenario/table/words.h"

namespace railyard {

using namespace scenario;
using nlohmann::json;

namespace {

const char* const kOverrides = "machine.overrides";

/// "a.b[].c" is under "a.b"; "a.b" is under itself.
bool is_under(const std::string& path, const std::string& section) {
  return path.compare(0, section.size(), section) == 0 &&
         (path.size() == section.size() || path[section.size()] == '.' || path[section.size()] == '[');
}

const char* const kPageHead = R"(# Scenario reference

<!-- Generated from the parameter table by scenario_reference; edit the tables in sc_main/scenario. -->

A scenario is one YAML file. A key is optional unless it is marked *required*. The unit is part of the name of a key; `gb_per_s` is
1e9 bytes per second in one direction. A path in a scenario is relative to the folder of the scenario. `--set a.b.c=VALUE` on the
command line sets or replaces any key (`a.0.b` is key b of item 0 of list a) with the same checks; a path in `--set` is relative to the
current directory. This is schema version 1. A JSON Schema for editors is `scenarios/scenario.schema.json`.

## Smallest scenario

```yaml
model: {config: models/llama-3.1-8b.json}
workload:
  kind: disaggregated_prefill
  requests: {prompt_tokens: 1024}
  prefill: {tp: 4, pp: 2}
```

## Keys

The keys of `workload` depend on `workload.kind`; the table lists them kind by kind. `workload.requests` has one of three forms: equal
requests (`count`, `prompt_tokens`), a `list`, or a trace (`format`, `file`). `machine.groups` maps names to groups of servers:
disaggregated_prefill runs on the groups `prefill` and `decode`.

)";

const char* const kOverridesHead = R"(
## What-if: machine.overrides

`machine.overrides` changes values of the datasheets in use, by role, for example
`overrides: {plx_uplink: {gb_per_s: 60, latency_ns: 110}}`. Without an override, the rate of a PCIe link follows from the generation
of its two ends, and the rate of a cable from NIC and switch. `gpu` applies to every group. Datasheet files have the same keys.

)";

/// The scenario's keys except machine.overrides, which has a separate list.
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
      "\n## Shipped datasheets\n\nA value that contains `/` or ends in `.yaml` is the path of your own file.\n\n";
  for (const char* folder : {"boards", "pcie_boards", "gpus", "kernels", "nics", "network_switches", "pcie_switches",
                             "engines", "connectors"}) {
    page += fmt::format("- {}: {}\n", folder, joined(shipped_datasheets(folder)));
  }
  return page;
}

}  // namespace

std::string scenario_schema() {
  json schema = schema_of_fields(scenario_table().fields(), false);
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  schema["title"] = "Railyard scenario, schema version 1";
  return schema.dump(2) + "\n";
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
    text += std::string("\nOverrides of datasheet values, by role (units and ranges: --help ") + kOverrides + ")\n";
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
  return kPageHead + table_of(without_overrides(), "", false) + kOverridesHead + table_of(override_fields(), "", true) +
         datasheet_list();
}

}  // namespace railyard
