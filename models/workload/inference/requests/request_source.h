// Where requests come from: a list, a trace or a generator. A service takes requests one by one, in the order of their
// arrival, and reports each request that is done. So a source never holds all its requests, and the next arrival may
// depend on an answer (closed loops, users who read an answer before they ask again).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "workload/inference/requests/request.h"

namespace railyard::workload::inference {

class RequestSource {
 public:
  virtual ~RequestSource() = default;

  struct Arrival {
    Request request;
    RequestContent content;
    std::optional<std::uint32_t> after;  ///< it arrives now because this request is done, now or a fixed time ago
  };

  /// Arrival of the next request that is known; none if there are no more requests, or if the next one waits for an
  /// answer. After done(), the next request may arrive earlier.
  virtual std::optional<Time> next_arrival() = 0;
  /// Takes that request. Requests are numbered from 0 in the order in which they are taken. @pre next_arrival()
  virtual Arrival take() = 0;
  /// The client has the last token of a request. @param now  not before its arrival
  /// @return the number of arrivals that will name the request as their cause
  virtual std::uint32_t done(std::uint32_t request, Time now) = 0;
  /// Whether an arrival can depend on an answer. If not, next_arrival() stays as it is until it is taken.
  virtual bool follows_answers() const = 0;
  /// Whether requests can still come from outside of the run. Then the next one can arrive at any instant from now on, and nothing
  /// that may happen before it is certain.
  virtual bool is_open() const { return false; }
  /// Number of requests that the source will have produced at its end; while is_open(), more than have come.
  virtual std::uint32_t count() const = 0;
};

/// Makes a source that starts at its first request.
using RequestSourceMaker = std::function<std::unique_ptr<RequestSource>()>;

}  // namespace railyard::workload::inference
