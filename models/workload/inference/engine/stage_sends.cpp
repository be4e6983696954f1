#include "workload/inference/engine/stage_sends.h"

#include <algorithm>

namespace railyard::workload::inference {

void StageSends::begun(std::uint32_t t, Time kernels) {
  ranks_[t].has_begun = true;
  ranks_[t].not_before = fabric_.now() + kernels;
}

void StageSends::left(std::uint32_t t, bool sends) {
  ++ranks_[t].passes;
  ranks_[t].has_begun = false;
  if (sends) {
    begins(fabric_.now());
    ++under_way_;
  }
  const auto least =
      std::min_element(ranks_.begin(), ranks_.end(), [](const Rank& a, const Rank& b) { return a.passes < b.passes; });
  for (; first_ < least->passes; ++first_) kernels_.pop_front();
}

Time StageSends::next() {
  const Time now = fabric_.now();
  if (under_way_ != 0) return now;
  Time from = Time::max();
  for (const Rank& rank : ranks_) {
    const std::uint64_t next = rank.passes - first_;
    from = sooner(from, rank.has_begun ? rank.not_before : now + (next < kernels_.size() ? kernels_[next] : least_));
  }
  return from;
}

}  // namespace railyard::workload::inference
