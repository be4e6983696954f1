// Metrics of one instance of a service: of the one that decodes, of the one that prefills, and of each of several.
#pragma once

#include "sc_main/kinds/serving_metrics.h"

namespace railyard {

/// Of the only instance that computes answers, and under `prefill` of the only one for prompts.
Metrics<ServingFigures> sole_instance_metrics();
/// By the names of several instances.
Metrics<ServingFigures> each_instance_metrics();

/// Of the periods before, during and after events, of those that have a request; nothing without events.
Value by_period(const ServingPeriods& periods, Value (*figure)(const ServingPeriods::Period&));
Value period_ttft_p99(const ServingPeriods::Period& period);
Value period_tpot_p99(const ServingPeriods::Period& period);

}  // namespace railyard
