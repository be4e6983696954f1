#include "transport/fluid/rates.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace railyard::transport {

namespace {

/// Offers closer than this count as equal. The difference is far below the effect of a port's rounding to femtoseconds.
constexpr double kSame = 1e-9;
/// Acks of both directions influence each other with a gain of at most a tenth; no port needs more rounds than this.
constexpr std::size_t kMostRounds = 200;
/// By turns, some sets of streams have no rates at which all ports agree, and their offers would go up and down for ever.
/// After so many rounds, offers only fall; then no port is overbooked.
constexpr std::size_t kRoundsOfBoth = 15;
constexpr std::uint32_t kOwnQueue = 1u << 31;  ///< with a stream's number: no number of an input port
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

bool same(double a, double b) { return a == b || std::abs(a - b) <= kSame * std::min(a, b); }

std::tuple<std::uint8_t, std::uint32_t, std::uint32_t> order(const FluidPort::Member& m) {
  const FluidCrossing& c = (*m.flow->crossings)[m.crossing];
  return {c.vc, c.requester, m.flow->number};
}
bool before(const FluidPort::Member& a, const FluidPort::Member& b) { return order(a) < order(b); }

/// The rate that the rest of a flow's path allows at one of its crossings.
double elsewhere(const FluidFlow& flow, const FluidFlow::Share& share, std::uint32_t crossing) {
  return std::min(flow.demand, crossing == share.narrowest ? share.second : share.least);
}

}  // namespace

void FluidFlow::Share::find_narrowest() {
  narrowest = 0;
  least = offers[0];
  second = kUnbounded;
  for (std::uint32_t c = 1; c < offers.size(); ++c) {
    if (offers[c] < least) {
      second = least;
      least = offers[c];
      narrowest = c;
    } else {
      second = std::min(second, offers[c]);
    }
  }
}

FluidIsland& FluidRates::whole(FluidIsland*& island) {
  while (island->part_of != nullptr) island = island->part_of;
  return *island;
}

FluidIsland& FluidRates::connect(const std::vector<FluidCrossing>& crossings) {
  FluidIsland* all = nullptr;
  for (const FluidCrossing& crossing : crossings)
    for (FluidPort* port : {crossing.port, crossing.port->reverse})
      if (all == nullptr && port->island != nullptr) all = &whole(port->island);
  if (all == nullptr) {
    all = &islands_.emplace_back();
    if (remembers_) all->memory.emplace();
  }
  for (const FluidCrossing& crossing : crossings) {
    for (FluidPort* port : {crossing.port, crossing.port->reverse}) {
      if (port->island == nullptr) {
        port->island = all;
      } else if (FluidIsland& island = whole(port->island); &island != all) {
        merge(island, *all);
      }
    }
  }
  return *all;
}

void FluidRates::merge(FluidIsland& part, FluidIsland& whole) {
  part.part_of = &whole;
  whole.joined += part.joined;
  for (const Rule rule : kRules) {
    auto &from = part.asked[static_cast<std::size_t>(rule)], &to = whole.asked[static_cast<std::size_t>(rule)];
    to.insert(to.end(), from.begin(), from.end());
    from.clear();
  }
  if (part.waits && !std::exchange(whole.waits, true)) waiting_.push_back(&whole);
  part.memory.reset();
  if (whole.memory) whole.memory->forget();
}

void FluidRates::forget() {
  for (FluidIsland& island : islands_)
    if (island.memory) island.memory->forget();
}

void FluidRates::forget(const std::vector<FluidCrossing>& crossings) {
  if (!remembers_) return;
  for (const FluidCrossing& crossing : crossings)
    if (crossing.port->island != nullptr) whole(crossing.port->island).memory->forget();
}

std::uint64_t FluidRates::found() const {
  std::uint64_t found = 0;
  for (const FluidIsland& island : islands_)
    if (island.memory) found += island.memory->found();
  return found;
}

