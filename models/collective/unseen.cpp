// Collective: messages from and to members of a folded group that run but do not exist (running_members.h). Such a member has
// no links in the fabric. Here it has one link out and one in inside its server, and one to and one from other servers; its
// messages share each of them (shared_links.h). A message crosses the links of its sender and of its receiver at the same
// time. Members that exist receive from other servers over such a link, too: all that they receive is sent by members that
// do not exist.
#include "collective/collective.h"
#include "collective/marks.h"

namespace railyard::collective {

std::uint32_t Collective::add_unseen(std::uint32_t number, const Transfer& t, const transport::Message& message) {
  if (free_unseen_.empty()) {
    free_unseen_.push_back(static_cast<std::uint32_t>(unseen_.size()));
    unseen_.emplace_back();
  }
  const std::uint32_t slot = free_unseen_.back();
  free_unseen_.pop_back();
  transport::Message twice = message;
  twice.bytes *= 2;
  Unseen& unseen = unseen_[slot] = Unseen();
  unseen.thread = number;
  unseen.transfer = t;
  unseen.mark = message.cookie;
  unseen.tell_left = message.tell_left;
  const Time alone = fabric_.uncontended(message);
  unseen.takes = fabric_.uncontended(twice) - alone;
  unseen.latency = alone - unseen.takes;
  unseen.written = fabric_.now();
  if (message.source_rate != Rate()) unseen.written += message.source_rate.time_for(message.bytes);
  return slot;
}

void Collective::use_unseen(std::uint32_t slot, const SharedLinks::Way& way, std::array<std::uint32_t, 2> parts,
                            std::uint32_t of) {
  const Unseen& unseen = unseen_[slot];
  unseen_links_.push(fabric_.now(), unseen.thread, way, {parts, Time::fs(unseen.takes.fs() / of), slot});
  if (unseen_wake_ == fabric_.now()) return;
  unseen_wake_ = fabric_.now();  // rates are solved once, when all messages of this instant are there
  put_off(Time(), kCrossedTag, 0);
}

void Collective::post_unseen(std::uint32_t number, const Transfer& t, const transport::Message& message) {
  const std::uint32_t member = number / program_->threads(), to = thread_in(message.cookie) / program_->threads();
  const std::uint32_t slot = add_unseen(number, t, message), all = running_.runs_for(member);
  unseen_[slot].crossings = 1;
  const auto way = [&](UnseenWay from, UnseenWay at) {  // a switch takes turns among senders
    return SharedLinks::Way{{{unseen_link(member, from), SharedLinks::kOwnInput}, {unseen_link(to, at), member}}};
  };
  if (leaves_server(member, t)) {
    use_unseen(slot, way(kToOthers, kFromOthers), {all, all}, all);
    return;
  }
  // The members for which this one runs do the same now. A sum reads from all of them, a multicast writes to all of them.
  const std::uint32_t out = t.kind == Transfer::Kind::reduce ? all * all : all;
  const std::uint32_t in = t.kind == Transfer::Kind::multicast ? all * all : all;
  use_unseen(slot, way(kOut, kIn), {out, in}, all);
}

void Collective::reach_unseen(std::uint32_t number, const Transfer& t, transport::Message& message) {
  const std::uint32_t to = thread_in(message.cookie) / program_->threads();
  const std::uint32_t slot = add_unseen(number, t, message);
  unseen_[slot].crossings = 2;
  unseen_[slot].tell_left = false;  // the fabric tells
  // Each of the members for which the receiver runs receives one of the like messages.
  use_unseen(slot, {{{unseen_link(to, kFromOthers), number / program_->threads()}, {}}}, {1, 1}, running_.runs_for(to));
  message.cookie = pack(number, slot, 0, true);
}

void Collective::wake_for_unseen() {
  const Time next = unseen_links_.next();
  if (next >= unseen_wake_) return;
  unseen_wake_ = next;
  put_off(next - fabric_.now(), kCrossedTag, 0);
}

void Collective::cross_unseen_links() {
  if (unseen_wake_ != fabric_.now()) return;  // replaced by an earlier event
  unseen_links_.cross(fabric_.now(), [&](std::uint32_t slot) {
    const Unseen& unseen = unseen_[slot];
    if (unseen.tell_left) put_off(since(unseen.written, fabric_.now()), kLeftTag, unseen.thread);
    cross_unseen(slot, unseen.latency);
  });
  unseen_wake_ = Time::max();
  wake_for_unseen();
}

void Collective::cross_unseen(std::uint32_t slot, Time latency) {
  Unseen& unseen = unseen_[slot];
  if (--unseen.crossings != 0) return;
  free_unseen_.push_back(slot);
  const std::uint32_t member = unseen.thread / program_->threads();
  latency += since(unseen.written, fabric_.now());
  if (leaves_server(member, unseen.transfer)) latency += spec_.cost.network_receive;
  if (running_.exists(member) || !leaves_server(member, unseen.transfer)) {
    put_off(latency, kArriveTag, unseen.mark);
    return;
  }
  --members_[member].under_way;
  running_.for_each_landing(member, unseen.transfer, [&](const RunningMembers::Landing& at) {
    ++members_[member].under_way;
    put_off(latency, kArriveTag, pack(unseen.thread, thread_of(at.number, at.thread), at.lane, false));
  });
}

}  // namespace railyard::collective
