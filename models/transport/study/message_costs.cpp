#include "transport/study/message_costs.h"

#include <algorithm>

#include "transport/device/shared_hops.h"

namespace railyard::transport {

namespace {

Time time_at(Bytes bytes, double bytes_per_second) {
  return Time::seconds(static_cast<double>(bytes) / bytes_per_second);
}

}  // namespace

const MessageCosts::PathCosts& MessageCosts::path_costs(const Message& message) {
  const auto [found, is_new] = paths_.try_emplace(message.path_key());
  if (is_new) found->second = measured(message, routes_.path_of(message));
  return found->second;
}

MessageCosts::PathCosts MessageCosts::measured(const Message& message, const Path& path) {
  PathCosts costs;
  if (path.lanes.empty()) return costs;
  Message one = message;
  one.bytes = 1;
  costs.latency = routes_.uncontended(one);
  const auto add = [&](const PortCounters* port, double bytes_per_second) {
    for (Link& link : costs.links) {
      if (link.port != port) continue;
      link.bytes_per_second = std::min(link.bytes_per_second, bytes_per_second);
      return;
    }
    const auto group = groups_.find(port);
    const auto number = numbers_.try_emplace(port, static_cast<std::uint32_t>(numbers_.size())).first->second;
    costs.links.push_back({port, group == groups_.end() ? kNoGroup : group->second, bytes_per_second, number});
  };
  // A lane carries its share of the bytes: the lane with the lowest rate for its weight finishes last.
  double weights = 0;
  for (const Lane& lane : path.lanes) weights += lane.weight;
  const Bytes train = routes_.transaction_bytes(path);
  for (const Lane& lane : path.lanes)
    for (const Hop& hop : lane.hops) {
      const PortCounters* const port = &hop.device->port(hop.port).counters;
      add(port, payload_rate(path, hop, train) * weights / static_cast<double>(weight_on(path, lane, hop)));
      if (costs.engine == nullptr || hop.answers_reads) costs.engine = port;
    }
  costs.engine_bytes_per_second =
      path.limit != Rate() && path.meter == nullptr ? static_cast<double>(path.limit.bytes_per_second()) : kUnlimited;
  if (path.meter != nullptr) add(&path.meter->counters, static_cast<double>(path.limit.bytes_per_second()));
  find_slowest(costs);
  return costs;
}

void MessageCosts::find_slowest(PathCosts& costs) {
  if (costs.links.empty()) return;
  const Link& slowest = *std::min_element(costs.links.begin(), costs.links.end(), [](const Link& a, const Link& b) {
    return a.bytes_per_second < b.bytes_per_second;
  });
  if (costs.engine_bytes_per_second < slowest.bytes_per_second) {
    costs.hidden_ratio = costs.engine_bytes_per_second / slowest.bytes_per_second;
    return;
  }
  costs.slowest = &slowest;
  costs.hidden_elsewhere_ratio = next_link_ratio(costs, slowest.port);
}

template <class Value>
std::vector<Time> MessageCosts::most_beside(const std::vector<Link>& links, const Value& value) const {
  std::vector<Time> most(group_count_), beside(group_count_);
  Time most_of_none;
  for (const Link& link : links) {
    Time& its = link.group == kNoGroup ? most_of_none : most[link.group];
    its = later(its, value(link));
  }
  for (std::size_t group = 0; group < group_count_; ++group) {
    beside[group] = most_of_none;
    for (std::size_t other = 0; other < group_count_; ++other)
      if (other != group) beside[group] = later(beside[group], most[other]);
  }
  return beside;
}

void MessageCosts::sent(const Message& message) {
  if (context_.losses == nullptr) return;
  const Path path = routes_.path_of(message);
  if (!path.lanes.empty()) paths_[message.path_key()] = measured(message, path);
}

std::vector<Cost> MessageCosts::landed(const Message& message, Time now) {
  return costs(message, now - message.started, path_costs(message).latency);
}

std::vector<Cost> MessageCosts::left(const Message& message, Time now) {
  return costs(message, now - message.started, Time());
}

double MessageCosts::next_link_ratio(const PathCosts& costs, const PortCounters* port) {
  const auto link = std::find_if(costs.links.begin(), costs.links.end(), [&](const Link& l) { return l.port == port; });
  if (link == costs.links.end()) return 0;
  double elsewhere = costs.engine_bytes_per_second;
  for (const Link& other : costs.links)
    if (other.port != port && (other.group == kNoGroup || other.group != link->group))
      elsewhere = std::min(elsewhere, other.bytes_per_second);
  return std::min(1.0, link->bytes_per_second / elsewhere);
}

std::vector<Cost> MessageCosts::costs(const Message& message, Time took, Time latency) {
  std::vector<Cost> costs;
  Time left = took;
  const auto take = [&](CostKind kind, const PortCounters* port, Time wanted, Time hidden = Time(),
                        Time elsewhere = Time()) {
    const Time taken = sooner(wanted, left);
    left = left - taken;
    if (taken != Time())
      costs.push_back({kind, message.traffic_class, port, taken, sooner(hidden, taken), sooner(elsewhere, taken)});
  };
  const PathCosts& its = path_costs(message);
  const Time body = since(message.uncontended, its.latency);
  const Time written = message.source_rate != Rate() ? message.source_rate.time_for(message.bytes) : Time();
  const auto part = [body](double ratio) { return Time::seconds(body.seconds() * ratio); };
  take(CostKind::latency, nullptr, latency);
  if (its.slowest != nullptr) {
    const Time next = later(written, part(its.hidden_elsewhere_ratio));
    take(CostKind::wire, its.slowest->port, body, next, next);
  } else {
    take(CostKind::engine, its.engine, body, part(its.hidden_ratio));
  }
  take(CostKind::engine, its.engine, since(written, body));
  const Time queued = left;
  Time waited;
  for (const Message::Wait& wait : message.waits) waited += wait.time;
  for (const Message::Wait& wait : message.waits) {
    if (wait.port == nullptr || wait.time == Time()) continue;
    const Time queue = share(queued, wait.time.fs(), waited.fs());
    take(CostKind::queue, wait.port, queue, Time(), Time::seconds(queue.seconds() * next_link_ratio(its, wait.port)));
  }
  take(CostKind::queue, its.slowest != nullptr ? its.slowest->port : nullptr,
       left);  // no recorded wait: acks, rounding
  return costs;
}

void MessageCosts::add(Load& load, const Message& message) {
  if (message.started < load.since_) return;
  const PathCosts& its = path_costs(message);
  load.first_sent_ = sooner(load.first_sent_, message.started);
  load.least_latency_ = sooner(load.least_latency_, its.latency);
  load.bytes_[&its] += message.bytes;
  if (message.source_rate == Rate()) return;
  Time& written = load.written_[{&its, message.queue_pair}];
  written += message.source_rate.time_for(message.bytes);
  load.most_written_ = later(load.most_written_, written);
}

MessageCosts::Floors MessageCosts::floors(const Load& load) {
  Floors floors;
  if (load.bytes_.empty()) {
    floors.beside_group.resize(group_count_);
    return floors;
  }
  floors.lead = load.first_sent_ - load.since_;
  floors.latency = load.least_latency_;
  floors.engines = load.most_written_;
  carried_.assign(numbers_.size(), Time());
  carried_slowest_.assign(numbers_.size(), Time());
  // Sums of whole femtoseconds do not depend on the order.
  std::vector<Link> ports;
  std::unordered_map<const PortCounters*, Time> engines;
  for (const auto& [costs, bytes] : load.bytes_) {
    if (costs->engine_bytes_per_second != kUnlimited) {  // shared by all reads of the engine
      Time& read = engines[costs->engine];
      read += time_at(bytes, costs->engine_bytes_per_second);
      floors.engines = later(floors.engines, read);
    }
    for (const Link& link : costs->links) {
      if (carried_[link.number] == Time()) ports.push_back(link);
      const Time time = time_at(bytes, link.bytes_per_second);
      carried_[link.number] += time;
      const bool slowest =
          costs->slowest != nullptr &&
          (link.port == costs->slowest->port || (link.group != kNoGroup && link.group == costs->slowest->group));
      if (slowest) carried_slowest_[link.number] += time;
    }
  }
  for (const Link& link : ports) {
    floors.links = later(floors.links, carried_[link.number]);
    floors.beside_slowest = later(floors.beside_slowest, carried_[link.number] - carried_slowest_[link.number]);
  }
  floors.beside_group = most_beside(ports, [&](const Link& link) { return carried_[link.number]; });
  return floors;
}

}  // namespace railyard::transport
