#include "transport/device/path.h"

#include <algorithm>
#include <stdexcept>

#include "transport/device/endpoint.h"
#include "transport/device/shared_hops.h"
#include "transport/link/byte_clock.h"

namespace railyard::transport {

namespace {

constexpr Time kAutomaticDuration = Time::ns(250);
constexpr Bytes kBufferShare = 4;
constexpr std::size_t kMaxHops = 64;

std::uint64_t weights(const Path& path) {
  std::uint64_t sum = 0;
  for (const Lane& lane : path.lanes) sum += lane.weight;
  return sum;
}

Bytes lane_share(const Path& path, const Lane& lane, Bytes bytes) {
  return ceil_div(bytes * lane.weight, weights(path));
}

Rate lane_limit(const Path& path, const Lane& lane) {
  return Rate::bytes_per_second(path.limit.bytes_per_second() * lane.weight / weights(path));
}

/// One hop under the port rule for a single stream of transactions: the next transaction starts when it has arrived and
/// the previous one has been charged. In a gapless run, times are computed from the bytes since its start and rounded
/// once.
struct Stage {
  LinkDirection link;
  ByteClock clock;  ///< of the unit that limits the pace: bytes on the line, bytes of the buffer, or packets
  ByteClock line;
  PacedBy paced_by = PacedBy::line;
  bool stores = false;  ///< the incoming link is slower: the first packet must be complete
  TransactionKind kind = TransactionKind::write;
  bool answers_reads = false;
  Time latency;      ///< to the next stage
  Time run;          ///< start of the run
  Bytes in_run = 0;  ///< charged since then, in the clock's unit
  Time packet;       ///< first packet of the current transaction, at line rate
  Bytes taken = 0;   ///< by the current transaction

