#include "collective/collective.h"

#include <algorithm>

#include "collective/reuse.h"

namespace railyard::collective {

namespace {

constexpr std::uint32_t kStartTag = 0;
constexpr std::uint32_t kStepTag = 1;
constexpr std::uint32_t kReplayedTag = 2;

std::uint64_t pack(std::uint32_t a, std::uint32_t b, std::uint32_t step, std::uint32_t slice) {
  return static_cast<std::uint64_t>(a) << 48 | static_cast<std::uint64_t>(b) << 32 | static_cast<std::uint64_t>(step) << 16 | slice;
}

std::uint32_t field(std::uint64_t packed, unsigned shift) { return static_cast<std::uint32_t>(packed >> shift & 0xffff); }

}  // namespace

Collective::Collective(transport::Fabric& fabric) : fabric_(fabric) {}
Collective::~Collective() = default;

void Collective::prepare(const CollectiveSpec& spec, const std::vector<transport::Window>& members, CollectiveClient& client,
                         ReuseTable* reuse) {
  spec_ = spec;
  members_ = &members;
  client_ = &client;
  states_.resize(members.size());
  for (State& state : states_) {
    std::vector<Arrival> early = std::move(state.early);
    early.clear();
    state = State();
    state.early = std::move(early);
  }
  entered_ = done_ = 0;
  begun_ = replaying_ = false;
  reuse_ = reuse;
  course_.reset();
  first_entry_ = last_entry_ = Time();
}

Bytes Collective::chunk_bytes(std::uint32_t index) const { return spec_.bytes / size() + (index < spec_.bytes % size() ? 1 : 0); }

Bytes Collective::chunk_offset(std::uint32_t index) const {
  return spec_.bytes / size() * index + std::min<Bytes>(index, spec_.bytes % size());
}

Bytes Collective::slice_offset(std::uint32_t chunk, std::uint32_t slice) const {
  const Bytes bytes = chunk_bytes(chunk);
  return chunk_offset(chunk) + bytes / spec_.slices * slice + std::min<Bytes>(slice, bytes % spec_.slices);
}

Bytes Collective::slice_bytes(std::uint32_t chunk, std::uint32_t slice) const {
  const Bytes bytes = chunk_bytes(chunk);
  return bytes / spec_.slices + (slice < bytes % spec_.slices ? 1 : 0);
}

std::uint32_t Collective::ring_steps() const { return (spec_.operation == Operation::all_reduce ? 2 : 1) * (size() - 1); }

std::uint32_t Collective::messages_per_member() const {
  return spec_.algorithm == Algorithm::ring ? ring_steps() * spec_.slices : ring_steps();
}

void Collective::enter(std::uint32_t member) {
  State& state = states_[member];
  state.entered = true;
  state.entered_at = fabric_.now();
  if (entered_++ == 0) first_entry_ = fabric_.now();
  last_entry_ = fabric_.now();
  if (spec_.launch == Time()) {
    start(member);
  } else {
    fabric_.calendar().at(fabric_.now() + spec_.launch, *this, kStartTag, member);
  }
}

void Collective::start(std::uint32_t member) {
  if (!begun_) {
    begun_ = true;
    replaying_ = reuse();
  }
  if (replaying_) return;
  State& state = states_[member];
  state.started = true;
  if (size() == 1) {
    check_done(member);
    return;
  }
  if (spec_.algorithm == Algorithm::ring) {
    for (std::uint32_t slice = 0; slice < spec_.slices; ++slice) send_step(member, 0, slice);
    for (const Arrival& arrival : state.early) depend(member, arrival.step, arrival.slice);
    state.early.clear();
  } else {
    send_shard(member, 0);
    if (spec_.operation == Operation::all_reduce && state.reduce_arrivals == size() - 1) depend(member, 0, 0);
  }
  check_done(member);
}

CourseKey Collective::course_key() const {
  std::vector<Time> offsets;
  for (const State& state : states_) offsets.push_back(state.entered_at - first_entry_);
  return {spec_.operation, spec_.algorithm, spec_.bytes, spec_.slices, spec_.traffic_class, std::move(offsets)};
}

bool Collective::reuse() {
  // With somebody still to come, what the others do meanwhile is not known yet.
  if (reuse_ == nullptr || reuse_->followed() || !all_entered() || !reuse_->quiet(fabric_.now())) return false;
  const Time now = fabric_.now();
  if (const Course* course = reuse_->find(course_key())) {
    for (const auto& [after, member] : course->done) fabric_.calendar().at(now + after, *this, kReplayedTag, member);
    fabric_.replay(spec_.traffic_class, course->messages, reuse_->replay(*course));
    return true;
  }
  course_ = std::make_unique<Course>();
  course_->counters = reuse_->counters();
  course_from_ = now;
  return false;
}

void Collective::send_step(std::uint32_t member, std::uint32_t step, std::uint32_t slice) {
  const std::uint32_t n = size();
  const std::uint32_t chunk = (member + n * 2 - step % n) % n;
  send(member, (member + 1) % n, step, slice, slice_offset(chunk, slice), slice_bytes(chunk, slice));
}

void Collective::send_shard(std::uint32_t member, std::uint32_t phase) {
  const std::uint32_t n = size();
  const bool own = phase == 1 || spec_.operation == Operation::all_gather;  // the reduced (or only) shard, to everybody
  for (std::uint32_t k = 1; k < n; ++k) {
    const std::uint32_t to = (member + k) % n;
    const std::uint32_t shard = own ? member : to;
    send(member, to, phase, 0, chunk_offset(shard), chunk_bytes(shard));
  }
}

void Collective::send(std::uint32_t from, std::uint32_t to, std::uint32_t step, std::uint32_t slice, Bytes offset, Bytes bytes) {
  transport::Message message;
  message.source = (*members_)[from];
  message.destination = (*members_)[to];
  message.bytes = bytes;
  message.offset = offset;
  message.traffic_class = spec_.traffic_class;
  message.channel = spec_.channel;
  message.client = this;
  message.cookie = pack(from, to, step, slice);
  fabric_.send(message);
}

void Collective::on_delivered(transport::Message& message) {
  const std::uint32_t from = field(message.cookie, 48);
  const std::uint32_t to = field(message.cookie, 32);
  ++states_[from].delivered;
  if (course_) {
    transport::ClassTotals one;
    one.messages = 1;
    one.bytes = message.bytes;
    one.actual.add(message.finished - message.started);
    one.uncontended.add(message.uncontended);
    course_->messages.add(one);
  }
  received(to, field(message.cookie, 16), field(message.cookie, 0));
  // Once the collective is complete it may already have been taken back and prepared anew.
  if (!check_done(from)) check_done(to);
}

void Collective::received(std::uint32_t member, std::uint32_t step, std::uint32_t slice) {
  State& state = states_[member];
  ++state.received;
  if (spec_.algorithm == Algorithm::ring) {
    if (step + 1 < ring_steps()) {
      if (state.started) {
        depend(member, step, slice);
      } else {
        state.early.push_back({step, slice});
      }
    }
  } else if (spec_.operation == Operation::all_reduce && step == 0) {
    if (++state.reduce_arrivals == size() - 1 && state.started) depend(member, 0, 0);
  }
}

void Collective::depend(std::uint32_t member, std::uint32_t step, std::uint32_t slice) {
  if (spec_.step == Time()) {
    after_step(member, step, slice);
  } else {
    fabric_.calendar().at(fabric_.now() + spec_.step, *this, kStepTag, pack(member, 0, step, slice));
  }
}

void Collective::after_step(std::uint32_t member, std::uint32_t step, std::uint32_t slice) {
  if (spec_.algorithm == Algorithm::ring) {
    send_step(member, step + 1, slice);
  } else {
    send_shard(member, 1);
  }
}

bool Collective::check_done(std::uint32_t member) {
  State& state = states_[member];
  const std::uint32_t all = messages_per_member();
  if (state.done || !state.started || state.received != all || state.delivered != all) return false;
  return finish(member);
}

bool Collective::finish(std::uint32_t member) {
  states_[member].done = true;
  const bool last = ++done_ == size();
  if (course_) {
    course_->done.emplace_back(fabric_.now() - course_from_, member);
    if (last) reuse_->keep(course_key(), std::move(*course_));
  }
  CollectiveClient& client = *client_;
  client.on_member_done(*this, member);
  if (last) client.on_collective_done(*this);
  return last;
}

void Collective::on_event(std::uint32_t tag, std::uint64_t data) {
  if (tag == kStartTag) {
    start(static_cast<std::uint32_t>(data));
  } else if (tag == kReplayedTag) {
    finish(static_cast<std::uint32_t>(data));
  } else {
    after_step(field(data, 48), field(data, 16), field(data, 0));
  }
}

}  // namespace railyard::collective
