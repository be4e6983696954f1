// Collective: messages from and to virtual members of a folded group, which are simulated without hardware
// (running_members.h). Such a member has no links in the fabric. Here it has one link out and one in inside its server, and one
// to and one from other servers; its messages share each of them (shared_links.h). A message crosses the links of its sender
// and of its receiver at the same time. Members that exist receive from other servers over such a link, too: all that they
// receive is sent by virtual members.
#include "collective/collective.h"
#include "collective/marks.h"

namespace railyard::collective {

std::uint32_t Collective::add_virtual(std::uint32_t number, const Transfer& t, const transport::Message& message) {
  if (free_virtual_.empty()) {
    free_virtual_.push_back(static_cast<std::uint32_t>(virtual_messages_.size()));
    virtual_messages_.emplace_back();
  }
  const std::uint32_t slot = free_virtual_.back();
  free_virtual_.pop_back();
  transport::Message twice = message;
  twice.bytes *= 2;
  VirtualMessage& sent = virtual_messages_[slot] = VirtualMessage();
  sent.thread = number;
  sent.transfer = t;
  sent.mark = message.cookie;
  sent.tell_left = message.tell_left;
  const Time alone = fabric_.uncontended(message);
  sent.takes = fabric_.uncontended(twice) - alone;
  sent.latency = alone - sent.takes;
  sent.written = fabric_.now();
  if (message.source_rate != Rate()) sent.written += message.source_rate.time_for(message.bytes);
  return slot;
}

void Collective::use_virtual(std::uint32_t slot, const SharedLinks::Path& path, std::array<std::uint32_t, 2> parts,
                             std::uint32_t of) {
  const VirtualMessage& sent = virtual_messages_[slot];
  virtual_links_.push(fabric_.now(), sent.thread, path, {parts, Time::fs(sent.takes.fs() / of), slot});
  if (virtual_wake_ == fabric_.now()) return;
  virtual_wake_ = fabric_.now();  // rates are solved once, when all messages of this instant are there
  put_off(Time(), kCrossedTag, 0);
}

void Collective::post_virtual(std::uint32_t number, const Transfer& t, const transport::Message& message) {
  const std::uint32_t member = number / program_->threads(), to = thread_in(message.cookie) / program_->threads();
  const std::uint32_t slot = add_virtual(number, t, message), all = running_.runs_for(member);
  virtual_messages_[slot].crossings = 1;
  const auto path = [&](VirtualLink from, VirtualLink at) {  // a switch takes turns among senders
    return SharedLinks::Path{{{virtual_link(member, from), SharedLinks::kOwnInput}, {virtual_link(to, at), member}}};
  };
  if (leaves_server(member, t)) {
    use_virtual(slot, path(kToOthers, kFromOthers), {all, all}, all);
    return;
  }
  // The members for which this one runs do the same now. A sum reads from all of them, a multicast writes to all of them.
  const std::uint32_t out = t.kind == Transfer::Kind::reduce ? all * all : all;
  const std::uint32_t in = t.kind == Transfer::Kind::multicast ? all * all : all;
  use_virtual(slot, path(kOut, kIn), {out, in}, all);
}

void Collective::reach_virtual(std::uint32_t number, const Transfer& t, transport::Message& message) {
  const std::uint32_t to = thread_in(message.cookie) / program_->threads();
  const std::uint32_t slot = add_virtual(number, t, message);
  virtual_messages_[slot].crossings = 2;
  virtual_messages_[slot].tell_left = false;  // the fabric tells
  // Each of the members for which the receiver runs receives one of the like messages.
  use_virtual(slot, {{{virtual_link(to, kFromOthers), number / program_->threads()}, {}}}, {1, 1},
              running_.runs_for(to));
  message.cookie = pack(number, slot, 0, true);
}

void Collective::wake_for_virtual() {
  const Time next = virtual_links_.next();
  if (next >= virtual_wake_) return;
  virtual_wake_ = next;
  put_off(next - fabric_.now(), kCrossedTag, 0);
}

void Collective::cross_virtual_links() {
  if (virtual_wake_ != fabric_.now()) return;  // replaced by an earlier event
  virtual_links_.cross(fabric_.now(), [&](std::uint32_t slot) {
    const VirtualMessage& sent = virtual_messages_[slot];
    if (sent.tell_left) put_off(since(sent.written, fabric_.now()), kLeftTag, sent.thread);
    cross_virtual(slot, sent.latency);
  });
  virtual_wake_ = Time::max();
  wake_for_virtual();
}

void Collective::cross_virtual(std::uint32_t slot, Time latency) {
  VirtualMessage& sent = virtual_messages_[slot];
  if (--sent.crossings != 0) return;
  free_virtual_.push_back(slot);
  const std::uint32_t member = sent.thread / program_->threads();
  latency += since(sent.written, fabric_.now());
  if (leaves_server(member, sent.transfer)) latency += spec_.cost.network_receive;
  if (running_.exists(member) || !leaves_server(member, sent.transfer)) {
    put_off(latency, kArriveTag, sent.mark);
    return;
  }
  --members_[member].under_way;
  running_.for_each_landing(member, sent.transfer, [&](const RunningMembers::Landing& at) {
    ++members_[member].under_way;
    put_off(latency, kArriveTag, pack(sent.thread, thread_of(at.number, at.thread), at.lane, false));
  });
}

}  // namespace railyard::collective
