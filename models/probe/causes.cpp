#include "probe/causes.h"

namespace railyard::probe {

namespace {

/// The costs of a piece for its last `time` of `whole`.
std::vector<transport::Cost> cut(std::vector<transport::Cost> costs, Time time, Time whole) {
  Time left = time, left_of_whole = whole;
  for (transport::Cost& cost : costs) {
    if (cost.time == Time()) continue;
    const Time part = share(left, cost.time.fs(), left_of_whole.fs());
    left_of_whole = left_of_whole - cost.time;
    left = left - part;
    cost.time = part;
  }
  return costs;
}

}  // namespace

CauseRef spliced(const CauseRef& last, Time at, const CauseRef& other) {
  CauseRef before = other;
  Time until = at;
  for (const Cause* piece : chain(last, at)) {
    const Time from = later(piece->from, at);
    if (from > until)
      before = CauseRef(
          new Cause{before, until, from, {{transport::CostKind::arrival, 0, nullptr, from - until, {}, {}}}, {}});
    std::vector<transport::Cost> costs =
        piece->from < at ? cut(piece->costs, piece->to - at, piece->to - piece->from) : piece->costs;
    before = CauseRef(
        new Cause{before, from, piece->to, std::move(costs), piece->name, piece->is_collective, piece->member});
    until = piece->to;
  }
  return before;
}

}  // namespace railyard::probe
