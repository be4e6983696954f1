#include "workload/inference/requests/request_starts.h"

#include <algorithm>

namespace railyard::workload::inference {

namespace {

constexpr std::uint32_t kArrivals = 0;  // stream of random numbers

std::uint32_t counted(RequestArrivals arrivals) {
  std::uint32_t count = 0;
  while (arrivals.next()) ++count;
  return count;
}

}  // namespace

RequestStarts::RequestStarts(const StartsSpec& spec, std::uint64_t seed)
    : process_(spec.arrivals),
      arrivals_(spec.arrivals, spec.stages, spec.burstiness_ratio, !spec.count, Random(seed, kArrivals)),
      count_(spec.count ? *spec.count : counted(arrivals_)) {
  if (process_ == ArrivalProcess::closed_loop) room_.resize(std::min(spec.concurrency, count_));
}

bool RequestStarts::can_draw() const {
  return drawn_ < count_ && (process_ != ArrivalProcess::closed_loop || !room_.empty());
}

RequestStarts::Start RequestStarts::draw() {
  ++drawn_;
  if (process_ == ArrivalProcess::at_once) return {};
  if (process_ != ArrivalProcess::closed_loop) return {arrivals_.next().value_or(Time::max()), {}};
  const Start start = room_.front();
  room_.pop_front();
  return start;
}

bool RequestStarts::ended(std::uint32_t request, Time now) {
  if (process_ != ArrivalProcess::closed_loop) return false;
  room_.push_back({now, request});
  return drawn_ < count_;
}

}  // namespace railyard::workload::inference
