#include "workload/program/next_sends.h"

#include <algorithm>
#include <utility>

namespace railyard::workload {

NextSends::NextSends(std::string name, const transport::Fabric& fabric, const std::vector<Follows>& members)
    : Horizon(std::move(name)), fabric_(fabric) {
  for (const Follows& follows : members) members_.push_back({follows, {}, 0, 0});
}

void NextSends::begun(std::uint32_t member) {
  Member& m = members_[member];
  m.places.pop_front();
  ++m.begun;
  if (std::any_of(members_.begin(), members_.end(), [&](const Member& each) { return each.begun == begun_; })) return;
  ++begun_;
  begins(fabric_.now());
}

void NextSends::done(std::uint32_t member) {
  ++members_[member].done;
  if (std::all_of(members_.begin(), members_.end(), [&](const Member& each) { return each.done > done_; })) ++done_;
}

Time NextSends::next() {
  const Time now = fabric_.now();
  Time from = now;
  if (begun_ > done_) return from;
  for (const Member& m : members_) {
    if (m.begun > begun_) continue;
    if (!m.places.empty())
      from = later(from, m.follows.clock->reaches(m.places.front(), now));
    else if (m.follows.program)
      from = later(from, m.follows.clock->reaches(m.follows.clock->work(), now));
  }
  return from;
}

}  // namespace railyard::workload
