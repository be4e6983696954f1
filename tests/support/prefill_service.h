// The service behind a simulation of workload.kind: disaggregated_prefill.
#pragma once

#include "sc_main/kinds/disaggregated_prefill.h"
#include "sc_main/simulation.h"

namespace railyard::test {

inline workload::inference::Service& prefill_service(railyard::Simulation& simulation) {
  return static_cast<DisaggregatedPrefill&>(simulation.workload()).service();
}

}  // namespace railyard::test