void FluidRates::join(FluidFlow& flow, bool alone) {
  const std::vector<FluidCrossing>& crossings = *flow.crossings;
  FluidIsland& island = connect(crossings);
  flow.island = &island;
  if (island.memory) {
    if (island.joined == 0 && !island.waits) island.memory->at_rest();
    island.memory->joined(flow, alone);
  }
  ++island.joined;
  flow.joined = true;
  for (FluidFlow::Share& share : flow.shares) {
    share.rate = alone ? flow.demand : 0;
    share.offers.assign(crossings.size(), kUnbounded);
    share.least = share.second = kUnbounded;
    share.narrowest = 0;
  }
  for (std::uint32_t c = 0; c < crossings.size(); ++c) {
    FluidPort& port = *crossings[c].port;
    const FluidPort::Member member{&flow, c};
    port.members.insert(std::upper_bound(port.members.begin(), port.members.end(), member, before), member);
    if (alone) continue;
    for (const Rule rule : kRules) ask(port, rule);
  }
}

void FluidRates::leave(FluidFlow& flow) {
  FluidIsland& island = whole(flow.island);
  if (island.memory) island.memory->left(flow);
  --island.joined;
  flow.joined = false;
  for (FluidFlow::Share& share : flow.shares) share.rate = 0;
  for (const FluidCrossing& crossing : *flow.crossings) {
    FluidPort& port = *crossing.port;
    port.members.erase(
        std::find_if(port.members.begin(), port.members.end(), [&](const auto& m) { return m.flow == &flow; }));
    for (const Rule rule : kRules) {
      ask_if_shared(port, rule);
      if (crossing.owed != 0) ask_if_shared(*port.reverse, rule);
    }
  }
}

void FluidRates::take_demand(FluidFlow& flow, bool alone) {
  if (FluidIsland& island = whole(flow.island); island.memory) island.memory->took_demand(flow, alone);
  for (const Rule rule : kRules) {
    if (alone) {
      share_of(flow, rule).rate = flow.demand;
    } else {
      for (const FluidCrossing& crossing : *flow.crossings)
        if (crossing.port->members.size() > 1) ask(*crossing.port, rule);
      take_rate(flow, rule);
    }
  }
}

void FluidRates::ask(FluidPort& port, Rule rule) {
  bool& asked = port.asked[static_cast<std::size_t>(rule)];
  if (asked) return;
  asked = true;
  FluidIsland& island = whole(port.island);
  island.asked[static_cast<std::size_t>(rule)].push_back(&port);
  if (!std::exchange(island.waits, true)) waiting_.push_back(&island);
}

const std::vector<FluidFlow*>& FluidRates::solve() {
  for (FluidFlow* flow : changed_) flow->changed = false;
  changed_.clear();
  for (FluidIsland* island : waiting_) {
    if (island->part_of == nullptr) solve(*island);
    island->waits = false;
  }
  waiting_.clear();
  return changed_;
}

void FluidRates::solve(FluidIsland& island) {
  const auto others = static_cast<std::ptrdiff_t>(changed_.size());
  if (const RateMemory::Solution* known = island.memory ? island.memory->solve() : nullptr) {
    for (const Rule rule : kRules) clear(island, rule);
    known->restore();
    changed_.insert(changed_.end(), known->changed.begin(), known->changed.end());
    return;
  }
  for (const Rule rule : kRules) solve(island, rule);
  RateMemory::Solution solution;
  for (FluidFlow* flow : touched_) {
    flow->touched = false;
    if (island.memory) solution.add(*flow);
  }
  touched_.clear();
  if (!island.memory) return;
  solution.changed.assign(changed_.begin() + others, changed_.end());
  island.memory->keep(std::move(solution));
}

void FluidRates::solve(FluidIsland& island, Rule rule) {
  const auto number = static_cast<std::size_t>(rule);
  std::vector<FluidPort*>& asked = island.asked[number];
  std::size_t left = 0, rounds = 0;
  for (std::size_t next = 0; next < asked.size(); ++next) {
    if (next == left) {  // a round: all ports that were queued when it began
      left = asked.size();
      only_less_ = ++rounds > kRoundsOfBoth;
      if (next > kMostRounds * (left - next) + kMostRounds) break;
    }
    asked[next]->asked[number] = false;
    offer(*asked[next], rule);
  }
  clear(island, rule);
}

