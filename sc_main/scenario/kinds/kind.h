// The room `kinds` has a file for each kind of workload: a section as written, its table of keys, and resolve(), which
// checks it against model and machine and returns the workload's spec. What several kinds have in common is in files of
// its own: requests.h, mapping.h, precision.h, routing.h, scheduler.h. list.h names all kinds; the loader calls them
// through Kind.
//
// A kind of workload in the loader: the word of workload.kind, its table of keys, and the conversion to a spec. Each
// kind is a file of this folder with a function NAME_kind(), and a name in list.h.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include "platforms/machine_spec.h"
#include "sc_main/scenario/instance_event.h"
#include "sc_main/scenario/model/config.h"
#include "sc_main/scenario/model/profile.h"
#include "sc_main/scenario/table/record.h"
#include "transformer/model_shape.h"
#include "transport/study/fidelity.h"

namespace railyard::scenario {

/// The environment of a workload.
struct Setting {
  const transformer::ModelShape& model;  ///< only for kinds that run a model; otherwise without a name
  platforms::MachineSpec& machine;
  const ComputeSection& compute;
  const Source& source;
  ServedModel served;
  const std::vector<InstanceEvent>& instance_events;
};

struct Kind {
  const char* name = "";
  const std::type_info* spec = nullptr;  ///< type of the spec that resolve() returns
  const char* preset_of = "";            ///< the kind that runs it, whose spec resolve() returns; "": itself
  std::vector<std::string> groups;       ///< groups of the machine on which the workload runs; none: any groups
  bool runs_model = false;
  transport::Fidelity fidelity = transport::Fidelity::train;  ///< default of fabric.fidelity
  bool gpus_alone = false;  ///< uses nothing of the machine but its GPUs, each alone, so any board will do
  Fields fields;
  std::function<std::shared_ptr<void>()> section;  ///< creates a section that the fields fill
  /// Converts the section to a spec. @throws InputError
  std::function<std::any(const void* section, const Setting& setting)> resolve;
};

template <class Section, class Spec>
Kind kind_of(const char* name, const Record<Section>& table, Spec (*resolve)(const Section&, const Setting&)) {
  Kind kind;
  kind.name = name;
  kind.spec = &typeid(Spec);
  kind.fields = table.fields();
  kind.section = [] { return std::make_shared<Section>(); };
  kind.resolve = [resolve](const void* section, const Setting& setting) -> std::any {
    return resolve(*static_cast<const Section*>(section), setting);
  };
  return kind;
}

const std::vector<Kind>& workload_kinds();

/// `workload:` as written.
struct WorkloadSection {
  const Kind* kind = nullptr;
  std::shared_ptr<void> section;  ///< section of the kind
};
std::vector<Form<WorkloadSection>> workload_forms();

/// "L40S has no tensor rate for fp4; accepted: fp16, bf16", for an error.
std::string no_tensor_rate(const gpu::GpuDatasheet& gpu, DataType type);

/// @throws InputError at workload.`key`
[[noreturn]] void refuse_workload(const Source& source, const std::string& key, const std::string& what);

}  // namespace railyard::scenario
