// Which instances compute a request. A policy is a file beside this one.
#pragma once

#include <cstdint>
#include <optional>

#include "workload/inference/requests/request.h"

namespace railyard::workload::inference {

/// Ids of instances.
struct Route {
  std::uint32_t prompt = 0;             ///< and the answer, if there is no other instance for it
  std::optional<std::uint32_t> answer;  ///< takes the KV of the prompt
};

class Router {
 public:
  virtual ~Router() = default;
  /// A request has arrived.
  virtual Route route(const Request& request) = 0;
};

}  // namespace railyard::workload::inference
