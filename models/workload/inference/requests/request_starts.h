// When generated requests, or sessions of them, start: all at once, by an arrival process, or one when another one has ended. Plain
// C++; no SystemC.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "workload/inference/requests/request_arrivals.h"

namespace railyard::workload::inference {

struct StartsSpec {
  std::optional<std::uint32_t> count;  ///< of requests, or of sessions; none: until the end of the last stage
  ArrivalProcess arrivals = ArrivalProcess::at_once;
  std::vector<RateStage>
      stages;                   ///< of poisson, gamma and constant: at least one; with a count, the last one has no end
  double burstiness_ratio = 1;  ///< of gamma
  std::uint32_t concurrency = 1;  ///< of closed_loop
};

class RequestStarts {
 public:
  /// @pre spec.count, or an arrival process with stages
  RequestStarts(const StartsSpec& spec, std::uint64_t seed);

  struct Start {
    Time at;                             ///< not before the start that was drawn before
    std::optional<std::uint32_t> after;  ///< the request whose end made room
  };
  std::uint32_t count() const { return count_; }
  std::uint32_t drawn() const { return drawn_; }
  /// Whether there is a next start, and its instant is known.
  bool can_draw() const;
  Start draw();
  /// One that has started has ended with this request. @return whether another one starts for it
  bool ended(std::uint32_t request, Time now);

 private:
  ArrivalProcess process_;
  RequestArrivals arrivals_;
  std::uint32_t count_ = 0, drawn_ = 0;
  std::deque<Start> room_;  ///< of closed_loop: for starts that are not drawn yet
};

}  // namespace railyard::workload::inference
