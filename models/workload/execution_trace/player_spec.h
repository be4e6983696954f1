// The specification of kind `trace`.
#pragma once

#include <memory>

#include "base/data_type.h"
#include "workload/execution_trace/order.h"

namespace railyard::workload::execution_trace {

struct TraceSpec {
  std::shared_ptr<const Trace> trace;
  std::shared_ptr<const Order> order;
  DataType dtype = DataType::bf16;  ///< of compute nodes by roofline
};

}  // namespace railyard::workload::execution_trace