void FluidRates::clear(FluidIsland& island, Rule rule) {
  const auto number = static_cast<std::size_t>(rule);
  for (FluidPort* port : island.asked[number]) port->asked[number] = false;
  island.asked[number].clear();
}

void FluidRates::offer(FluidPort& port, Rule rule) {
  if (port.members.empty()) return;
  double line = port.line();
  if (port.limit != 0) line = std::min(line, port.limit);
  for (const FluidPort::Member& m : port.reverse->members)
    line -= share_of(*m.flow, rule).rate * (*m.flow->crossings)[m.crossing].owed;
  line = std::max(0.0, line);  // acks alone can fill a line that is much slower than the opposite direction

  const auto give = [&](const FluidPort::Member& m, double wire_offer) {
    FluidFlow& flow = *m.flow;
    const double last = share_of(flow, rule).offers[m.crossing];
    const double offered = wire_offer / (*flow.crossings)[m.crossing].wire;
    if (same(offered, last) || (only_less_ && offered > last)) return;
    if (rule == Rule::evenly) ask(port, Rule::by_turns);  // a change of the bottleneck here is possible
    accept(flow, m.crossing, offered, rule);
  };
  if (port.members.size() == 1) {
    const FluidPort::Member& only = port.members.front();
    give(only, std::min(line, (*only.flow->crossings)[only.crossing].window));
    return;
  }
  claims_.clear();
  for (const FluidPort::Member& m : port.members) {
    const FluidCrossing& crossing = (*m.flow->crossings)[m.crossing];
    const bool own = crossing.requester == FluidCrossing::kOwn;
    Claim& claim = claims_.emplace_back();
    claim.vc = crossing.vc;
    claim.requester = own ? kOwnQueue | m.flow->number : crossing.requester;
    claim.demand = elsewhere(*m.flow, share_of(*m.flow, rule), m.crossing) * crossing.wire;
    claim.window = crossing.window;
    claim.weight = crossing.weight;
    if (rule == Rule::evenly) continue;
    const FluidFlow::Share& even = share_of(*m.flow, Rule::evenly);
    if (even.rate < even.offers[m.crossing] && !same(even.rate, even.offers[m.crossing]))
      claim.granted = even.rate * crossing.wire;
  }
  shares_.share(claims_, plan_, line, rule);
  for (std::size_t i = 0; i < claims_.size(); ++i) give(port.members[i], claims_[i].offer);
}

void FluidRates::accept(FluidFlow& flow, std::uint32_t at, double offered, Rule rule) {
  const std::vector<FluidCrossing>& crossings = *flow.crossings;
  FluidFlow::Share& share = share_of(flow, rule);
  if (!std::exchange(flow.touched, true)) touched_.push_back(&flow);
  const double last = std::exchange(share.offers[at], offered);
  if (at != share.narrowest && last > share.second && offered > share.second) return;  // other crossings are narrower
  const std::uint32_t narrowest = share.narrowest;
  const double least = share.least, second = share.second;
  share.find_narrowest();
  for (std::uint32_t c = 0; c < crossings.size(); ++c) {
    const double before = std::min(flow.demand, c == narrowest ? second : least);
    // A port's offer to its only member does not depend on this member's rate elsewhere.
    if (before != elsewhere(flow, share, c) && crossings[c].port->members.size() > 1) ask(*crossings[c].port, rule);
  }
  take_rate(flow, rule);
}

void FluidRates::take_rate(FluidFlow& flow, Rule rule) {
  FluidFlow::Share& share = share_of(flow, rule);
  const double rate = std::min(flow.demand, share.least);
  if (same(rate, share.rate)) return;
  share.rate = rate;
  for (const FluidCrossing& crossing : *flow.crossings) {
    if (rule == Rule::evenly && crossing.port->members.size() > 1) ask(*crossing.port, Rule::by_turns);
    if (crossing.owed != 0) ask_if_shared(*crossing.port->reverse, rule);
  }
  if (rule == Rule::by_turns && !flow.changed) {
    flow.changed = true;
    changed_.push_back(&flow);
  }
}

}  // namespace railyard::transport
