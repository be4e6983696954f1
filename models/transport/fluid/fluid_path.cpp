#include "transport/fluid/fluid_path.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "transport/device/shared_hops.h"
#include "transport/fluid/rates.h"

namespace railyard::transport {

namespace {

/// Parts of lines that differ by less than this are equal: they differ by rounding alone.
constexpr double kAlike = 1e-12;

bool answers(const Hop& hop) { return hop.answers_reads || hop.kind == TransactionKind::reduce_response; }
TransactionKind question(const Hop& hop) {
  return hop.kind == TransactionKind::reduce_response ? TransactionKind::reduce_request : TransactionKind::read_request;
}

}  // namespace

bool FluidPath::build(bool by_first_lane) {
  path_ = routes_.path_of(example_);
  transaction_bytes_ = routes_.transaction_bytes(path_);
  legs_.clear();
  crossings_.clear();
  weights_ = 0;
  for (const Lane& lane : path_.lanes) weights_ += lane.weight;
  switch (example_.kind) {
    case MessageKind::write:
    case MessageKind::read:
      for (std::uint32_t lane = 0; lane < path_.lanes.size(); ++lane) {
        const Hop* before = nullptr;
        for (const Hop& hop : path_.lanes[lane].hops) {
          add(hop, before, lane);
          before = &hop;
        }
      }
      break;
    case MessageKind::multicast: add_multicast(); break;
    case MessageKind::reduce: add_reduction(); break;
  }
  if (path_.limit != Rate())  // a NIC's tags are for all bytes that it sends
    for (const Leg& leg : legs_)
      if (leg.turns)
        leg.crossing.port->limit =
            std::max(leg.crossing.port->limit, static_cast<double>(path_.limit.bytes_per_second()) * leg.crossing.wire);
  const bool first_lane = by_first_lane && lanes_are_alike();
  const std::size_t each = first_lane ? legs_.size() / path_.lanes.size() : legs_.size();
  bool agrees = true;
  const auto take = [&](FluidPort& port, FluidPort& stand_in) {
    if (port.stand_in == nullptr) port.stand_in = &stand_in;
    agrees &= port.stand_in == &stand_in;
  };
  for (std::size_t i = 0; i < legs_.size(); ++i) {
    FluidPort &port = *legs_[i].crossing.port, &stand_in = *legs_[i % each].crossing.port;
    take(port, stand_in);
    take(*port.reverse, *stand_in.reverse);
    if (i < each) crossings_.push_back(legs_[i].crossing);
  }
  if (path_.meter != nullptr && path_.meter->fluid != nullptr) {
    FluidCrossing& metered = crossings_.emplace_back();
    metered.port = path_.meter->fluid;
    metered.requester = FluidCrossing::kOwn;
    metered.vc = context_.plan.vc_of[example_.traffic_class];
  }

  double slowest = path_.limit != Rate() ? 1 / static_cast<double>(path_.limit.bytes_per_second()) : 0;
  slowest_ = legs_.size();
  if (path_.limit != Rate()) price_ = BytePrice(path_.limit);
  for (std::size_t i = 0; i < legs_.size(); ++i) {
    const Hop& hop = legs_[i].hop;
    const FluidCrossing& crossing = legs_[i].crossing;
    const double time = crossing.wire / std::min(line_rate(hop.link()), crossing.window);
    if (time <= slowest) continue;
    slowest = time;
    slowest_ = i;
    slowest_by_ = hop.link().pace(credit_type_of(hop.kind), train_at(hop));
    price_ = railyard::transport::price(hop.link(), credit_type_of(hop.kind), slowest_by_);
  }
  rate_ = 1 / slowest;
  meets_itself_ = false;
  if (!legs_.empty() && path_.lanes.size() == legs_.size() / path_.lanes.front().hops.size()) {
    const FluidCrossing& out = legs_.front().crossing;
    const FluidCrossing& back = legs_[path_.lanes.front().hops.size() - 1].crossing;
    meets_itself_ = back.port == out.port->reverse && (out.wire + back.owed) * rate_ > out.port->line();
  }
  last_byte_ = last_byte_time(path_, transaction_bytes_);
  find_shape();
  return agrees;
}

bool FluidPath::lanes_are_alike() const {
  const std::size_t lanes = path_.lanes.size(), each = legs_.size() / std::max<std::size_t>(1, lanes);
  if (each * lanes != legs_.size()) return false;
  for (std::size_t i = each; i < legs_.size(); ++i) {
    const Leg &leg = legs_[i], &first = legs_[i % each];
    const double line = line_rate(leg.hop.link()), first_line = line_rate(first.hop.link());
    const auto alike = [&](double here, double there) {
      const double part = here / line, first_part = there / first_line;  // infinite: a window without a limit
      return part == first_part || std::abs(part - first_part) <= kAlike * first_part;
    };
    const FluidCrossing &a = leg.crossing, &b = first.crossing;
    if (leg.lanes != std::vector{static_cast<std::uint32_t>(i / each)} || first.lanes.size() != 1 || a.vc != b.vc ||
        !alike(a.wire, b.wire) || !alike(a.owed, b.owed) || !alike(a.window, b.window))
      return false;
  }
  return true;
}

void FluidPath::add(const Hop& hop, const Hop* before, std::uint32_t lane) {
  for (Leg& leg : legs_) {
    if (!same_link(leg.hop, hop)) continue;
    if (leg.lanes.back() == lane) return;  // members of a group share this link and its bytes
    const auto before_this = static_cast<double>(weight_of(leg));
    leg.lanes.push_back(lane);
    const double more = static_cast<double>(weight_of(leg)) / before_this;
    leg.crossing.wire *= more;
    leg.crossing.owed *= more;
    return;
  }
  const double share = static_cast<double>(path_.lanes[lane].weight) / static_cast<double>(weights_);
  const auto whole = static_cast<double>(transaction_bytes_);
  const PacketFormat& packet = hop.link().packet;
  const WireCost cost = train_at(hop);
  FluidCrossing& crossing = legs_.emplace_back(Leg{hop, {lane}, false, {}}).crossing;
  crossing.port = hop.device->port(hop.port).fluid;
  double bytes = static_cast<double>(cost.bytes), owed = static_cast<double>(cost.reverse_debt);
  if (answers(hop)) {
    const WireCost asked = packet.cost(question(hop), transaction_bytes_, path_.packet_limit(question(hop)), false);
    bytes += static_cast<double>(asked.reverse_debt);
    owed += static_cast<double>(asked.bytes);
  }
  crossing.wire = share * bytes / whole;
  if (hop.link().pace(credit_type_of(hop.kind), cost) != PacedBy::line)
    crossing.window = hop.link().trains_per_second(credit_type_of(hop.kind), cost) * bytes;
  crossing.owed = share * owed / whole;
  const VcPlan& plan = context_.plan;
  crossing.vc = answers(hop) ? plan.response_vc_of(example_.traffic_class) : plan.vc_of[example_.traffic_class];
  if (before != nullptr && answers(hop) && !answers(*before)) before = nullptr;  // read from a memory on the path
  const bool turns = before != nullptr && before->answers_reads && !hop.answers_reads;
  legs_.back().turns = turns;
  if (before != nullptr && !turns) {
    crossing.requester = before->device->port(before->port).peer_port.value();
  } else {
    crossing.requester = answers(hop) ? FluidCrossing::kResponder : FluidCrossing::kOwn;
  }
}

void FluidPath::add_multicast() {
  for (std::uint32_t lane = 0; lane < path_.lanes.size(); ++lane) {
    const Hop first = path_.lanes[lane].hops.front();
    for (const Window member : context_.groups.at(example_.group)) {
      const std::vector<Hop> hops = walk(*first.device, first.port, window_base(member), 0, TransactionKind::multicast);
      for (std::size_t h = 0; h < hops.size(); ++h) add(hops[h], h == 0 ? nullptr : &hops[h - 1], lane);
    }
  }
}

void FluidPath::add_reduction() {
  for (std::uint32_t lane = 0; lane < path_.lanes.size(); ++lane) {
    const Hop result = path_.lanes[lane].hops.back();
    const Device::Port& home = result.device->port(result.port);
    for (const Window member : context_.groups.at(example_.group)) {
      // A member's operand arrives at the port from which requests to this member leave.
      const Hop request = walk(*home.peer, home.peer_port, window_base(member), 0).back();
      const Device::Port& out = request.device->port(request.port);
      add({out.peer, out.peer_port, TransactionKind::reduce_response, false}, nullptr, lane);
    }
    add(result, nullptr, lane);
  }
}

std::uint64_t FluidPath::weight_of(const Leg& leg) const {
  std::uint64_t sum = 0;
  for (const std::uint32_t lane : leg.lanes) sum += path_.lanes[lane].weight;
  return sum;
}

Bytes FluidPath::lane_bytes(std::uint32_t lane, Bytes bytes) const {
  std::uint64_t before = 0;
  for (std::uint32_t l = 0; l < lane; ++l) before += path_.lanes[l].weight;
  return bytes * (before + path_.lanes[lane].weight) / weights_ - bytes * before / weights_;
}

WireCost FluidPath::train_at(const Hop& hop) const {
  return hop.link().packet.cost(hop.kind, transaction_bytes_, path_.packet_limit(hop.kind), false);
}

Bytes FluidPath::taken(PacedBy by, const LinkDirection& link, TransactionKind kind, Bytes payload) const {
  const Bytes transactions = std::max<Bytes>(1, ceil_div(payload, transaction_bytes_));
  const Bytes last = payload - (transactions - 1) * transaction_bytes_;
  const Bytes engine = path_.packet_limit(kind);
  const auto of = [&](Bytes bytes, bool is_first) {
    return amount(by, link.packet.cost(kind, bytes, engine, is_first));
  };
  const Bytes first = of(std::min(payload, transaction_bytes_), true);
  if (transactions == 1) return first;
  return first + (transactions - 2) * of(transaction_bytes_, false) + of(last, false);
}

void FluidPath::find_shape() {
  const auto number = [](const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Time>) {
      return value.fs();
    } else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Rate>) {
      return value.bytes_per_second();
    } else {
      return static_cast<std::uint64_t>(value);
    }
  };
  PathShapes::Numbers numbers;
  const auto add = [&](const auto&... values) { (numbers.push_back(number(values)), ...); };
  add(transaction_bytes_, path_.stripe_bytes, path_.fixed, path_.limit, path_.engine_payload_bytes, path_.request_bytes,
      path_.completion_payload_bytes, path_.asked_ahead_bytes, path_.inline_bytes, path_.hops_to_inline,
      path_.inline_fixed, path_.hops_to_stage, path_.chunk_bytes, path_.chunk_start, path_.lanes.size());
  charged_.clear();
  std::vector<const Hop*> links;  // which hops are over the same link
  for (const Lane& lane : path_.lanes) {
    add(lane.weight, lane.hops.size());
    for (const Hop& hop : lane.hops) {
      const auto same =
          std::find_if(links.begin(), links.end(), [&](const Hop* other) { return same_link(*other, hop); });
      add(same - links.begin(), shapes_.number_of(hop.link()), hop.kind, hop.answers_reads);
      if (same == links.end()) links.push_back(&hop);
    }
  }
  add(legs_.size());
  for (const Leg& leg : legs_) {
    charged_.push_back(leg.crossing.port);
    add(shapes_.number_of(leg.hop.link()), leg.hop.kind, leg.hop.answers_reads, leg.lanes.size());
    for (const std::uint32_t lane : leg.lanes) add(lane);
    if (!answers(leg.hop)) continue;
    charged_.push_back(leg.crossing.port->reverse);
    add(shapes_.number_of(charged_.back()->link()));
  }
  add(path_.request.size());
  for (const Hop& hop : path_.request) {
    charged_.push_back(hop.device->port(hop.port).fluid);
    add(shapes_.number_of(charged_.back()->link()), hop.kind);
  }
  if (path_.meter != nullptr && path_.meter->fluid != nullptr) {
    charged_.push_back(path_.meter->fluid);
    add(path_.meter->rate());
  }
  shape_ = &shapes_.of(numbers);
}

