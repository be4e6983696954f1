// The service behind a simulation of workload.kind: serving or disaggregated_prefill.
#pragma once

#include "sc_main/kinds/serving_run.h"
#include "sc_main/simulation.h"

namespace railyard::test {

inline workload::inference::Service& service_of(railyard::Simulation& simulation) {
  return static_cast<ServingRun&>(simulation.workload()).service();
}

}  // namespace railyard::test
