#include "transport/device/reader.h"

#include <algorithm>
#include <limits>

namespace railyard::transport {

namespace {

/// Bytes are divided by small weights; this scale keeps the fraction.
constexpr std::uint64_t kWeightScale = 1024;

}  // namespace

Reader::Reader(sc_core::sc_module_name name, FabricContext& context, Window window, PortId read_port,
               const ReadLimits& limits)
    : Endpoint(name, context, window), read_port_(read_port), limits_(limits) {}

std::uint32_t Reader::flow_of(const Message& message, Window memory) {
  const RequesterKey key{false, MessageKind::write, message.traffic_class, memory, message.to(), message.queue_pair};
  const auto [found, fresh] = by_key_.try_emplace(key, static_cast<std::uint32_t>(flows_.size()));
  if (fresh) {
    Flow& flow = flows_.emplace_back();
    flow.vc = context_.plan.vc_of[message.traffic_class];
    flow.memory = memory;
    set_pace(flow);
  }
  return found->second;
}

void Reader::set_pace(Flow& flow) {
  const Rate limit = pull_path(flow.memory).limit;
  flow.paced = limit != Rate();
  if (flow.paced) flow.pace = ByteClock(limit);
}

void Reader::links_changed() {
  for (std::uint32_t number = 0; number < flows_.size(); ++number) {
    Flow& flow = flows_[number];
    set_pace(flow);
    if (!flow.work.empty() && !can_read(number, *flow.work.front().message)) give_up(flow, number);
  }
}

bool Reader::is_readable(Window memory) const {
  const std::uint64_t address = window_base(memory);
  const std::vector<Hop> request = walk(*this, read_port_, address, 0);
  const Arrival at = arrival(request, address);
  return at.endpoint != nullptr && is_open(request) && is_open(walk(*at.endpoint, at.port, window_base(window()), 0));
}

void Reader::give_up(Flow& flow, std::uint32_t number) {
  for (; !flow.work.empty(); flow.work.pop_front()) {
    const Work& work = flow.work.front();
    unread(work.left_bytes);
    context_.losses->on_lost(*work.message, work.message->address, work.left_bytes);
  }
  vcs_[flow.vc].waiting.erase(number);
  if (vcs_[flow.vc].waiting.empty()) waiting_vcs_ &= ~(1u << flow.vc);
}

void Reader::take_back(PortId out) {
  if (out == read_port_)
    for (VcState& c : vcs_) c.staged = false;
  Endpoint::take_back(out);
}

void Reader::read_lost(Transaction& t) {
  if (t.requester == 0) return;  // a read of another engine
  reads_.give_back(now(), t.payload_bytes);
  let_go(flows_[flow_of(t)].vc, t.payload_bytes, now());
  unread(t.payload_bytes);
  read();
}

void Reader::pull(std::uint32_t number, Message& message, Bytes bytes) {
  Flow& flow = flows_[number];
  if (context_.losses != nullptr && !can_read(number, message)) {
    unread(bytes);
    context_.losses->on_lost(message, message.address, bytes);
    return;
  }
  const bool idle = flow.work.empty();
  flow.work.push_back({&message, bytes, true});
  VcState& c = vcs_[flow.vc];
  if (!c.made) {
    c.requester = add_requester(read_port_);
    c.made = true;
  }
  if (c.waiting.empty()) {  // an idle virtual channel does not accumulate turns
    std::uint64_t least = waiting_vcs_ == 0 ? 0 : ~0ull;
    for (std::uint32_t others = waiting_vcs_; others != 0; others &= others - 1)
      least = std::min(least, vcs_[__builtin_ctz(others)].served);
    c.served = std::max(c.served, least);
    waiting_vcs_ |= 1u << flow.vc;
  }
  if (idle) c.waiting.insert(number);
  read();
}

Time Reader::readable(VcState& c, Bytes bytes) {
  largest_read_ = std::max(largest_read_, bytes);
  Time when = later(now(), pace_);
  // As in the port rule, limits are counted in whole trains.
  if (limits_.read_bytes != 0) when = later(when, reads_.below(limits_.read_bytes + largest_read_, now()));
  if (limits_.buffer_bytes != 0) when = later(when, c.buffer.below(limits_.buffer_bytes + largest_read_, now()));
  return when;
}

void Reader::read() {
  for (;;) {
    int best = -1;
    Bytes best_bytes = 0;
    Time retry = Time::max();
    for (std::uint32_t left = waiting_vcs_; left != 0; left &= left - 1) {
      const int number = __builtin_ctz(left);
      VcState& c = vcs_[number];
      if (c.staged) continue;
      const Bytes bytes = next_read(c.waiting.next([&](std::uint32_t flow) { return next_read(flow); }));
      const Time when = readable(c, bytes);
      if (when > now()) {
        retry = sooner(retry, when);
        continue;
      }
      const auto& priority = context_.plan.priority;
      if (best < 0 || priority[number] > priority[best] ||
          (priority[number] == priority[best] && c.served < vcs_[best].served)) {
        best = number;
        best_bytes = bytes;
      }
    }
    if (best < 0) {
      if (retry < retry_) {
        retry_ = retry;
        context_.calendar.at(retry, *this, kReadTag, retry.fs());
      }
      return;
    }
    stage_read(vcs_[best], static_cast<std::uint8_t>(best), best_bytes);
  }
}

Bytes Reader::next_read(std::uint32_t flow) const {
  const Work& work = flows_[flow].work.front();
  return std::min(work.message->transaction_bytes, work.left_bytes);
}

void Reader::stage_read(VcState& c, std::uint8_t vc, Bytes bytes) {
  const std::uint32_t number = c.waiting.next([&](std::uint32_t flow) { return next_read(flow); });
  Flow& flow = flows_[number];
  Work& work = flow.work.front();
  const Message& message = *work.message;
  reads_.take(bytes);
  if (limits_.buffer_bytes != 0) c.buffer.take(bytes);
  c.served += bytes * kWeightScale / context_.plan.weight[vc];
  if (flow.paced) {
    if (now() > pace_) flow.pace.reset();
    pace_ = now() + flow.pace.advance(bytes);
  }
  Transaction* t = context_.pool.acquire();
  t->message = work.message;
  t->kind = TransactionKind::read_request;
  t->address = window_base(flow.memory);
  t->reply_to = window_base(window());
  t->requester = number + 1;
  t->payload_bytes = bytes;
  t->engine_payload_bytes = limits_.request_bytes;
  t->traffic_class = message.traffic_class;
  t->virtual_channel = kRequestVc;
  t->first_of_message = work.first;
  t->head = t->tail = now();
  work.first = false;
  work.left_bytes -= bytes;
  c.waiting.served(number, bytes);
  if (work.left_bytes == 0) {
    flow.work.pop_front();
    if (flow.work.empty()) c.waiting.erase(number);
    if (c.waiting.empty()) waiting_vcs_ &= ~(1u << vc);
  }
  c.staged = true;
  enqueue(read_port_, c.requester, *t);
}

void Reader::completed(Transaction& t) {
  reads_.give_back(t.tail, t.payload_bytes);
  read();
}

void Reader::departed(Transaction& t, PortId out, Time leaves) {
  const bool own_read = out == read_port_ && t.kind == TransactionKind::read_request;
  const std::uint32_t flow = own_read ? flow_of(t) : 0;
  Endpoint::departed(t, out, leaves);
  if (!own_read) return;
  vcs_[flows_[flow].vc].staged = false;
  read();
}

void Reader::on_own_event(std::uint32_t tag, std::uint64_t data) {
  if (tag != kReadTag) {
    Endpoint::on_own_event(tag, data);
    return;
  }
  if (retry_.fs() != data) return;  // replaced by an earlier wake-up
  retry_ = Time::max();
  read();
}

Rate Reader::read_limit(const Path& read, const std::vector<Hop>& request) const {
  const auto asked_at = [&](const LinkDirection& link) {
    return limits_.request_bytes != 0 ? limits_.request_bytes : link.packet.max_read_request_bytes;
  };
  Time held = read.fixed;
  Time slowest;
  for (const Hop& hop : read.lanes[0].hops) {
    const LinkDirection& link = hop.link();
    held += link.latency;
    slowest =
        later(slowest,
              link.rate.time_for(
                  link.packet.cost(TransactionKind::read_response, asked_at(link), read.completion_payload_bytes, false)
                      .bytes));
  }
  held += slowest;
  if (held == Time()) return Rate();
  const auto rate = [](Bytes bytes, Time time) {
    return static_cast<std::uint64_t>(static_cast<double>(bytes) / time.seconds());
  };
  std::uint64_t limit = 0;
  if (limits_.read_bytes != 0) limit = rate(limits_.read_bytes, held);
  if (limits_.buffer_bytes != 0) {
    const std::uint64_t buffered = rate(limits_.buffer_bytes, held + limits_.pass_on);
    limit = limit == 0 ? buffered : std::min(limit, buffered);
  }
  for (const Hop& hop : request) {
    const LinkDirection& link = hop.link();
    const WireCost one = link.packet.cost(TransactionKind::read_request, asked_at(link), limits_.request_bytes, false);
    if (link.pace(transport::CreditType::request, one) != PacedBy::headers) continue;
    const auto asked = static_cast<std::uint64_t>(link.trains_per_second(transport::CreditType::request, one) *
                                                  static_cast<double>(asked_at(link)));
    limit = limit == 0 ? asked : std::min(limit, asked);
  }
  return Rate::bytes_per_second(limit);
}

Path Reader::pull_path(Window memory) const {
  const std::uint64_t address = window_base(memory);
  const std::vector<Hop> request = walk(*this, read_port_, address, 0, TransactionKind::read_request);
  const Arrival at = arrival(request, address);
  if (at.endpoint == nullptr) SC_REPORT_FATAL(name(), "the source memory of a message is not reachable over PCIe");
  Path path = read_path(*this, read_port_, *at.endpoint, at.port, at.endpoint->read_latency());
  path.request_bytes = limits_.request_bytes;
  path.limit = read_limit(path, request);
  Time until_answer = path.fixed;
  for (const Hop& hop : path.lanes[0].hops) until_answer += hop.link().latency;
  path.asked_ahead_bytes =
      path.limit == Rate() ? std::numeric_limits<std::uint32_t>::max() : path.limit.bytes_in(until_answer);
  return path;
}

}  // namespace railyard::transport
