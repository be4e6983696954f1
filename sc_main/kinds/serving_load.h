// What the load of a serving run is worth: rates in the middle of the run, and whether requests in the system became more and more
// while they arrived.
//
// The middle is the second and third quarter of the run, from the first arrival to the last token, in whole bins. Neither the start,
// when few requests are in the system, nor the end, when no more arrive, is part of it.
//
// Growth is that of the requests between arrival and last token, in the second half of the arrivals' time. A run is said to grow if
// the mean of the increments in kBatches equal intervals is above zero by Student's t at 1 %. Numbers of requests at two instants
// depend on each other, but their increments pass the test rarely unless there is a drift: if the number of requests is a random
// walk without drift, the test errs in 1 % of the runs; if it returns to a mean, later increments undo earlier ones, and it errs
// less often. So a run with too few arrivals to tell is not said to grow. Overload at a rate L with a capacity C shows as L - C.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"

namespace railyard {

/// Work that clients have received.
struct ServedWork {
  std::uint64_t requests = 0;       ///< with their last token
  std::uint64_t prompt_tokens = 0;  ///< of prompts, with the first token of the answer
  std::uint64_t output_tokens = 0;

  ServedWork& operator+=(const ServedWork& more);
};

/// Work in equal bins of time, of which there are at most kBins: when an event is later, pairs of bins become one.
class WorkBins {
 public:
  void add(Time when, const ServedWork& work);
  struct Span {
    double seconds = 0;
    ServedWork work;
  };
  /// The bins that are nearest to this span; none, if there is no whole one.
  Span between(Time from, Time to) const;

 private:
  static constexpr std::size_t kBins = 8192;
  Time width_ = Time::ns(1);
  std::vector<ServedWork> bins_;
};

/// A request's arrival, and its last token.
using RequestSpan = std::pair<Time, Time>;

struct LoadGrowth {
  double per_s = 0;        ///< requests
  double error_per_s = 0;  ///< standard error
  bool is_certain = false;
};

/// None if all requests arrive at one instant.
std::optional<LoadGrowth> load_growth(const std::vector<RequestSpan>& spans);

}  // namespace railyard
