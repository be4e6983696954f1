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
  for (const Rank& rank : ranks_)
    from = sooner(from, rank.has_begun ? rank.not_before : now + next_of(rank.passes).all);
  return from;
}

Time StageSends::next_kv() const {
  const Time now = fabric_.now();
  Time from = Time::max();
  for (const Rank& rank : ranks_) {
    const Least& next = next_of(rank.passes);
    from = sooner(from, later(now, since(rank.has_begun ? rank.not_before : now + next.all, next.after_kv)));
  }
  return from;
}

const StageSends::Least& StageSends::next_of(std::uint64_t passes) const {
  const std::uint64_t next = passes - first_;
  return next < kernels_.size() ? kernels_[next] : least_;
}

}  // namespace railyard::workload::inference
