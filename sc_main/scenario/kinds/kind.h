// A kind of workload as the loader sees it: the word of workload.kind, its table of keys, and what becomes of them. Each kind is a
// file of this folder, and an entry in the list of kinds (kinds.cpp).
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "platforms/machine_spec.h"
#include "sc_main/scenario/model/profile.h"
#include "sc_main/scenario/table/record.h"
#include "transformer/model_shape.h"

namespace railyard::scenario {

/// What a workload runs on.
struct Setting {
  const transformer::ModelShape& model;  ///< of kinds that run one; otherwise nameless
  platforms::MachineSpec& machine;
  const ComputeSection& compute;
  const Source& source;
};

struct Kind {
  const char* name = "";
  std::vector<std::string> groups;  ///< of the machine, that it runs on; none: any
  bool runs_model = false;
  Fields fields;
  std::function<std::shared_ptr<void>()> section;  ///< a new one, for the fields to fill
  /// The spec of the section. @throws InputError
  std::function<std::any(const void* section, const Setting& setting)> resolve;
};

template <class Section, class Spec>
Kind kind_of(const char* name, const Record<Section>& table, Spec (*resolve)(const Section&, const Setting&)) {
  Kind kind;
  kind.name = name;
  kind.fields = table.fields();
  kind.section = [] { return std::make_shared<Section>(); };
  kind.resolve = [resolve](const void* section, const Setting& setting) -> std::any {
    return resolve(*static_cast<const Section*>(section), setting);
  };
  return kind;
}

const std::vector<Kind>& workload_kinds();

/// `workload:` as it is written.
struct WorkloadSection {
  const Kind* kind = nullptr;
  std::shared_ptr<void> section;  ///< the kind's own
};
std::vector<Form<WorkloadSection>> workload_forms();

/// @throws InputError at workload.`key`
[[noreturn]] void refuse_workload(const Source& source, const std::string& key, const std::string& what);

}  // namespace railyard::scenario
