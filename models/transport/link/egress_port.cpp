#include "transport/link/egress_port.h"

#include <algorithm>

namespace railyard::transport {

EgressPort::VcState& EgressPort::first_use(std::uint8_t vc) {
  used_ |= 1u << vc;
  if (lead_ == kNoVc) {
    lead_ = vc;
    return made(lead_state_, vc);
  }
  if (others_ == nullptr) others_ = std::make_unique<std::array<std::unique_ptr<VcState>, kVirtualChannels>>();
  (*others_)[vc] = std::make_unique<VcState>();
  return made(*(*others_)[vc], vc);
}

EgressPort::VcState& EgressPort::made(VcState& state, std::uint8_t vc) {
  if (kind_->window(vc).room.packets != 0) state.headers = std::make_unique<Headers>();
  return state;
}

Time EgressPort::settled_from(VcState& c, Time now) {
  const Time bytes = c.credit.below(1, now);
  return c.headers == nullptr ? bytes : later(bytes, c.headers->credit.below(1, now));
}

void EgressPort::become(PortKind& kind) {
  kind_ = &kind;
  line_carry_ = 0;  // counted in fractions of the old rate's time unit
}

void EgressPort::fail() {
  failed_ = true;
  for (std::uint8_t vc = 0; vc < kVirtualChannels; ++vc)
    if (used(vc) != nullptr) state(vc).waiting = RequesterSet();
  waiting_vcs_ = starved_ = 0;
}

bool EgressPort::add(std::uint8_t vc, std::uint32_t requester, Time now) {
  VcState& c = state(vc);
  const bool idle = waiting_vcs_ == 0 && now > free_[0];
  bool home = false;
  if (idle) forget_turns();
  if (c.waiting.empty()) {
    if (now > free_[kind_->plan.priority[vc]]) c.waiting.forget();
    if (settled_from(c, now) == now) {
      home = true;
      c.largest = 0;
      if (c.headers != nullptr) c.headers->largest = 0;
    }
  }
  c.waiting.insert(requester, now == c.served_at && requester == c.waiting.last());
  waiting_vcs_ |= 1u << vc;
  return idle && home;
}

void EgressPort::forget_turns() {
  for (std::uint32_t all = used_; all != 0; all &= all - 1) {
    VcState& c = state(static_cast<std::uint8_t>(__builtin_ctz(all)));
    c.waiting.forget();
    c.deficit = 0;
  }
  had_deficit_ = 0;
  turn_ = 0;
  quantum_ = 0;
}

void EgressPort::remove(const Choice& choice, Time now) {
  VcState& c = state(choice.vc);
  c.waiting.erase(choice.requester);
  c.waiting.served(choice.requester, choice.wire_bytes);
  c.served_at = now;
  if (c.waiting.empty()) waiting_vcs_ &= static_cast<std::uint16_t>(~(1u << choice.vc));
}

Crossing EgressPort::start(std::uint8_t vc, Time now, const WireCost& cost, Time tail_here) {
  VcState& c = state(vc);
  const LinkDirection& link = kind_->link;
  const std::uint8_t priority = kind_->plan.priority[vc];

  // Acks and DLLPs were sent while the line was idle; the rest is sent in front of this train.
  if (debt_ != 0 && now > free_[0]) {
    const Time idle = now - free_[0];
    debt_ = kind_->debt.time_for(debt_) <= idle ? 0 : debt_ - link.rate.bytes_in(idle);
  }
  if (now > free_[priority]) line_carry_ = 0;
  const Time owed = debt_ == 0 ? Time() : kind_->debt.time_for(debt_);
  const Time duration = kind_->line.advance(cost.bytes + debt_, line_carry_);
  debt_ = 0;
  for (std::size_t q = 0; q <= priority; ++q) {
    // A train of lower priority that is interrupted at its packet boundary continues afterwards, packet by packet.
    if (q < priority && now < free_[q]) grid_[q].from = later(grid_[q].from, now) + duration;
    free_[q] = later(free_[q], now) + duration;
  }

  Time sent = now + duration;
  PortKind::Window& window = kind_->window(vc);
  if (window.paced_by_bytes) {
    if (now > c.pace) c.window_carry = 0;
    sent = later(sent, now + window.by_bytes.advance(cost.credit_bytes, c.window_carry));
  }
  if (c.headers != nullptr) {
    if (now > c.pace) c.headers->carry = 0;
    sent = later(sent, now + window.by_packets.advance(cost.packets, c.headers->carry));
    c.headers->credit.settle(now);
    c.headers->credit.take(cost.packets);
  }
  if (window.paced_by_bytes || c.headers != nullptr) c.pace = sent;
  if (window.room.bytes != 0) {
    c.credit.settle(now);
    c.credit.take(cost.credit_bytes);
  }
  quantum_ = std::max(quantum_, cost.bytes);
  const Time packet_time = kind_->packet_time(cost.first_packet);
  if (!kind_->one_priority) grid_[priority] = {now, packet_time};  // only a higher priority uses the packet boundaries

  Crossing crossing;
  crossing.leaves = later(sent, tail_here);
  crossing.head = now + link.latency;
  crossing.tail = crossing.leaves + link.latency;
  crossing.first_packet = sooner(crossing.head + packet_time, crossing.tail);
  crossing.owed = owed;
  crossing.line_free = free_[priority];
  crossing.wire_bytes = cost.bytes;
  crossing.credit_bytes = cost.credit_bytes;
  return crossing;
}

Time EgressPort::quiet_from(Time now) {
  if (waiting_vcs_ != 0) return Time::max();
  Time from = free_[0] + Time::fs(1);
  if (debt_ != 0) from = later(from, free_[0] + kind_->debt.time_for(debt_));
  for (std::uint32_t all = used_; all != 0; all &= all - 1) {
    VcState& c = state(static_cast<std::uint8_t>(__builtin_ctz(all)));
    from = later(from, later(c.pace, settled_from(c, now)));
  }
  return from;
}

Bytes EgressPort::outstanding(std::uint8_t vc) const {
  return used(vc) != nullptr ? used(vc)->credit.outstanding() : 0;
}
Bytes EgressPort::most_outstanding(std::uint8_t vc) const {
  return kind_->window(vc).room.bytes + (used(vc) != nullptr ? 2 * used(vc)->largest : 0);
}
Bytes EgressPort::unreturned(std::uint8_t vc) const { return used(vc) != nullptr ? used(vc)->credit.unreturned() : 0; }

Bytes EgressPort::packets_outstanding(std::uint8_t vc) const {
  return used(vc) != nullptr && used(vc)->headers != nullptr ? used(vc)->headers->credit.outstanding() : 0;
}
Bytes EgressPort::most_packets_outstanding(std::uint8_t vc) const {
  const VcState* c = used(vc);
  return kind_->window(vc).room.packets + (c != nullptr && c->headers != nullptr ? 2 * c->headers->largest : 0);
}
Bytes EgressPort::packets_unreturned(std::uint8_t vc) const {
  return used(vc) != nullptr && used(vc)->headers != nullptr ? used(vc)->headers->credit.unreturned() : 0;
}

Time EgressPort::credit(std::uint8_t vc, Bytes bytes, Bytes packets, Time left) {
  const Time usable = left + kind_->link.credit_latency;
  // Unlimited room needs no records: no train ever waits for it.
  const Room& room = kind_->window(vc).room;
  if (room.bytes != 0) state(vc).credit.give_back(usable, bytes);
  if (room.packets != 0) state(vc).headers->credit.give_back(usable, packets);
  return usable;
}

Time EgressPort::credit_time(std::uint8_t vc, VcState& c, const WireCost& cost, Time now) {
  const Room& room = kind_->window(vc).room;
  Time when = now;
  if (room.bytes != 0) {
    c.largest = std::max(c.largest, cost.credit_bytes);
    when = c.credit.below(room.bytes + c.largest, now);
  }
  if (c.headers != nullptr) {
    c.headers->largest = std::max(c.headers->largest, cost.packets);
    when = later(when, c.headers->credit.below(room.packets + c.headers->largest, now));
  }
  return when;
}

Time EgressPort::next_packet_boundary(std::size_t priority, Time now) const {
  // The current charge on the line: the highest of the lower priorities whose charge has not ended.
  std::size_t q = priority - 1;
  while (q > 0 && free_[q] <= now) --q;
  const Grid& grid = grid_[q];
  if (now <= grid.from) return grid.from;
  if (grid.packet == Time()) return now;
  return sooner(free_[q], grid.from + grid.packet * ceil_div((now - grid.from).fs(), grid.packet.fs()));
}

}  // namespace railyard::transport
