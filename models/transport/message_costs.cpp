#include "transport/message_costs.h"

#include <algorithm>
#include <limits>

namespace railyard::transport {

void MessageCosts::sent(const Message& message) {
  if (fabric_.context().losses == nullptr) return;
  const Path path = fabric_.path_of(message);
  if (!path.lanes.empty()) ways_[message.way()] = measured(message, path);
}

const MessageCosts::Way& MessageCosts::way(const Message& message) {
  const auto [found, is_new] = ways_.try_emplace(message.way());
  if (is_new) found->second = measured(message, fabric_.path_of(message));
  return found->second;
}

MessageCosts::Way MessageCosts::measured(const Message& message, const Path& path) {
  Way way;
  if (path.lanes.empty()) return way;
  Message one = message;
  one.bytes = 1;
  way.latency = fabric_.uncontended(one);
  // A lane carries its share of the bytes: the one with the least rate for its weight is the last to be done.
  struct Link {
    const PortCounters* port;
    double rate;
  };
  std::vector<Link> links;
  std::uint64_t weights = 0;
  for (const Lane& lane : path.lanes) {
    weights += lane.weight;
    for (const Hop& hop : lane.hops)
      links.push_back({&hop.device->port(hop.port).counters, static_cast<double>(hop.link().rate.bytes_per_second()) / lane.weight});
  }
  const auto slower = [](const Link& a, const Link& b) { return a.rate < b.rate; };
  const Link slowest = *std::min_element(links.begin(), links.end(), slower);
  const double limit = path.limit != Rate() ? static_cast<double>(path.limit.bytes_per_second()) / static_cast<double>(weights)
                                            : std::numeric_limits<double>::infinity();
  if (limit < slowest.rate) {
    way.hidden_ratio = limit / slowest.rate;
    return way;
  }
  way.slowest = slowest.port;
  way.hidden_ratio = slowest.rate / limit;
  const auto group = groups_.find(slowest.port);
  double elsewhere = limit;
  for (const Link& link : links) {
    const auto its = groups_.find(link.port);
    const bool same = link.port == slowest.port || (its != groups_.end() && group != groups_.end() && its->second == group->second);
    if (!same) elsewhere = std::min(elsewhere, link.rate);
  }
  way.hidden_elsewhere_ratio = slowest.rate / elsewhere;
  return way;
}

std::vector<Cost> MessageCosts::landed(const Message& message, Time now) {
  return costs(message, now - message.started, way(message).latency);
}

std::vector<Cost> MessageCosts::left(const Message& message, Time now) { return costs(message, now - message.started, Time()); }

std::vector<Cost> MessageCosts::costs(const Message& message, Time took, Time latency) {
  std::vector<Cost> costs;
  Time left = took;
  const auto take = [&](CostKind kind, const PortCounters* port, Time wanted, Time hidden = Time(), Time elsewhere = Time()) {
    const Time taken = sooner(wanted, left);
    left = left - taken;
    if (taken != Time()) costs.push_back({kind, message.traffic_class, port, taken, sooner(hidden, taken), sooner(elsewhere, taken)});
  };
  const Way& its = way(message);
  const Time body = since(message.uncontended, its.latency);
  const Time written = message.source_rate != Rate() ? message.source_rate.time_for(message.bytes) : Time();
  const auto part = [body](double ratio) { return Time::seconds(body.seconds() * ratio); };
  take(CostKind::latency, nullptr, latency);
  if (its.slowest != nullptr) {
    take(CostKind::wire, its.slowest, body, later(written, part(its.hidden_ratio)), later(written, part(its.hidden_elsewhere_ratio)));
  } else {
    take(CostKind::engine, nullptr, body, part(its.hidden_ratio));
  }
  take(CostKind::engine, nullptr, since(written, body));
  const Time queued = left;
  Time waited;
  for (const Message::Wait& wait : message.waits) waited += wait.time;
  for (const Message::Wait& wait : message.waits)
    if (wait.port != nullptr && wait.time != Time()) take(CostKind::queue, wait.port, share(queued, wait.time.fs(), waited.fs()));
  take(CostKind::queue, its.slowest, left);  // what nobody saw waiting: acks, rounding
  return costs;
}

}  // namespace railyard::transport
