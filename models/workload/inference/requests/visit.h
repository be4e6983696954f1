// A request's stay in a service is a list of visits: one instance computes all of it, or one its prompt and another its answer. If an
// instance fails, the request begins again, with visits of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "workload/inference/requests/request.h"

namespace railyard::workload::inference {

/// Instants from the start of the run.
struct Visit {
  static constexpr std::uint32_t kNowhere = ~0u;
  std::uint32_t instance = kNowhere;  ///< its id; kNowhere: not chosen
  RequestPart part = RequestPart::all;
  std::optional<Time> arrival;      ///< in the instance's queue; none of these: not yet
  std::optional<Time> kv_promised;  ///< it has memory for KV, or waits for batches that take it block by block
  std::optional<Time> begun;        ///< its first kernel; none: nothing is computed here
  std::optional<Time> first_token;  ///< the first token that this instance has computed is known
  std::optional<Time> kv_landed;    ///< of the part `answer`: all KV of the prompt is here
  std::optional<Time> done;         ///< it has left the instance's scheduler
};

}  // namespace railyard::workload::inference
