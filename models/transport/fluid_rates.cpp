#include "transport/fluid_rates.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace railyard::transport {

namespace {

/// Offers closer than this are the same; far below what a port's rounding to femtoseconds could show in a message.
constexpr double kSame = 1e-9;
/// Acks of both directions answer each other with a gain of a tenth or less; no port needs to be asked more often than this.
constexpr std::size_t kMostRounds = 200;
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

bool same(double a, double b) { return a == b || std::abs(a - b) <= kSame * std::min(a, b); }

std::tuple<std::uint8_t, std::uint32_t, std::uint32_t> order(const FluidPort::Member& m) {
  const FluidCrossing& c = m.flow->way->crossings()[m.crossing];
  return {c.channel, c.requester, m.flow->number};
}
bool before(const FluidPort::Member& a, const FluidPort::Member& b) { return order(a) < order(b); }

/// What the rest of its way lets a flow use at one of its crossings.
double elsewhere(const FluidFlow& flow, std::uint32_t crossing) {
  double least = flow.demand;
  for (std::uint32_t c = 0; c < flow.offers.size(); ++c)
    if (c != crossing) least = std::min(least, flow.offers[c]);
  return least;
}

}  // namespace

void FluidRates::join(FluidFlow& flow, bool alone) {
  const std::vector<FluidCrossing>& crossings = flow.way->crossings();
  flow.joined = true;
  flow.rate = alone ? flow.demand : 0;
  flow.offers.assign(crossings.size(), kUnbounded);
  for (std::uint32_t c = 0; c < crossings.size(); ++c) {
    FluidPort& port = *crossings[c].port;
    const FluidPort::Member member{&flow, c};
    port.members.insert(std::upper_bound(port.members.begin(), port.members.end(), member, before), member);
    if (!alone) ask(port);
  }
}

void FluidRates::leave(FluidFlow& flow) {
  flow.joined = false;
  flow.rate = 0;
  for (const FluidCrossing& crossing : flow.way->crossings()) {
    FluidPort& port = *crossing.port;
    port.members.erase(std::find_if(port.members.begin(), port.members.end(), [&](const auto& m) { return m.flow == &flow; }));
    ask_if_shared(port);
    if (crossing.owed != 0) ask_if_shared(*port.reverse);
  }
}

void FluidRates::take_demand(FluidFlow& flow, bool alone) {
  if (alone) {
    flow.rate = flow.demand;
  } else {
    accept(flow, nullptr);
  }
}

void FluidRates::ask(FluidPort& port) {
  if (port.asked) return;
  port.asked = true;
  asked_.push_back(&port);
}

const std::vector<FluidFlow*>& FluidRates::solve() {
  for (FluidFlow* flow : changed_) flow->changed = false;
  changed_.clear();
  std::size_t left = 0;
  for (std::size_t next = 0; next < asked_.size(); ++next) {
    if (next == left) {  // a round: all that were waiting when it began
      left = asked_.size();
      if (next > kMostRounds * (left - next) + kMostRounds) break;
    }
    asked_[next]->asked = false;
    offer(*asked_[next]);
  }
  for (FluidPort* port : asked_) port->asked = false;
  asked_.clear();
  return changed_;
}

void FluidRates::offer(FluidPort& port) {
  if (port.members.empty()) return;
  double line = line_rate(port.link());
  if (port.limit != 0) line = std::min(line, port.limit);
  for (const FluidPort::Member& m : port.reverse->members) line -= m.flow->rate * m.flow->way->crossings()[m.crossing].owed;

  claims_.clear();
  for (const FluidPort::Member& m : port.members) {
    const FluidCrossing& crossing = m.flow->way->crossings()[m.crossing];
    const bool own = crossing.requester == FluidCrossing::kOwn;
    const std::uint32_t requester = own ? m.flow->number : crossing.requester;
    claims_.push_back({crossing.channel, requester, elsewhere(*m.flow, m.crossing) * crossing.wire, 0, crossing.window});
  }
  shares_.share(claims_, plan_, line);
  for (std::size_t i = 0; i < claims_.size(); ++i) {
    FluidFlow& flow = *port.members[i].flow;
    const std::uint32_t c = port.members[i].crossing;
    const double offered = claims_[i].offer / flow.way->crossings()[c].wire;
    if (same(offered, flow.offers[c])) continue;
    flow.offers[c] = offered;
    accept(flow, &port);
  }
}

void FluidRates::accept(FluidFlow& flow, const FluidPort* from) {
  const auto narrowest = std::min_element(flow.offers.begin(), flow.offers.end());
  flow.narrowest = static_cast<std::uint32_t>(narrowest - flow.offers.begin());
  const double rate = std::min(flow.demand, *narrowest);
  const bool moved = !same(rate, flow.rate);
  for (const FluidCrossing& crossing : flow.way->crossings()) {
    // A port's offer to its only member does not depend on what that could use elsewhere.
    if (crossing.port != from && crossing.port->members.size() > 1) ask(*crossing.port);
    if (moved && crossing.owed != 0) ask_if_shared(*crossing.port->reverse);
  }
  if (!moved) return;
  flow.rate = rate;
  if (!flow.changed) {
    flow.changed = true;
    changed_.push_back(&flow);
  }
}

}  // namespace railyard::transport
