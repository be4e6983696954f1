#include "workload/training/run/rank_account.h"

#include <algorithm>

namespace railyard::workload::training {

void RankAccount::transferred(TrafficClass traffic, Time begun, Time now, std::uint32_t tag) {
  transfers_[number(traffic)].add(now - begun);
  beside_.push_back({begun, now, traffic, tag});
  if (tag == kNoTag) return;
  if (tagged_.size() <= tag) tagged_.resize(tag + 1);
  tagged_[tag].transfers.add(now - begun);
}

void RankAccount::begin(Time now, std::uint32_t waited_for) {
  if (now > last_end_) divide_wait(now, waited_for);
  beside_.clear();
  launches_.clear();
  begun_ = last_end_ = now;
}

void RankAccount::divide_wait(Time now, std::uint32_t waited_for) {
  // Cut the wait at every instant at which a transfer or a launch began or ended. Each piece has one cause.
  std::vector<Time> cuts{last_end_, now};
  const auto add = [&](Time t) {
    if (t > last_end_ && t < now) cuts.push_back(t);
  };
  for (const auto* list : {&beside_, &launches_})
    for (const Interval& i : *list) {
      add(i.begun);
      add(i.ended);
    }
  if (launching_since_) add(*launching_since_);
  std::sort(cuts.begin(), cuts.end());
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    const Time from = cuts[c], to = cuts[c + 1];
    const auto covers = [&](const Interval& i) { return i.begun <= from && i.ended >= to; };
    const bool launches =
        (launching_since_ && *launching_since_ <= from) || std::any_of(launches_.begin(), launches_.end(), covers);
    TimeSum* part = launches ? &host_ : &bubble_;
    for (const Interval& i : beside_) {
      if ((waited_for & bit(i.traffic)) == 0 || !covers(i)) continue;
      part = &exposed_[number(i.traffic)];
      if (i.tag != kNoTag) tagged_[i.tag].exposed.add(to - from);
      break;
    }
    part->add(to - from);
  }
}

void RankAccount::end_kernel(Time now, Busy busy) {
  (busy == Busy::kernel ? kernels_ : optimizer_).add(now - begun_);
  last_end_ = now;
}

void RankAccount::end_collective(Time now, TrafficClass traffic, Time entered, bool across_stages) {
  const Time waited = across_stages ? since(sooner(entered, now), begun_) : Time();
  bubble_.add(waited);
  exposed_[number(traffic)].add(now - begun_ - waited);
  transfers_[number(traffic)].add(now - begun_ - waited);
  last_end_ = now;
}

TimeSum RankAccount::counted() const {
  TimeSum sum = kernels_;
  for (const TimeSum* part : {&optimizer_, &host_, &bubble_}) sum.add(*part);
  for (const TimeSum& part : exposed_) sum.add(part);
  return sum;
}

}  // namespace railyard::workload::training
