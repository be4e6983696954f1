// Arrivals at a given rate, which do not depend on answers.
//
// Intervals are drawn with mean 1, in a time that advances at the rate of the requests. The stages convert this time to
// seconds. So an interval can begin in one stage and end in the next. For Poisson arrivals this is exactly a Poisson
// process in each stage.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "base/units.h"

namespace railyard::workload::inference {

enum class ArrivalProcess {
  at_once,      ///< all at time zero
  poisson,      ///< exponential intervals
  gamma,        ///< gamma-distributed intervals
  constant,     ///< equal intervals
  closed_loop,  ///< a fixed number of requests in flight: the next one arrives when one is done
};

struct RateStage {
  double rate_per_s = 1;
  Time duration = Time::max();
};

class RequestArrivals {
 public:
  /// @param process           poisson, gamma or constant
  /// @param stages            at least one
  /// @param burstiness_ratio  of gamma: the shape, as --burstiness of vLLM's benchmarks/benchmark_serving.py. The
  ///                          intervals' standard deviation / mean is 1/sqrt(burstiness_ratio), so 1 is Poisson
  /// @param ends              there are no arrivals after the last stage; otherwise the last stage has no end
  RequestArrivals(ArrivalProcess process, const std::vector<RateStage>& stages, double burstiness_ratio, bool ends,
                  Random random);

  /// The next arrival, not before the previous one; none after the end. The first arrival comes after one interval.
  std::optional<Time> next();

 private:
  double interval();

  struct Stage {
    Time start;
    std::uint64_t position, end;
    double rate_per_s;
  };

  ArrivalProcess process_;
  double burstiness_ratio_;
  bool ends_;
  Random random_;
  std::vector<Stage> stages_;
  std::size_t stage_ = 0;
  std::uint64_t position_ = 0;  ///< sum of the intervals; an integer, so that the sum does not depend on rounding
};

}  // namespace railyard::workload::inference
