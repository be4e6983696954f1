// Collective: what an action costs the CTAs of its thread, and how its transfers enter the fabric.
#include <algorithm>

#include "collective/collective.h"
#include "collective/marks.h"
#include "collective/nccl_tables.h"
#include "collective/reuse.h"
#include "transport/device/queue_pairs.h"
#include "transport/device/spread.h"

namespace railyard::collective {

namespace {

/// Raises a lane of its sender.
bool returns(Transfer::Kind kind) { return kind == Transfer::Kind::reduce || kind == Transfer::Kind::aggregate; }

Rate times(Rate rate, std::uint32_t n) { return Rate::bytes_per_second(rate.bytes_per_second() * n); }

}  // namespace

template <class With>
void Collective::for_each_lane(std::uint32_t member, const Transfer& t, With with) {
  const auto at = [&](const RunningMembers::Landing& l) { with(lane(thread_of(l.number, l.thread), l.lane)); };
  if (returns(t.kind)) {
    at({member, t.thread, t.lane});
  } else if (t.kind == Transfer::Kind::multicast) {
    running_.for_each_landing_on_server(member, t.thread, t.lane, at);
  } else {
    running_.for_each_landing(member, t, at);
  }
}

bool Collective::may_start(std::uint32_t number, const Action& action) {
  for (std::uint32_t l = 0; l < action.lanes; ++l)
    if (lane(number, action.first_lane + l).arrived < action.arrivals) return false;
  if (spec_.slots == 0) return true;
  bool room = true;
  for (const Transfer& t : action.transfers) {
    // A CTA sends a sum before it reads the next one. Channels differ in phase: one sum is read while another one is
    // sent. Between servers, the proxies of both ends add as many slots again.
    const std::uint32_t member = number / program_->threads();
    const std::uint32_t most = t.kind == Transfer::Kind::reduce ? 2 : spec_.slots * (leaves_server(member, t) ? 2 : 1);
    for_each_lane(member, t, [&](Lane& to) {
      if (!room || to.sent < to.consumed + most) return;
      to.blocked = number;
      room = false;
    });
  }
  return room;
}

Time Collective::preparation(std::uint32_t member, std::uint32_t thread, const Action& action) const {
  const StepCost& cost = spec_.cost;
  const std::uint32_t channels = program_->channels(thread);
  Bytes moved = action.work_bytes;
  for (const Transfer& t : action.transfers)
    if (t.kind != Transfer::Kind::flag) moved += t.range.bytes;
  Time time = action.continues ? Time() : cost.step;
  const Bytes each = ceil_div(moved, channels), in_step = action.continues ? 0 : cost.line_bytes;
  const Time line = action.lanes != 0 && cost.polled_line != Time() ? cost.polled_line : cost.line;
  if (cost.line_bytes != 0 && each > in_step) time += line * ceil_div(each - in_step, cost.line_bytes);
  return time + copying(member, thread, action);
}

Time Collective::copying(std::uint32_t member, std::uint32_t thread, const Action& action) const {
  Bytes copied = action.work_bytes;
  bool read = false;
  for (const Transfer& t : action.transfers) {
    if (t.kind == Transfer::Kind::flag || !leaves_server(member, t))
      continue;  // inside a server, data is written while it leaves
    // Copies to the buffers of the proxies. A copy is a read and a store; data for several receivers is read once.
    copied += read ? t.range.bytes / 2 : t.range.bytes;
    read = true;
  }
  const Rate rate = spec_.cost.copy_rate != Rate() ? spec_.cost.copy_rate : spec_.cost.channel_rate;
  if (rate == Rate() || copied == 0) return Time();
  return times(rate, program_->channels(thread)).time_for(copied);
}

Time Collective::writing(std::uint32_t member, std::uint32_t thread, const Action& action) const {
  if (spec_.cost.channel_rate == Rate()) return Time();
  Bytes written = 0;
  for (const Transfer& t : action.transfers)
    if (t.kind == Transfer::Kind::write && !leaves_server(member, t)) written += t.range.bytes;
  return times(spec_.cost.channel_rate, program_->channels(thread)).time_for(written);
}

Time Collective::posting(Member& member, const Transfer& t) {
  if (spec_.cost.proxy_rate == Rate()) return spec_.cost.network_send;
  member.proxy_free = later(member.proxy_free, fabric_.now()) + spec_.cost.proxy_rate.time_for(t.range.bytes);
  return (member.proxy_free - fabric_.now()) + spec_.cost.network_send;
}

bool Collective::transfer(std::uint32_t number, const Action& action) {
  Thread& thread = threads_[number];
  const std::uint32_t member = number / program_->threads();
  std::uint32_t writes = 0;
  for (const Transfer& t : action.transfers)
    if (t.kind == Transfer::Kind::write && !leaves_server(member, t)) ++writes;
  Rate each;
  if (spec_.cost.channel_rate != Rate() && writes != 0)
    each = Rate::bytes_per_second(
        times(spec_.cost.channel_rate, program_->channels(number % program_->threads())).bytes_per_second() *
        spec_.cost.wire_numerator / spec_.cost.wire_denominator / writes);
  for (const Transfer& t : action.transfers) {
    ++members_[member].under_way;
    for_each_lane(member, t, [](Lane& to) { ++to.sent; });
    if (t.kind <= Transfer::Kind::flag && t.to == running_.member_of(member)) {
      put_off(Time(), kArriveTag, pack(number, thread_of(member, t.thread), t.lane, false));
    } else if (!leaves_server(member, t)) {
      const bool watched = t.kind == Transfer::Kind::multicast || (t.kind == Transfer::Kind::write && each != Rate());
      if (watched) ++thread.leaving;
      post(number, t, each, watched);
    } else if (spec_.cost.network_send == Time()) {
      post(number, t, Rate(), false);
    } else {
      if (free_posted_.empty()) {
        free_posted_.push_back(static_cast<std::uint32_t>(posted_.size()));
        posted_.emplace_back();
      }
      const std::uint32_t slot = free_posted_.back();
      free_posted_.pop_back();
      posted_[slot] = {number, t};
      put_off(posting(members_[member], t), kPostTag, slot);
    }
  }
  thread.busy = thread.leaving != 0;
  thread.sends_from = fabric_.now();
  return !thread.busy;
}

void Collective::post(std::uint32_t number, const Transfer& t, Rate rate, bool tell_left) {
  const std::uint32_t member = number / program_->threads();
  const bool in_switch = t.kind == Transfer::Kind::reduce || t.kind == Transfer::Kind::multicast;
  const bool comes_to_itself = in_switch || returns(t.kind);
  const std::uint32_t from = running_.member_of(member);
  RunningMembers::Landing landing{member, t.thread, t.lane};
  if (!comes_to_itself) running_.for_each_landing(member, t, [&](const RunningMembers::Landing& at) { landing = at; });
  transport::Message message;
  message.source = group_->members[group_->exists(from) ? from : group_->like[from]];
  if (t.kind == Transfer::Kind::aggregate)
    message.destination = group_->sum_nodes[from].front();
  else
    message.destination = comes_to_itself ? message.source : running_.destination(member, t);
  message.bytes = t.kind == Transfer::Kind::flag ? t.range.bytes : spec_.cost.wire_bytes(t.range.bytes);
  message.offset = t.range.offset;
  if (in_switch) {
    message.bytes = std::max<Bytes>(1, message.bytes);
    message.kind =
        t.kind == Transfer::Kind::reduce ? transport::MessageKind::reduce : transport::MessageKind::multicast;
    message.group = group_->multicast_group[running_.server_of(member)];
  }
  message.traffic_class = spec_.traffic_class;
  message.source_reads = reads_operands_ ? 2 : 1;
  const std::uint32_t thread = number % program_->threads();
  message.queue_pair =
      transport::of_set(spec_.queue_pair_set, thread);  // a slow writer does not delay the messages of other threads
  // Messages to different copies have one destination, but do not wait for each other.
  const std::uint32_t apart = comes_to_itself ? 0 : running_.copies_apart(member, t);
  if (apart > 1) message.queue_pair += (apart - 1) * program_->threads();
  const bool to_peers = spec_.operation == Operation::all_to_all || spec_.operation == Operation::send_recv;
  if (t.kind == Transfer::Kind::write)
    message.queue_pair |= transport::kSpreadOverNics | (to_peers ? 0 : transport::kSpreadEvenly);
  message.source_rate = t.kind == Transfer::Kind::write ? rate : Rate();
  message.tell_left = tell_left;
  message.client = this;
  message.cookie =
      pack(number, thread_of(landing.number, landing.thread), landing.lane, t.kind == Transfer::Kind::multicast);
  if (!group_->exists(from)) {
    post_virtual(number, t, message);
    return;
  }
  if (!running_.exists(landing.number)) reach_virtual(number, t, message);
  give(message);
}

void Collective::give(const transport::Message& message) {
  const transport::Message& sent = fabric_.send(message);
  if (recording_ && fabric_.memories() != nullptr)
    fabric_.memories()->keep(sent, fabric_.now() - recording_from_, *recording_->memory);
}

void Collective::add_ahead(std::uint32_t number, const Action& action) {
  Thread& thread = threads_[number];
  const std::uint32_t member = number / program_->threads(), which = number % program_->threads();
  const Time own = writing(member, which, action), took = fabric_.now() - thread.sends_from;
  if (took <= own) return;
  // The waiting channel itself is idle; the other channels work.
  const Time others = Time::fs((took - own).fs() / spec_.channels * (spec_.channels - 1));
  const Time whole = preparation(member, which, action) + own;
  const Time apart =
      sooner(Time::fs(whole.fs() / nccl_tables().fitted.actions_to_drift_one * thread.next), whole * spec_.slots);
  thread.ahead = sooner(thread.ahead + others, apart);
}

}  // namespace railyard::collective
