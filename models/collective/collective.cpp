#include "collective/collective.h"

#include <algorithm>
#include <stdexcept>

#include "collective/reuse.h"

namespace railyard::collective {

namespace {

constexpr std::uint32_t kStartTag = 0;
constexpr std::uint32_t kPreparedTag = 1;  ///< a thread's action has been prepared
constexpr std::uint32_t kDoneTag = 2;      ///< a member is done: notify its client
constexpr std::uint32_t kPostTag = 3;      ///< a proxy posts a transfer
constexpr std::uint32_t kArriveTag = 4;    ///< a proxy has seen an arrival
constexpr std::uint32_t kHostTag = 5;      ///< the host has issued its next call
constexpr std::uint32_t kLeftTag = 6;      ///< a transfer of a member that does not exist has left

/// Channels begin together and then drift apart by one action per kActionsToDriftOne actions, up to their slots. The
/// value is the same for all GPUs; it was chosen with rings of 1 MiB to 16 GiB on A100, H100 and B200.
constexpr std::uint64_t kActionsToDriftOne = 100;

/// Mark of a message: its sending thread, the thread and lane that its arrival raises, and whether it raises this lane
/// at every member of the server.
constexpr unsigned kThreadBits = 24, kLaneBits = 15;
constexpr std::uint64_t kThreadMask = (1u << kThreadBits) - 1;
std::uint64_t pack(std::uint32_t from, std::uint32_t thread, std::uint32_t lane, bool everywhere) {
  return static_cast<std::uint64_t>(from) << (kThreadBits + kLaneBits + 1) |
         static_cast<std::uint64_t>(thread) << (kLaneBits + 1) | static_cast<std::uint64_t>(lane) << 1 |
         (everywhere ? 1 : 0);
}
std::uint32_t sender_in(std::uint64_t mark) {
  return static_cast<std::uint32_t>(mark >> (kThreadBits + kLaneBits + 1));
}
std::uint32_t thread_in(std::uint64_t mark) {
  return static_cast<std::uint32_t>(mark >> (kLaneBits + 1) & kThreadMask);
}
std::uint32_t lane_in(std::uint64_t mark) { return static_cast<std::uint32_t>(mark >> 1) & ((1u << kLaneBits) - 1); }
bool is_everywhere(std::uint64_t mark) { return (mark & 1) != 0; }

Rate times(Rate rate, std::uint32_t n) { return Rate::bytes_per_second(rate.bytes_per_second() * n); }

}  // namespace

Collective::Collective(transport::Fabric& fabric) : fabric_(fabric) {}
Collective::~Collective() = default;

void Collective::prepare(const CollectiveSpec& spec, const Group& group, CollectiveClient& client, ReuseTable* reuse) {
  if (!program_ || group_ != &group || spec_.key() != spec.key()) {
    spec_ = spec;
    group_ = &group;
    program_ = make_program(spec_, group);
    // A reducing step reads two operands: the received data and its own.
    reads_operands_ = spec.operation == Operation::all_reduce || spec.operation == Operation::reduce_scatter;
    fold();
  }
  if (reuse != nullptr && spec.launch < reuse->least_launch())
    throw std::logic_error("a collective has a shorter launch than the least launch of its group");
  client_ = &client;
  members_.assign(running_.empty() ? group.size() : running_.size(), Member());
  threads_.assign(members_.size() * program_->threads(), Thread());
  lanes_.assign(threads_.size() * program_->lanes(), Lane());
  free_from_.assign(group.folded() ? members_.size() : 0, Time());
  unfinished_.assign(seen_.size(), 0);
  for (const std::uint32_t client : client_of_) ++unfinished_[client];
  for (std::uint32_t m = 0; m < running(); ++m) {
    for (std::uint32_t t = 0; t < program_->threads(); ++t) {
      Thread& thread = threads_[thread_of(m, t)];
      thread.actions = program_->actions(member_of(m), t);
      if (thread.actions != 0) ++members_[m].threads_left;
    }
  }
  entered_ = done_ = told_ = put_off_ = 0;
  status_ = Status::ok;
  first_turn_ = fabric_.calendar().take_turns(2ull * running());
  trails_.clear();
  begun_ = false;
  replayed_ = nullptr;
  reuse_ = reuse;
  course_.reset();
  first_entry_ = last_entry_ = Time();
}

void Collective::fold() {
  running_.clear();
  number_of_.clear();
  seen_.clear();
  client_of_.clear();
  beyond_.clear();
  if (!group_->folded()) return;
  const bool all_run = !program_->is_alike();
  number_of_.resize(group_->size());
  for (std::uint32_t m = 0; m < group_->size(); ++m) {
    if (all_run || group_->exists(m)) {
      number_of_[m] = static_cast<std::uint32_t>(running_.size());
      running_.push_back(m);
    }
    if (group_->exists(m)) seen_.push_back(number_of_[m]);
  }
  for (std::uint32_t m = 0; m < group_->size() && !all_run; ++m) number_of_[m] = number_of_[group_->like[m]];
  for (const std::uint32_t m : running_) {
    const auto client = std::find(seen_.begin(), seen_.end(), number_of_[group_->like[m]]);
    client_of_.push_back(static_cast<std::uint32_t>(client - seen_.begin()));
  }
  beyond_.resize(seen_.size());
  for (std::uint32_t m = 0; m < group_->size(); ++m)
    if (!group_->exists(m)) beyond_[client_of_[number_of_[m]]] = group_->members[m];
}

void Collective::enter(std::uint32_t member) {
  const std::uint32_t number = seen(member);
  enter_one(number);
  if (!group_->folded() || program_->is_alike()) return;
  for (std::uint32_t other = 0; other < running(); ++other)
    if (other != number && group_->like[member_of(other)] == member_of(number)) enter_one(other);
}

void Collective::enter_one(std::uint32_t member) {
  Member& m = members_[member];
  m.entered = true;
  m.entered_at = fabric_.now();
  if (entered_++ == 0) first_entry_ = fabric_.now();
  last_entry_ = fabric_.now();
  // A member that does not exist enters as the member does that it is like.
  if (causes_ != nullptr) causes_->on_entered(*this, client_of_.empty() ? member : client_of_[member]);
  // Starts come last at their instant, in the order of members. So the order of entries at one instant does not matter.
  if (causes_ != nullptr) causes_->on_put_off(*this, kStartTag, member, Time());
  ++put_off_;
  fabric_.calendar().at_last(fabric_.now() + spec_.launch, turn(member, false), *this, kStartTag, member);
}

void Collective::put_off(Time wait, std::uint32_t tag, std::uint64_t data, Time copying) {
  if (causes_ != nullptr) causes_->on_put_off(*this, tag, data, copying);
  ++put_off_;
  fabric_.calendar().at(fabric_.now() + wait, *this, tag, data);
}

void Collective::start(std::uint32_t member) {
  if (!begun_) {
    begun_ = true;
    if (reuse()) return;
  }
  if (replayed_ != nullptr) return;
  members_[member].started = true;
  for (std::uint32_t t = 0; t < program_->threads(); ++t) advance(thread_of(member, t));
  check_done(member);
}

CourseKey Collective::course_key() const {
  std::vector<Time> offsets;
  for (const Member& member : members_) offsets.push_back(member.entered_at - first_entry_);
  return {spec_.key(), std::move(offsets)};
}

bool Collective::reuse() {
  if (reuse_ == nullptr) return false;
  const Time now = fabric_.now();
  reuse_->begin(*this);
  // If a member has not entered yet, the course key is not known.
  if (reuse_->followed() || !all_entered() || reuse_->quiet_from() > now) return false;
  if (const KnownCourse* known = reuse_->find(course_key())) {
    const Course* const course = known->course.get();
    if (!course->apart) return false;
    for (const auto& [after, member] : course->done)
      fabric_.calendar().at_last(now + after, turn(member, true), *this, kDoneTag, member);
    if (fabric_.memories() != nullptr) fabric_.memories()->on_replayed(course->memory, known->memories);
    fabric_.replay(spec_.traffic_class, course->messages, reuse_->replay(*course, now));
    trails_ = course->trails;
    replayed_ = course;
    return true;
  }
  course_ = std::make_unique<Course>();
  course_->memory = std::make_shared<transport::MemoryCourse>();
  course_from_ = now;
  reuse_->keeps(*this, *course_, now);
  return false;
}

void Collective::forget_course() { course_.reset(); }

const Action& Collective::current(std::uint32_t thread) {
  action_.clear();
  program_->describe(member_of(thread / program_->threads()), thread % program_->threads(), threads_[thread].next,
                     action_);
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
      if (!room || to.sent - to.consumed < most) return;
      to.blocked = number;
      room = false;
    });
  }
  return room;
}

