#include "workload/inference/requests/request_arrivals.h"

#include <algorithm>
#include <limits>

namespace railyard::workload::inference {

namespace {

/// Units of a position in one mean interval.
constexpr double kUnits = 1e9;
constexpr double kFsPerSecond = 1e15;

}  // namespace

RequestArrivals::RequestArrivals(ArrivalProcess process, const std::vector<RateStage>& stages, double burstiness_ratio,
                                 bool ends, Random random)
    : process_(process), burstiness_ratio_(burstiness_ratio), ends_(ends), random_(random) {
  Time start;
  std::uint64_t position = 0;
  for (const RateStage& stage : stages) {
    const std::uint64_t length = saturated(stage.duration.seconds() * stage.rate_per_s * kUnits);
    const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() - position;
    stages_.push_back({start, position, position + std::min(length, room), stage.rate_per_s});
    start += stage.duration;
    position = stages_.back().end;
  }
}

double RequestArrivals::interval() {
  switch (process_) {
    case ArrivalProcess::poisson: return random_.exponential();
    case ArrivalProcess::gamma: return random_.gamma(burstiness_ratio_) / burstiness_ratio_;
    default: return 1;
  }
}

std::optional<Time> RequestArrivals::next() {
  position_ += saturated(interval() * kUnits);
  while (stage_ + 1 < stages_.size() && position_ > stages_[stage_].end) ++stage_;
  const Stage& stage = stages_[stage_];
  if (ends_ && position_ > stage.end) return std::nullopt;
  const auto after = static_cast<double>(position_ - stage.position);
  return stage.start + Time::fs(saturated(after * (kFsPerSecond / kUnits) / stage.rate_per_s));
}

}  // namespace railyard::workload::inference