  Time start(Bytes more = 0) { return run + clock.time_for(in_run + more); }
};

WireCost cost_at(const Hop& hop, const Path& path, Bytes payload, bool first) {
  return hop.link().packet.cost(hop.kind, payload, path.packet_limit(hop.kind), first);
}

Bytes taken(const Stage& stage, const Path& path, Bytes payload, bool first, bool acks, Bytes& first_packet) {
  const WireCost cost = stage.link.packet.cost(stage.kind, payload, path.packet_limit(stage.kind), first);
  first_packet = cost.first_packet;
  if (!acks || !stage.answers_reads || stage.paced_by != PacedBy::line) return amount(stage.paced_by, cost);
  return cost.bytes +
         stage.link.packet.cost(TransactionKind::read_request, payload, path.request_bytes, first).reverse_debt;
}

/// The earliest start of the current transaction at stage k: its arrival from the previous stage.
Time comes_in(std::vector<Stage>& stages, std::size_t k) {
  return stages[k - 1].start() + stages[k - 1].latency + (stages[k].stores ? stages[k - 1].packet : Time());
}

/// Moves every stage from the start of one transaction to the start of the next.
/// @param acks  acks of read requests take line time in front of answers
void next_transaction(std::vector<Stage>& stages, const Path& path, Bytes payload, bool first, bool acks) {
  for (std::size_t k = 0; k < stages.size(); ++k) {
    Stage& stage = stages[k];
    stage.in_run += stage.taken;  // by the previous transaction
    if (k > 0 && comes_in(stages, k) > stage.start()) {
      stage.run = comes_in(stages, k);
      stage.in_run = 0;
    }
    Bytes first_packet = 0;
    stage.taken = taken(stage, path, payload, first, acks, first_packet);
    stage.packet = sooner(stage.line.time_for(first_packet), stage.clock.time_for(stage.taken));
  }
}

/// `count` more transactions like the current one: each stage continues at its own pace or follows a slower previous
/// stage.
void skip(std::vector<Stage>& stages, Bytes count) {
  for (std::size_t k = 0; k < stages.size(); ++k) {
    stages[k].in_run += stages[k].taken * count;
    if (k > 0 && comes_in(stages, k) > stages[k].start()) {
      stages[k].run = comes_in(stages, k);
      stages[k].in_run = 0;
    }
  }
}

Time lane_time(const Path& path, const Lane& lane, Bytes bytes, Bytes transaction_bytes) {
  std::vector<Stage> stages;
  if (path.limit != Rate()) {  // the engine that paces the source
    stages.emplace_back();
    stages.back().clock = stages.back().line = ByteClock(lane_limit(path, lane));
  }
  Rate into;
  for (const Hop& hop : lane.hops) {
    Stage& stage = stages.emplace_back();
    stage.link = hop.link();
    stage.line = ByteClock(stage.link.rate);
    stage.paced_by = stage.link.pace(credit_type_of(hop.kind), cost_at(hop, path, transaction_bytes, false));
    stage.clock = ByteClock(price(stage.link, credit_type_of(hop.kind), stage.paced_by));
    stage.stores = into != Rate() && into < stage.link.rate;
    stage.kind = hop.kind;
    stage.answers_reads = hop.answers_reads;
    stage.latency = stage.link.latency;
    into = stage.link.rate;
  }

  const Bytes transactions = std::max<Bytes>(1, ceil_div(bytes, transaction_bytes));
  const Bytes last_bytes = bytes - (transactions - 1) * transaction_bytes;
  const Bytes ahead = std::min(ceil_div(path.asked_ahead_bytes, transaction_bytes), transactions);
  next_transaction(stages, path, std::min(bytes, transaction_bytes), true, ahead == 0);
  const auto middle = [&](Bytes count, bool acks) {
    if (count == 0) return;
    next_transaction(stages, path, transaction_bytes, false, acks);
    skip(stages, count - 1);
  };
  if (transactions > 2) {
    const Bytes without_acks = std::clamp<Bytes>(ahead, 1, transactions - 1) - 1;
    middle(without_acks, false);
    middle(transactions - 2 - without_acks, true);
  }
  if (transactions > 1) next_transaction(stages, path, last_bytes, false, ahead < transactions);

  Time tail;
  for (std::size_t k = path.limit != Rate() ? 1 : 0; k < stages.size(); ++k)
    tail = later(tail, stages[k].start(stages[k].taken)) + stages[k].latency;
  return tail;
}

/// The last byte crosses each link that several lanes share after all that they carry over it.
Time shared_time(const Path& path, Bytes bytes, Bytes transaction_bytes) {
  Time longest;
  if (!share_hops(path) || bytes == 0) return longest;
  for (const Lane& lane : path.lanes)
    for (const Hop& hop : lane.hops) {
      Lane shared{{hop}, static_cast<std::uint32_t>(weight_on(path, lane, hop))};
      Time others = Time::max();
      for (const Lane& each : path.lanes) {
        if (!crosses(each, hop)) continue;
        Time latency;
        for (const Hop& other : each.hops)
          if (!same_link(other, hop)) latency += other.link().latency;
        others = sooner(others, latency);
      }
      longest = later(longest, others + lane_time(path, shared, lane_share(path, shared, bytes), transaction_bytes));
    }
  return longest;
}

}  // namespace

std::vector<Hop> walk(const Device& device, PortId out, std::uint64_t address, Lid lid, TransactionKind kind) {
  std::vector<Hop> hops;
  const Device* at = &device;
  while (out.valid()) {
    if (hops.size() == kMaxHops) throw std::logic_error(std::string("routing loop at ") + at->name());
    hops.push_back({at, out, kind, at->has_choice(lid)});
    const Device::Port& port = at->port(out);
    if (port.peer == nullptr) throw std::logic_error(std::string("unconnected port at ") + at->name());
    at = port.peer;
    out = at->decode(address, lid, port.peer_port);
  }
  return hops;
}

bool is_open(const std::vector<Hop>& hops) {
  return !hops.empty() && std::none_of(hops.begin(), hops.end(),
                                       [](const Hop& hop) { return hop.device->port(hop.port).egress.failed(); });
}

Time request_time(const std::vector<Hop>& hops) {
  Time time, packet;
  Rate into;
  for (const Hop& hop : hops) {
    const LinkDirection& link = hop.link();
    if (into != Rate() && into < link.rate) time += packet;  // towards a faster link, a packet must be complete
    time += link.latency;
    packet = link.rate.time_for(link.packet.read_request_bytes);
    into = link.rate;
  }
  return time;
}

Path read_path(const Endpoint& requester, PortId out, const Endpoint& memory, PortId memory_port, Time memory_latency) {
  Path path;
  path.fixed = request_time(walk(requester, out, window_base(memory.window()), 0, TransactionKind::read_request)) +
               memory_latency;
  path.completion_payload_bytes = memory.completion_payload_bytes();
  path.lanes.push_back(
      {walk(memory, memory_port, window_base(requester.window()), 0, TransactionKind::read_response), 1});
  for (Hop& hop : path.lanes[0].hops) hop.answers_reads = true;
  return path;
}

Arrival arrival(const std::vector<Hop>& hops, std::uint64_t address) {
  if (hops.empty()) return {};
  const Device::Port& last = hops.back().device->port(hops.back().port);
  const auto* endpoint = dynamic_cast<const Endpoint*>(last.peer);
  if (endpoint == nullptr || endpoint->window() != window_of(address)) return {};
  return {endpoint, last.peer_port};
}

Bytes automatic_transaction_bytes(const Path& path) {
  Bytes bytes = ~Bytes(0);
  Bytes packet = path.smallest_transaction_bytes;
  for (const Lane& lane : path.lanes) {
    for (const Hop& hop : lane.hops) {
      const LinkDirection& link = hop.link();
      bytes = std::min(bytes, link.rate.bytes_in(kAutomaticDuration));
      if (link.buffer_bytes != 0) bytes = std::min(bytes, link.buffer_bytes / kBufferShare);
      packet = std::max(packet, link.packet.max_payload_bytes);
    }
  }
  return std::max(bytes / packet * packet, packet);
}

namespace {

/// Splits a staged path in two: into the staging memory, and out of it.
std::pair<Path, Path> at_stage(const Path& path) {
  const auto& hops = path.lanes[0].hops;
  const auto stage = hops.begin() + static_cast<std::ptrdiff_t>(path.hops_to_stage);
  std::pair<Path, Path> legs(path, path);
  legs.first.chunk_bytes = legs.second.chunk_bytes = 0;
  legs.first.chunk_start = legs.second.chunk_start = Time();
  legs.first.lanes[0].hops.assign(hops.begin(), stage);
  legs.first.fixed = Time();
  legs.first.limit = Rate();
  legs.second.lanes[0].hops.assign(stage, hops.end());
  return legs;
}

}  // namespace

Time uncontended_time(const Path& path, Bytes bytes, Bytes transaction_bytes) {
  if (path.hops_to_inline != 0 && bytes <= path.inline_bytes) {
    Path carried = path;
    for (Lane& lane : carried.lanes)
      lane.hops.erase(lane.hops.begin(), lane.hops.begin() + static_cast<std::ptrdiff_t>(path.hops_to_inline));
    carried.fixed = path.inline_fixed;
    carried.limit = Rate();
    carried.hops_to_inline = 0;
    return uncontended_time(carried, bytes, transaction_bytes);
  }
  if (path.chunk_bytes != 0) {
    const auto [in, on] = at_stage(path);
    const Bytes chunks = std::max<Bytes>(1, ceil_div(bytes, path.chunk_bytes));
    const Bytes first = std::min(bytes, path.chunk_bytes), last = bytes - (chunks - 1) * path.chunk_bytes;
    const auto take = [&](const Path& leg, Bytes b) {
      if (path.chunk_start == Time()) return uncontended_time(leg, b, transaction_bytes);
      const Bytes whole = b / path.chunk_bytes, rest = b % path.chunk_bytes;  // one after the other
      Time time = (path.chunk_start + uncontended_time(leg, path.chunk_bytes, transaction_bytes)) * whole;
      if (rest != 0 || whole == 0) time += path.chunk_start + uncontended_time(leg, rest, transaction_bytes);
      return time;
    };
    return later(take(in, first) + take(on, bytes), take(in, bytes) + take(on, last));
  }
  // A message without bytes is one packet on the first lane.
  if (bytes == 0 && !path.lanes.empty()) return path.fixed + lane_time(path, path.lanes.front(), 0, transaction_bytes);
  // Every lane carries its part of the whole rounds of stripes. In the last round, some lane carries more than its even
  // share; which lane depends on the address. No message is faster than the lane that finishes its share first.
  const Bytes round = path.stripe_bytes * weights(path);
  const Bytes whole = round == 0 ? bytes : bytes / round * round;
  Time time;
  if (whole != 0)
    for (const Lane& lane : path.lanes)
      time = later(time, lane_time(path, lane, lane_share(path, lane, whole), transaction_bytes));
  time = later(time, shared_time(path, whole, transaction_bytes));
  if (whole == bytes) return path.fixed + time;
  Time first = Time::max();
  for (const Lane& lane : path.lanes)
    first = sooner(first, lane_time(path, lane, lane_share(path, lane, bytes), transaction_bytes));
  return path.fixed + later(time, first);
}

Time last_byte_time(const Path& path, Bytes transaction_bytes) {
  if (path.chunk_bytes != 0) return uncontended_time(path, 0, transaction_bytes);
  Time longest;
  for (const Lane& lane : path.lanes) {
    Time links;
    for (const Hop& hop : lane.hops) links += hop.link().latency;
    longest = later(longest, links);
  }
  return path.fixed + longest;
}

double payload_rate(const Path& path, const Hop& hop, Bytes transaction_bytes) {
  const WireCost cost = cost_at(hop, path, transaction_bytes, false);
  return hop.link().trains_per_second(credit_type_of(hop.kind), cost) * static_cast<double>(transaction_bytes);
}

Rate payload_rate(const Path& path, Bytes transaction_bytes) {
  double sum = 0;
  for (const Lane& lane : path.lanes) {
    double slowest = path.limit != Rate() ? static_cast<double>(lane_limit(path, lane).bytes_per_second()) : 1e18;
    for (const Hop& hop : lane.hops)
      slowest = std::min(slowest, payload_rate(path, hop, transaction_bytes) * lane.weight /
                                      static_cast<double>(weight_on(path, lane, hop)));
    sum += slowest;
  }
  return Rate::bytes_per_second(static_cast<std::uint64_t>(sum));
}

}  // namespace railyard::transport