const SizedMessage& FluidPath::measure(Bytes bytes) {
  SizedMessage& sized = shape_->place(bytes);
  sized.bytes = bytes;
  sized.charges.clear();
  std::uint32_t port = 0;
  const auto charge = [&](Bytes payload, Bytes wire) {
    const auto fs = static_cast<unsigned __int128>(wire) * 1'000'000'000'000'000ull /
                    charged_[port]->link().rate.bytes_per_second();
    sized.charges.push_back(
        {port++, payload, wire, Time::fs(static_cast<std::uint64_t>(fs))});  // at most the message's time
  };
  for (const Leg& leg : legs_) {
    Bytes payload = 0;
    for (const std::uint32_t lane : leg.lanes) payload += lane_bytes(lane, bytes);
    if (payload == 0 && bytes != 0) {
      port += answers(leg.hop) ? 2 : 1;
      continue;
    }
    charge(payload, taken(PacedBy::line, leg.hop.link(), leg.hop.kind, payload));
    if (answers(leg.hop)) charge(0, taken(PacedBy::line, charged_[port]->link(), question(leg.hop), payload));
  }
  for (const Hop& hop : path_.request) charge(0, charged_[port]->link().packet.cost(hop.kind, bytes, 0, true).bytes);
  if (path_.meter != nullptr && path_.meter->fluid != nullptr)
    sized.charges.push_back({port, bytes, bytes, path_.meter->rate().time_for(bytes)});
  sized.slowest_bytes = bytes;
  if (slowest_ < legs_.size()) {
    const Leg& leg = legs_[slowest_];
    const Bytes payload = ceil_div(bytes * weight_of(leg), weights_);
    sized.slowest_bytes = taken(slowest_by_, leg.hop.link(), leg.hop.kind, payload);
  }
  sized.uncontended = uncontended_time(path_, bytes, transaction_bytes_);
  sized.drain = sooner(price_.time_for(sized.slowest_bytes), sized.uncontended);
  return sized;
}

}  // namespace railyard::transport
