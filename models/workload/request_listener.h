// Listens to requests: the phase of each request, and the KV cache promised to admitted requests. A listener does not
// influence the run.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace railyard::workload {

/// Phases of a request, in this order. A request without decode tokens is done after its handoff.
enum class RequestPhase : std::uint8_t {
  host,           ///< from its arrival: processing in the API server
  queued,         ///< waits for memory, and for earlier requests
  prefill,        ///< from its first kernel
  handoff,        ///< from its first token to the arrival of its KV
  decode_queued,  ///< waits for a place in the batch
  decode,
  done,
};

class RequestListener {
 public:
  virtual void on_phase(std::uint32_t request, RequestPhase phase, Time now) = 0;
  /// KV bytes promised on each rank of a pipeline stage in this group of GPUs.
  virtual void on_kv_promised(const std::string& group, std::uint32_t stage, Bytes bytes, Time now) = 0;

 protected:
  ~RequestListener() = default;
};

}  // namespace railyard::workload
