#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/list.h"
#include "sc_main/scenario/load.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

#define RAILYARD_LINE(name) Kind name##_kind();
RAILYARD_KINDS(RAILYARD_LINE, RAILYARD_LINE)
#undef RAILYARD_LINE

const std::vector<Kind>& workload_kinds() {
#define RAILYARD_LINE(name) name##_kind(),
  static const std::vector<Kind> kinds{RAILYARD_KINDS(RAILYARD_LINE, RAILYARD_LINE)};
#undef RAILYARD_LINE
  return kinds;
}

std::vector<Form<WorkloadSection>> workload_forms() {
  std::vector<Form<WorkloadSection>> forms;
  for (const Kind& kind : workload_kinds()) {
    forms.push_back({kind.name, kind.fields, [&kind](WorkloadSection& workload) {
                       workload.kind = &kind;
                       workload.section = kind.section();
                       return workload.section.get();
                     }});
  }
  return forms;
}

std::string no_tensor_rate(const gpu::GpuDatasheet& gpu, DataType type) {
  std::vector<std::string> accepted;
  for (std::size_t t = 0; t < kDataTypes; ++t)
    if (gpu.sm.flop_per_clock[t] > 0) accepted.emplace_back(kDataTypeNames[t]);
  return gpu.name + " has no tensor rate for " + std::string(name_of(type)) + "; accepted: " + joined(accepted);
}

void refuse_workload(const Source& source, const std::string& key, const std::string& what) {
  throw InputError(place_of(source.root, "workload." + key), "workload." + key + ": " + what);
}

}  // namespace railyard::scenario

namespace railyard {

const char* workload_kind(const std::type_info& spec) {
  for (const scenario::Kind& kind : scenario::workload_kinds())
    if (*kind.spec == spec && *kind.preset_of == 0) return kind.name;
  return "";
}

}  // namespace railyard