template <class With>
void Collective::for_each_lane(std::uint32_t member, const Transfer& t, With with) {
  if (t.kind != Transfer::Kind::multicast) {
    with(lane(thread_of(t.kind == Transfer::Kind::reduce ? member : number_of(t.to), t.thread), t.lane));
    return;
  }
  for (std::uint32_t m = 0; m < running(); ++m)
    if (server_of(m) == server_of(member)) with(lane(thread_of(m, t.thread), t.lane));
}

Time Collective::preparation(std::uint32_t member, std::uint32_t thread, const Action& action) const {
  const StepCost& cost = spec_.cost;
  const std::uint32_t channels = program_->channels(thread);
  Bytes moved = action.work_bytes;
  for (const Transfer& t : action.transfers)
    if (t.kind != Transfer::Kind::flag) moved += t.range.bytes;
  Time time = action.continues ? Time() : cost.step;
  const Bytes each = ceil_div(moved, channels), in_step = action.continues ? 0 : cost.line_bytes;
  if (cost.line_bytes != 0 && each > in_step) time += cost.line * ceil_div(each - in_step, cost.line_bytes);
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
    if (t.kind <= Transfer::Kind::flag && t.to == member_of(member)) {
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
      put_off(spec_.cost.network_send, kPostTag, slot);
    }
  }
  thread.busy = thread.leaving != 0;
  thread.sends_from = fabric_.now();
  return !thread.busy;
}

