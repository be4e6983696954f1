// The table of keys of a connector of KV (platforms/datasheets/connectors).
#pragma once

#include "sc_main/scenario/table/record.h"
#include "workload/inference/engine/serving_rules.h"

namespace railyard::scenario {

Record<workload::inference::KvConnector> connector_record();

}  // namespace railyard::scenario
