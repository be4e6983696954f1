#include "collective/collective.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "collective/marks.h"
#include "collective/reuse.h"

namespace railyard::collective {

Collective::Collective(transport::Fabric& fabric) : fabric_(fabric) {}
Collective::~Collective() = default;

void Collective::prepare(const CollectiveSpec& spec, const Group& group, CollectiveClient& client, ReuseTable* reuse,
                         std::optional<std::uint64_t> first_turn) {
  if (!program_ || group_ != &group || spec_.key() != spec.key()) {
    spec_ = spec;
    group_ = &group;
    program_ = make_program(spec_, group);
    // A reducing step reads two operands: the received data and its own.
    reads_operands_ = spec.operation == Operation::all_reduce || spec.operation == Operation::reduce_scatter;
    running_.find(group, *program_);
  }
  if (reuse != nullptr && spec.launch < reuse->least_launch())
    throw std::logic_error("a collective has a shorter launch than the least launch of its group");
  client_ = &client;
  members_.assign(running_.size(), Member());
  threads_.assign(members_.size() * program_->threads(), Thread());
  lanes_.assign(threads_.size() * running_.lanes(), Lane());
  virtual_links_.clear(group.folded() ? virtual_link(running_.size(), kOut) : 0);
  virtual_wake_ = Time::max();
  virtual_messages_.clear();
  free_virtual_.clear();
  unfinished_.assign(running_.seen_by_clients(), 0);
  for (std::uint32_t m = 0; m < running_.size(); ++m) ++unfinished_[running_.client_of(m)];
  for (std::uint32_t m = 0; m < running_.size(); ++m) {
    for (std::uint32_t t = 0; t < program_->threads(); ++t) {
      Thread& thread = threads_[thread_of(m, t)];
      thread.actions = program_->actions(running_.member_of(m), t);
      if (thread.actions != 0) ++members_[m].threads_left;
    }
  }
  sums_.prepare(group, program_->threads());
  entered_ = done_ = told_ = put_off_ = 0;
  status_ = Status::ok;
  first_turn_ = first_turn ? *first_turn : fabric_.calendar().take_turns(2ull * running_.size());
  trails_.clear();
  begun_ = false;
  replayed_ = nullptr;
  known_ = nullptr;
  reuse_ = reuse;
  recording_.reset();
  first_entry_ = last_entry_ = Time();
}

void Collective::enter(std::uint32_t member) {
  const std::uint32_t number = running_.seen(member);
  enter_one(number);
  if (!group_->folded() || program_->is_alike()) return;
  for (std::uint32_t other = 0; other < running_.size(); ++other)
    if (other != number && group_->like[running_.member_of(other)] == running_.member_of(number)) enter_one(other);
}

void Collective::enter_one(std::uint32_t member) {
  Member& m = members_[member];
  m.entered = true;
  m.entered_at = fabric_.now();
  if (entered_++ == 0) first_entry_ = fabric_.now();
  last_entry_ = fabric_.now();
  // A virtual member enters as the member does that it is like.
  if (causes_ != nullptr) causes_->on_entered(*this, running_.client_of(member));
  put_off_start(member, fabric_.now());
}

void Collective::put_off_start(std::uint32_t member, Time entry) {
  // Starts come last at their instant, in the order of members. So the order of entries at one instant does not matter.
  if (causes_ != nullptr) causes_->on_put_off(*this, kStartTag, member, Time());
  ++put_off_;
  fabric_.calendar().at_last(entry + spec_.launch, turn(member, false), *this, kStartTag, member);
}

void Collective::enter_all(Time when) {
  for (std::uint32_t m = 0; m < running_.size(); ++m) {
    members_[m].entered = true;
    members_[m].entered_at = when;
    put_off_start(m, when);
  }
  entered_ = running_.size();
  first_entry_ = last_entry_ = when;
}

void Collective::put_off(Time wait, std::uint32_t tag, std::uint64_t data, Time copying) {
  if (causes_ != nullptr) causes_->on_put_off(*this, tag, data, copying);
  ++put_off_;
  fabric_.calendar().at(fabric_.now() + wait, *this, tag, data);
}

void Collective::start(std::uint32_t member) {
  if (!begun_) {
    begun_ = true;
    reuse();
  }
  if (replayed_ != nullptr) {
    if (known_ != nullptr && (put_off_ == 0 || first_entry_ != last_entry_)) replay(*std::exchange(known_, nullptr));
    return;
  }
  members_[member].started = true;
  for (std::uint32_t t = 0; t < program_->threads(); ++t) advance(thread_of(member, t));
  check_done(member);
}

const Action& Collective::current(std::uint32_t thread) {
  action_.clear();
  program_->describe(running_.member_of(thread / program_->threads()), thread % program_->threads(),
                     threads_[thread].next, action_);
  return action_;
}

void Collective::advance(std::uint32_t number) {
  Thread& thread = threads_[number];
  const std::uint32_t member = number / program_->threads();
  if (!members_[member].started) return;
  while (!thread.busy && thread.next < thread.actions) {
    const Action& action = current(number);
    if (!may_start(number, action)) return;
    Time prepared = preparation(member, number % program_->threads(), action);
    if (thread.next + 1 != thread.actions) {
      const Time done = sooner(prepared, thread.ahead);
      prepared = prepared - done;
      thread.ahead = thread.ahead - done;
    }
    if (prepared != Time()) {
      thread.busy = true;
      put_off(prepared, kPreparedTag, number, sooner(prepared, copying(member, number % program_->threads(), action)));
      return;
    }
    if (!transfer(number, action)) return;
    complete(number, action);
  }
}

void Collective::complete(std::uint32_t number, const Action& action) {
  Thread& thread = threads_[number];
  const std::uint32_t member = number / program_->threads();
  if (++thread.next == thread.actions) --members_[member].threads_left;
  const std::uint32_t signal_thread = action.signal_thread, signal_lane = action.signal_lane;
  const std::uint32_t first = action.first_lane, lanes = action.lanes, arrivals = action.arrivals;
  if (spec_.slots != 0) {
    for (std::uint32_t set = 0; set < running_.runs_for(member); ++set)
      for (std::uint32_t l = first; l < first + lanes; ++l) {
        Lane& from = lane(number, set * program_->lanes() + l);
        from.consumed = arrivals;
        if (from.blocked == kNobody) continue;
        const std::uint32_t blocked = from.blocked;
        from.blocked = kNobody;
        advance(blocked);  // overwrites action_, so `action` must not be used below
      }
  }
  if (signal_thread != Action::kNone) arrive(thread_of(member, signal_thread), signal_lane);
}

void Collective::arrive(std::uint32_t thread, std::uint32_t number) {
  ++lane(thread, number).arrived;
  advance(thread);
}

void Collective::on_left(transport::Message& message) {
  if (status_ != Status::ok) return;
  const std::uint32_t number = sender_in(message.cookie);
  if (--threads_[number].leaving != 0) return;
  if (causes_ != nullptr) causes_->on_left(message);
  left(number);
}

void Collective::left(std::uint32_t number) {
  threads_[number].busy = false;
  const Action& action = current(number);
  add_ahead(number, action);
  complete(number, action);
  advance(number);
  check_done(number / program_->threads());
}

bool Collective::on_cut_off(const transport::Message& message) {
  // Links of a folded group cannot fail, so numbers are those of clients.
  if (!client_->on_cut_off(*this, sender_in(message.cookie) / program_->threads())) return false;
  abort(Status::undeliverable);
  return true;
}

void Collective::on_undeliverable(transport::Message& message) {
  --members_[sender_in(message.cookie) / program_->threads()].under_way;
  drain();
}

void Collective::on_delivered(transport::Message& message) {
  if (status_ != Status::ok) {
    on_undeliverable(message);
    return;
  }
  if (recording_) {
    transport::ClassTotals one;
    one.messages = 1;
    one.bytes = message.bytes;
    one.actual.add(message.finished - message.started);
    one.uncontended.add(message.uncontended);
    recording_->messages.add(one);
  }
  if (sums_.is_node(message.destination)) {
    pass_on(message);
    return;
  }
  if (message.kind == transport::MessageKind::write && is_everywhere(message.cookie)) {  // reach_virtual()
    cross_virtual(thread_in(message.cookie), Time());
    return;
  }
  const std::uint32_t from = sender_in(message.cookie) / program_->threads(),
                      to = thread_in(message.cookie) / program_->threads();
  const bool far = group_->servers() > 1 &&
                   (running_.server_of(from) != running_.server_of(to) ||
                    message.destination != group_->members[running_.member_of(to)] || sums_.is_node(message.source));
  if (spec_.cost.network_receive != Time() && far) {
    put_off(spec_.cost.network_receive, kArriveTag, message.cookie);
  } else {
    land(message.cookie);
  }
}

void Collective::pass_on(const transport::Message& message) {
  const std::uint32_t member = sender_in(message.cookie) / program_->threads();
  const std::uint32_t thread = thread_in(message.cookie) % program_->threads();
  --members_[member].under_way;
  for (const NetworkSums::Next& next : sums_.arrived(message.source, message.destination, member, thread)) {
    transport::Message sum;
    sum.source = next.from;
    sum.destination = next.to;
    sum.bytes = message.bytes;
    sum.offset = message.offset;
    sum.traffic_class = message.traffic_class;
    sum.queue_pair = message.queue_pair;
    sum.client = this;
    sum.cookie = pack(thread_of(next.member, thread), thread_of(next.member, thread), lane_in(message.cookie), false);
    ++members_[next.member].under_way;
    give(sum);
  }
  check_done(member);
}

void Collective::land(std::uint64_t mark) {
  const std::uint32_t from = sender_in(mark) / program_->threads();
  const std::uint32_t thread = thread_in(mark), to = thread / program_->threads();
  --members_[from].under_way;
  if (!is_everywhere(mark)) {
    arrive(thread, lane_in(mark));
    check_done(from);
    check_done(to);
    return;
  }
  const std::uint32_t which = thread % program_->threads();
  running_.for_each_landing_on_server(from, which, lane_in(mark), [&](const RunningMembers::Landing& at) {
    arrive(thread_of(at.number, at.thread), at.lane);
  });
  running_.for_server(running_.server_of(from), [&](std::uint32_t m) { check_done(m); });
}

void Collective::abort(Status status) {
  if (status_ != Status::ok) return;
  status_ = status;
  recording_.reset();
  drain();
}

void Collective::drop(std::uint32_t tag, std::uint64_t data) {
  std::uint32_t sender = kNobody;
  if (tag == kArriveTag) sender = sender_in(data);
  if (tag == kPostTag) {
    sender = posted_[data].thread;
    free_posted_.push_back(static_cast<std::uint32_t>(data));
  }
  if (sender != kNobody) --members_[sender / program_->threads()].under_way;
  drain();
}

void Collective::drain() {
  if (put_off_ != 0) return;
  for (const Member& member : members_)
    if (member.under_way != 0) return;
  for (std::uint32_t m = 0; m < running_.size(); ++m)
    if (members_[m].entered && !members_[m].done) finish(m);
}

void Collective::check_done(std::uint32_t member) {
  Member& m = members_[member];
  if (m.done || !m.started || m.threads_left != 0 || m.under_way != 0) return;
  if (fabric_.now() < m.entered_at + spec_.host) {
    if (!m.held_by_host) put_off(m.entered_at + spec_.host - fabric_.now(), kHostTag, member);
    m.held_by_host = true;
    return;
  }
  finish(member);
}

void Collective::finish(std::uint32_t member) {
  members_[member].done = true;
  if (causes_ != nullptr) {
    trails_.resize(running_.size());
    trails_[member] = causes_->trail_of(*this);
  }
  fabric_.calendar().at_last(fabric_.now(), turn(member, true), *this, kDoneTag, member);
  if (recording_) recording_->done.emplace_back(fabric_.now() - recording_from_, member);
  if (++done_ != running_.size() || !recording_) return;
  recording_->trails = trails_;
  reuse_->keep(recording_key(), std::move(*recording_), fabric_.now(), fabric_.now() - recording_from_);
  recording_.reset();
}

void Collective::tell_done(std::uint32_t member) {
  CollectiveClient& client = *client_;
  if (running_.end_together()) {
    if (++told_ != running_.size()) return;
    for (std::uint32_t m = 0; m < running_.size(); ++m) {
      if (causes_ != nullptr) causes_->on_ended(trails_[member]);
      client.on_member_done(*this, running_.client_of(m));
    }
    client.on_collective_done(*this);
    return;
  }
  const std::uint32_t of_client = running_.client_of(member);
  if (--unfinished_[of_client] == 0) {
    if (causes_ != nullptr) causes_->on_ended(trails_[member]);
    client.on_member_done(*this, of_client);
  }
  if (++told_ == running_.size()) client.on_collective_done(*this);
}

void Collective::on_event(std::uint32_t tag, std::uint64_t data) {
  if (tag != kDoneTag) {
    --put_off_;
    if (causes_ != nullptr) causes_->on_taken_up(*this, tag, data);
    if (status_ != Status::ok) {
      drop(tag, data);
      return;
    }
  }
  switch (tag) {
    case kStartTag: start(static_cast<std::uint32_t>(data)); break;
    case kDoneTag: tell_done(static_cast<std::uint32_t>(data)); break;
    case kPreparedTag: {
      const auto number = static_cast<std::uint32_t>(data);
      threads_[number].busy = false;
      const Action& action = current(number);
      if (transfer(number, action)) {
        complete(number, action);
        advance(number);
      }
      check_done(number / program_->threads());
      break;
    }
    case kPostTag: {
      const Posted posted = posted_[data];
      free_posted_.push_back(static_cast<std::uint32_t>(data));
      post(posted.thread, posted.transfer, Rate(), false);
      break;
    }
    case kArriveTag: land(data); break;
    case kHostTag: check_done(static_cast<std::uint32_t>(data)); break;
    case kLeftTag:
      if (--threads_[data].leaving == 0) left(static_cast<std::uint32_t>(data));
      break;
    case kCrossedTag: cross_virtual_links(); break;
  }
}

}  // namespace railyard::collective
