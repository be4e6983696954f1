// The list of kinds, in the order of --help, schema and reference page.
#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/load.h"

namespace railyard::scenario {

Kind disaggregated_prefill_kind();
Kind serving_kind();
Kind training_kind();
Kind collective_kind();
Kind point_to_point_kind();
Kind kernel_kind();
Kind layer_kind();
Kind overlap_kind();

const std::vector<Kind>& workload_kinds() {
  static const std::vector<Kind> kinds{disaggregated_prefill_kind(), serving_kind(), training_kind(), collective_kind(),
                                       point_to_point_kind(),        kernel_kind(),  layer_kind(),    overlap_kind()};
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

void refuse_workload(const Source& source, const std::string& key, const std::string& what) {
  throw InputError(place_of(source.root, "workload." + key), "workload." + key + ": " + what);
}

}  // namespace railyard::scenario

namespace railyard {

const char* workload_kind(const std::type_info& spec) {
  for (const scenario::Kind& kind : scenario::workload_kinds())
    if (*kind.spec == spec) return kind.name;
  return "";
}

}  // namespace railyard
