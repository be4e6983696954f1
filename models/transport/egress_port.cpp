#include "transport/egress_port.h"

#include <algorithm>

namespace railyard::transport {

EgressPort::EgressPort(const LinkDirection& link, const ChannelPlan& plan)
    : link_(link), line_(link.rate), weight_(plan.weight), priority_(plan.priority) {
  windowed_ = link.paced();
  if (windowed_)
    for (Channel& channel : channels_) channel.window = ByteClock(link.round_trip().fs(), link.buffer_bytes);
  for (std::size_t vc = 0; vc < kVirtualChannels; ++vc) channels_at_[priority_[vc]] |= 1u << vc;
}

void EgressPort::add(std::uint8_t channel, std::uint32_t requester, Time now) {
  RequesterSet& waiting = channels_[channel].waiting;
  if (waiting.empty() && now > free_[priority_[channel]]) waiting.forget();
  waiting.insert(requester, now == channels_[channel].served_at && requester == waiting.last());
  waiting_channels_ |= 1u << channel;
}

void EgressPort::remove(const Choice& choice, Time now) {
  Channel& c = channels_[choice.channel];
  c.waiting.erase(choice.requester);
  c.waiting.served(choice.requester, choice.wire_bytes);
  c.served_at = now;
  if (c.waiting.empty()) waiting_channels_ &= ~(1u << choice.channel);
}

Crossing EgressPort::start(std::uint8_t vc, Time now, const WireCost& cost, Time tail_here) {
  Channel& channel = channels_[vc];
  const std::uint8_t priority = priority_[vc];

  // Acks and DLLPs went out while the line was idle; what is left of them goes in front of this train.
  if (debt_ != 0 && now > free_[0]) debt_ -= std::min(debt_, link_.rate.bytes_in(now - free_[0]));
  if (now > free_[priority]) line_.reset();
  const Time duration = line_.advance(cost.bytes + debt_);
  debt_ = 0;
  for (std::size_t q = 0; q <= priority; ++q) {
    // A lower train that is interrupted at its packet boundary goes on afterwards, packet by packet.
    if (q < priority && now < free_[q]) grid_[q].from = later(grid_[q].from, now) + duration;
    free_[q] = later(free_[q], now) + duration;
  }

  Time sent = now + duration;
  if (windowed_) {
    if (now > channel.pace) channel.window.reset();
    sent = later(sent, now + channel.window.advance(cost.bytes));
    channel.pace = sent;
  }
  if (link_.buffer_bytes != 0) {
    channel.credit.settle(now);
    channel.credit.take(cost.bytes);
  }
  quantum_ = std::max(quantum_, cost.bytes);
  if (cost.first_packet != packet_bytes_) {
    packet_bytes_ = cost.first_packet;
    packet_time_ = link_.rate.time_for(packet_bytes_);
  }
  grid_[priority] = {now, packet_time_};

  Crossing crossing;
  crossing.leaves = later(sent, tail_here);
  crossing.head = now + link_.latency;
  crossing.tail = crossing.leaves + link_.latency;
  crossing.first_packet = sooner(crossing.head + packet_time_, crossing.tail);
  crossing.line_free = free_[priority];
  crossing.wire_bytes = cost.bytes;
  return crossing;
}

bool EgressPort::quiet(Time now) {
  if (waiting_channels_ != 0 || now <= free_[0]) return false;
  for (Channel& channel : channels_)
    if (channel.pace > now || channel.credit.below(1, now) != now) return false;
  return true;
}

Time EgressPort::credit(std::uint8_t vc, Bytes bytes, Time left) {
  const Time usable = left + link_.credit_latency;
  // An ample buffer keeps no books: nothing ever waits for it.
  if (link_.buffer_bytes != 0) channels_[vc].credit.give_back(usable, bytes);
  return usable;
}

Time EgressPort::credit_time(Channel& channel, Bytes bytes, Time now) {
  if (link_.buffer_bytes == 0) return now;
  channel.largest = std::max(channel.largest, bytes);
  return channel.credit.below(link_.buffer_bytes + channel.largest, now);
}

Time EgressPort::next_packet_boundary(std::size_t priority, Time now) const {
  // On the line now: the highest of the lower priorities whose charge has not ended.
  std::size_t q = priority - 1;
  while (q > 0 && free_[q] <= now) --q;
  const Grid& grid = grid_[q];
  if (now <= grid.from) return grid.from;
  if (grid.packet == Time()) return now;
  return sooner(free_[q], grid.from + grid.packet * ceil_div((now - grid.from).fs(), grid.packet.fs()));
}

}  // namespace railyard::transport
