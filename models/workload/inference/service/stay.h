// The stay of a request in a service.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "workload/inference/engine/ttft_parts.h"
#include "workload/inference/requests/request.h"
#include "workload/inference/requests/visit.h"
#include "workload/inference/scheduler/scheduler.h"

namespace railyard::workload::inference {

/// A request from its arrival to its last token: its visits to instances, times and counts.
struct Stay {
  Request request;
  RequestTimes times;
  Scheduler::Counts counts;
  std::vector<Visit> visits;        ///< of one instance, or of one for the prompt and one for the answer
  Time kv_waited;                   ///< of the message of its KV that arrived last: time beyond that alone
  Time kv_staged;                   ///< of the same: time of the kernels before and after it
  TtftTimes ttft;                   ///< of a continuous scheduler: the parts add up to first_token - arrival
  std::optional<Time> first_begun;  ///< its first kernel
  // Of a request that instances have lost. Visits, and times at the first instance, are those of the last try.
  std::uint32_t restarts = 0;
  std::uint32_t resumed_tokens =
      0;                          ///< of the answer, that were known at the last restart: its prompt contains them now
  std::uint64_t lost_tokens = 0;  ///< whose KV was lost, over all tries
  std::uint64_t repeated_tokens = 0;           ///< of these, not found in the prefix index of the next instance
  std::uint64_t lost_last = 0;                 ///< in the try before this one, until its prompt is complete
  bool is_kv_lost = false;                     ///< that of the prompt, and nobody has asked for it yet
  bool in_prefill = false, in_decode = false;  ///< phases that count it

  /// What is left to compute: tokens of the answer that are known belong to the prompt.
  Request remaining() const {
    Request rest = request;
    rest.prompt_tokens += resumed_tokens;
    rest.output_tokens -= resumed_tokens;
    return rest;
  }

  /// The last one that computed a part.
  std::uint32_t instance() const { return (visits.back().begun ? visits.back() : visits.front()).instance; }
  /// It has memory for its prompt, or waits for batches that take it.
  Time admitted() const { return visits.front().kv_promised.value_or(Time()); }
  /// Of the first try.
  Time prefill_begun() const { return first_begun.value_or(Time()); }
  /// The first token is known where the prompt was computed.
  Time prefilled() const { return visits.front().first_token.value_or(Time()); }
  /// The KV of the prompt is where the answer is computed.
  Time kv_landed() const { return visits.size() > 1 ? visits.back().kv_landed.value_or(Time()) : prefilled(); }
  Time decode_begun() const { return visits.size() > 1 ? visits.back().begun.value_or(kv_landed()) : prefilled(); }
};

}  // namespace railyard::workload::inference