void Collective::post(std::uint32_t number, const Transfer& t, Rate rate, bool tell_left) {
  const std::uint32_t member = number / program_->threads();
  const bool in_switch = t.kind == Transfer::Kind::reduce || t.kind == Transfer::Kind::multicast;
  const std::uint32_t from = member_of(member), to = in_switch ? from : t.to;
  transport::Message message;
  message.source = group_->members[group_->exists(from) ? from : group_->like[from]];
  message.destination = group_->members[to];
  message.bytes = t.kind == Transfer::Kind::flag ? t.range.bytes : spec_.cost.wire_bytes(t.range.bytes);
  message.offset = t.range.offset;
  if (in_switch) {
    message.bytes = std::max<Bytes>(1, message.bytes);
    message.kind =
        t.kind == Transfer::Kind::reduce ? transport::MessageKind::reduce : transport::MessageKind::multicast;
    message.group = group_->multicast_group[server_of(member)];
  }
  message.traffic_class = spec_.traffic_class;
  message.source_reads = reads_operands_ ? 2 : 1;
  message.queue_pair = number % program_->threads();  // a slow writer does not delay the messages of other threads
  message.source_rate = t.kind == Transfer::Kind::write ? rate : Rate();
  message.tell_left = tell_left;
  message.client = this;
  message.cookie = pack(number, thread_of(number_of(to), t.thread), t.lane, t.kind == Transfer::Kind::multicast);
  if (!group_->exists(from)) {
    message.destination =
        leaves_server(member, t) ? beyond_[client_of_[number_of(to)]] : group_->members[group_->like[to]];
    post_unseen(number, message);
    return;
  }
  const transport::Message& sent = fabric_.send(message);
  if (course_ && fabric_.memories() != nullptr)
    fabric_.memories()->keep(sent, fabric_.now() - course_from_, *course_->memory);
}

