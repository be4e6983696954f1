// Listens to requests: the phase of each request, and the KV cache that is promised to admitted requests. A listener decides
// nothing.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace railyard::workload {

/// What a request does, or waits for, in this order; a request that has nothing to decode is done after its handoff.
enum class RequestPhase : std::uint8_t {
  host,           ///< from its arrival: the API server
  queued,         ///< for memory, then for those before it
  prefill,        ///< from its first kernel
  handoff,        ///< from its first token, until its KV has landed
  decode_queued,  ///< for a place in the batch
  decode,
  done,
};

class RequestListener {
 public:
  virtual void on_phase(std::uint32_t request, RequestPhase phase, Time now) = 0;
  /// KV bytes promised on each rank of a pipeline stage of that group of GPUs.
  virtual void on_kv_promised(const std::string& group, std::uint32_t stage, Bytes bytes, Time now) = 0;

 protected:
  ~RequestListener() = default;
};

}  // namespace railyard::workload
