// A request for inference, and what became of it. The instants of a request's tokens are kept until its last token and then go to
// whoever writes them, so that a long run holds those of requests under way only.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace railyard::workload::inference {

struct Request {
  Time arrival;  ///< from the start of the run
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 1;  ///< the first comes from prefill, the others from decode steps
};

/// Instants from the start of the run.
struct RequestTimes {
  Time queued;  ///< the host has taken the request in
  Time admitted, prefill_begun;
  Time prefilled;    ///< prefill has made the first token
  Time first_token;  ///< the client has it
  Time kv_landed, decode_begun;
  Time last_token;  ///< the client has it
  std::vector<Time>
      tokens;  ///< when the client has each token, the first from prefill; empty after the request is done
  bool admitted_yet = false, decoded = false, done = false;
};

class RequestSink {
 public:
  /// The request is done; its tokens are there for the last time.
  virtual void on_request_done(std::uint32_t request, const RequestTimes& times) = 0;

 protected:
  ~RequestSink() = default;
};

}  // namespace railyard::workload::inference