void Collective::post_unseen(std::uint32_t number, const transport::Message& message) {
  const auto alone = [&](Bytes bytes) {
    transport::Message one = message;
    one.bytes = bytes;
    return later(fabric_.uncontended(one),
                 message.source_rate == Rate() ? Time() : message.source_rate.time_for(bytes));
  };
  Time& free = free_from_[number / program_->threads()];
  const Time from = later(free, fabric_.now()), takes = alone(message.bytes);
  free = from + (alone(2 * message.bytes) - takes);
  const std::uint32_t to = thread_in(message.cookie) / program_->threads();
  const bool far = server_of(number / program_->threads()) != server_of(to);
  put_off(from + takes + (far ? spec_.cost.network_receive : Time()) - fabric_.now(), kArriveTag, message.cookie);
  if (message.tell_left) put_off(from + takes - fabric_.now(), kLeftTag, number);
}

void Collective::complete(std::uint32_t number, const Action& action) {
  Thread& thread = threads_[number];
  const std::uint32_t member = number / program_->threads();
  if (++thread.next == thread.actions) --members_[member].threads_left;
  const std::uint32_t signal_thread = action.signal_thread, signal_lane = action.signal_lane;
  const std::uint32_t first = action.first_lane, lanes = action.lanes, arrivals = action.arrivals;
  if (spec_.slots != 0) {
    for (std::uint32_t l = first; l < first + lanes; ++l) {
      Lane& from = lane(number, l);
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

void Collective::add_ahead(std::uint32_t number, const Action& action) {
  Thread& thread = threads_[number];
  const std::uint32_t member = number / program_->threads(), which = number % program_->threads();
  const Time own = writing(member, which, action), took = fabric_.now() - thread.sends_from;
  if (took <= own) return;
  // The waiting channel itself is idle; the other channels work.
  const Time others = Time::fs((took - own).fs() / spec_.channels * (spec_.channels - 1));
  const Time whole = preparation(member, which, action) + own;
  const Time apart = sooner(Time::fs(whole.fs() / kActionsToDriftOne * thread.next), whole * spec_.slots);
  thread.ahead = sooner(thread.ahead + others, apart);
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
  if (course_) {
    transport::ClassTotals one;
    one.messages = 1;
    one.bytes = message.bytes;
    one.actual.add(message.finished - message.started);
    one.uncontended.add(message.uncontended);
    course_->messages.add(one);
  }
  const std::uint32_t from = sender_in(message.cookie) / program_->threads(),
                      to = thread_in(message.cookie) / program_->threads();
  const bool far = server_of(from) != server_of(to) || message.destination != group_->members[member_of(to)];
  if (spec_.cost.network_receive != Time() && far) {
    put_off(spec_.cost.network_receive, kArriveTag, message.cookie);
  } else {
    land(message.cookie);
  }
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
  for (std::uint32_t m = 0; m < running(); ++m)
    if (server_of(m) == server_of(from)) arrive(thread_of(m, which), lane_in(mark));
  for (std::uint32_t m = 0; m < running(); ++m)
    if (server_of(m) == server_of(from)) check_done(m);
}

void Collective::abort(Status status) {
  if (status_ != Status::ok) return;
  status_ = status;
  course_.reset();
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
  for (std::uint32_t m = 0; m < running(); ++m)
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
    trails_.resize(running());
    trails_[member] = causes_->trail_of(*this);
  }
  fabric_.calendar().at_last(fabric_.now(), turn(member, true), *this, kDoneTag, member);
  if (course_) course_->done.emplace_back(fabric_.now() - course_from_, member);
  if (++done_ != running() || !course_) return;
  course_->trails = trails_;
  reuse_->keep(course_key(), std::move(*course_), fabric_.now(), fabric_.now() - course_from_);
  course_.reset();
}

void Collective::tell_done(std::uint32_t member) {
  CollectiveClient& client = *client_;
  const std::uint32_t of_client = client_of_.empty() ? member : client_of_[member];
  if (unfinished_.empty() || --unfinished_[of_client] == 0) {
    if (causes_ != nullptr) causes_->on_ended(trails_[member]);
    client.on_member_done(*this, of_client);
  }
  if (++told_ == running()) client.on_collective_done(*this);
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
  }
}

}  // namespace railyard::collective
