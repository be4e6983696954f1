#include "collective/reuse.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace railyard::collective {

namespace {

/// @pre the peak queue length of `now` counts from `before` on
transport::PortCounters difference(const transport::PortCounters& now, const transport::PortCounters& before) {
  transport::PortCounters d = now;
  d.transactions -= before.transactions;
  d.payload_bytes -= before.payload_bytes;
  d.wire_bytes -= before.wire_bytes;
  d.busy = now.busy - before.busy;
  for (std::size_t c = 0; c < d.waited.size(); ++c) d.waited[c] = now.waited[c].since(before.waited[c]);
  return d;
}

/// Whether a replay adds the same.
bool same_amounts(const transport::PortCounters& a, const transport::PortCounters& b) {
  const auto numbers = [](const transport::PortCounters& c) {
    return std::tie(c.transactions, c.payload_bytes, c.wire_bytes, c.busy, c.peak_queued_bytes, c.waited);
  };
  return numbers(a) == numbers(b);
}

/// Sorts steps by time and joins those at the same instant.
void put_in_order(std::vector<transport::MemoryRecording::Step>& steps) {
  using Step = transport::MemoryRecording::Step;
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.after < b.after; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < steps.size();) {
    Step sum{steps[i].after};
    for (; i < steps.size() && steps[i].after == sum.after; ++i) {
      sum.read += steps[i].read;
      sum.written += steps[i].written;
    }
    if (sum.read != 0 || sum.written != 0) steps[kept++] = sum;
  }
  steps.resize(kept);
  steps.shrink_to_fit();
}

}  // namespace

SharedRecordings::Interleave& SharedRecordings::interleave_of(const std::vector<std::uint64_t>& stripes) {
  const auto found =
      std::find_if(interleaves.begin(), interleaves.end(), [&](const Interleave& i) { return i.stripes == stripes; });
  return found != interleaves.end() ? *found : interleaves.emplace_back(Interleave{stripes});
}

ReuseTable::ReuseTable(const transport::Fabric& fabric, const ReuseGroup& group, const Footprint& footprint,
                       std::vector<transport::Horizon*> others, std::optional<std::vector<transport::Horizon*>> beside,
                       std::shared_ptr<SharedRecordings> shared)
    : fabric_(fabric),
      members_(group.groups.front()->members),
      ports_(footprint.ports),
      others_(std::move(others)),
      beside_(std::move(beside)),
      least_launch_(group.least_launch),
      begin_together_(group.begin_together),
      shared_(std::move(shared)),
      interleave_(&shared_->interleave_of(footprint.stripes)) {
  for (const Group* each : group.groups)
    multicast_groups_.insert(multicast_groups_.end(), each->multicast_group.begin(), each->multicast_group.end());
  for (const transport::LinkEnd& port : ports_) counters_.push_back(&port.state().counters);
  for (transport::Meter* meter : footprint.meters) counters_.push_back(&meter->counters);
  if (!footprint.makeup) return;
  for (const transport::LinkEnd& port : ports_)
    if (auto* endpoint = dynamic_cast<transport::Endpoint*>(port.device)) sources_.push_back({endpoint, port.port});
}

Time ReuseTable::quiet_from() const {
  Time from;
  for (const transport::LinkEnd& port : ports_) from = later(from, fabric_.quiet_from(port));
  return from;
}

Time ReuseTable::alone_until() const {
  Time until = Time::max();
  for (transport::Horizon* other : others_) until = sooner(until, other->from());
  return until;
}

Time ReuseTable::undisturbed_until() const {
  if (!beside_) return fabric_.now();
  Time until = alone_until();
  for (transport::Horizon* other : *beside_) until = sooner(until, other->from());
  return until;
}

std::uint64_t ReuseTable::sends_of_others() const {
  std::uint64_t sends = 0;
  for (const transport::Horizon* other : others_) sends += other->sends();
  return sends;
}

bool ReuseTable::crosses(const std::vector<transport::LinkEnd>& links) const {
  return std::any_of(ports_.begin(), ports_.end(), [&](const transport::LinkEnd& port) {
    return std::any_of(links.begin(), links.end(), [&](const transport::LinkEnd& link) {
      return link.device == port.device && link.port == port.port;
    });
  });
}

bool ReuseTable::followed(const Recording& recording, Time now) const {
  // Before the next launch of a member, all credits of a collective that is apart have returned.
  if (!fabric_.ports_followed(now, now + recording.took() + least_launch_)) return false;
  return std::any_of(ports_.begin(), ports_.end(),
                     [](const transport::LinkEnd& port) { return port.state().listener_mark != 0; });
}

const KnownRecording* ReuseTable::find(const RecordingKey& key) {
  const auto found = recordings_.find(key);
  return found == recordings_.end() ? adopt(key) : &found->second;
}

const KnownRecording* ReuseTable::adopt(const RecordingKey& key) {
  const auto [first, last] = shared_->by_key.equal_range(key);
  for (auto entry = first; entry != last; ++entry) {
    const SharedRecordings::Recorded& recorded = entry->second;
    bool alike = links_alike(recorded);
    for (std::size_t s = 0; s < sources_.size() && alike; ++s) alike = numbered_alike(recorded, s);
    if (!alike) continue;
    for (std::size_t s = 0; s < sources_.size(); ++s) {
      const Source &mine = sources_[s], &theirs = recorded.by->sources_[s];
      for (std::size_t n = mine.endpoint->requesters(mine.port); n < recorded.after[s]; ++n)
        mine.endpoint->add_requester(mine.port, *renamed(*recorded.by, theirs.endpoint->requester(theirs.port, n)));
    }
    return &recordings_.emplace(key, KnownRecording{recorded.recording, memories_of(*recorded.by, *recorded.recording)})
                .first->second;
  }
  return nullptr;
}

bool ReuseTable::numbered_alike(const SharedRecordings::Recorded& recorded, std::size_t s) const {
  const Source &mine = sources_[s], &theirs = recorded.by->sources_[s];
  const std::size_t numbered = mine.endpoint->requesters(mine.port);
  if (numbered < recorded.before[s]) return false;
  for (std::size_t n = 0; n < recorded.after[s]; ++n) {
    const auto expected = renamed(*recorded.by, theirs.endpoint->requester(theirs.port, n));
    if (!expected || (n < numbered && !(mine.endpoint->requester(mine.port, n) == *expected))) return false;
  }
  return true;
}

std::optional<transport::RequesterKey> ReuseTable::renamed(const ReuseTable& other,
                                                           const transport::RequesterKey& key) const {
  if (key.own) return key;
  transport::RequesterKey mine = key;
  return rename(other, key.kind, mine.source, mine.target) ? std::make_optional(mine) : std::nullopt;
}

bool ReuseTable::links_alike(const SharedRecordings::Recorded& recorded) const {
  bool all_fluid = true;
  for (std::size_t p = 0; p < ports_.size(); ++p) {
    const bool is_fluid = ports_[p].state().fluid != nullptr;
    if (is_fluid != (recorded.by->ports_[p].state().fluid != nullptr)) return false;
    all_fluid &= is_fluid;
  }
  if (!all_fluid && interleave_ != recorded.by->interleave_) return false;
  std::optional<std::uint32_t> last;
  for (const transport::FluidStreamKey& key : recorded.streams) {
    transport::Window source = key.source();
    std::uint32_t target = key.target();
    if (!rename(*recorded.by, key.kind(), source, target)) return false;
    const auto number = fabric_.stream_number(key.between(source, target));
    if (!number || (last && *number <= *last)) return false;
    last = number;
  }
  return true;
}

bool ReuseTable::rename(const ReuseTable& other, transport::MessageKind kind, transport::Window& source,
                        std::uint32_t& target) const {
  const auto in = [](std::uint32_t& name, const auto& theirs, const auto& mine) {
    const auto found = std::find(theirs.begin(), theirs.end(), name);
    if (found == theirs.end()) return false;
    name = mine[static_cast<std::size_t>(found - theirs.begin())];
    return true;
  };
  return in(source, other.members_, members_) &&
         (transport::of_group(kind) ? in(target, other.multicast_groups_, multicast_groups_)
                                    : in(target, other.members_, members_));
}

std::vector<std::size_t> ReuseTable::requesters() const {
  std::vector<std::size_t> numbers;
  for (const Source& source : sources_) numbers.push_back(source.endpoint->requesters(source.port));
  return numbers;
}

std::vector<transport::Window> ReuseTable::memories_of(const ReuseTable& recorder, const Recording& recording) const {
  std::vector<transport::Window> memories;
  for (const transport::MemoryRecording::Memory& memory : recording.memory->memories) {
    const auto& members = recorder.members_;
    const auto member = std::find(members.begin(), members.end(), memory.window) - members.begin();
    memories.push_back(members_[static_cast<std::size_t>(member)]);
  }
  return memories;
}

void ReuseTable::begin(const Collective& collective) {
  if (kept_ == nullptr) return;
  stop_recording();
  if (kept_ != &collective) kept_->forget_recording();
  kept_ = nullptr;
}

void ReuseTable::keeps(Collective& collective, Recording& recording, Time now) {
  kept_ = &collective;
  sends_of_others_before_ = sends_of_others();
  requesters_before_ = requesters();
  before_.clear();
  for (transport::PortCounters* counters : counters_) {
    before_.push_back(*counters);
    counters->peak_queued_bytes = 0;  // nothing is queued on quiet links
  }
  if (!fabric_.charges_followed()) return;
  recording.charges.assign(counters_.size(), transport::ChargeLog(now));
  for (std::size_t i = 0; i < counters_.size(); ++i) counters_[i]->log = &recording.charges[i];
}

void ReuseTable::stop_recording() {
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    transport::PortCounters& counters = *counters_[i];
    counters.log = nullptr;
    counters.peak_queued_bytes = std::max(counters.peak_queued_bytes, before_[i].peak_queued_bytes);
  }
}

void ReuseTable::keep(const RecordingKey& key, Recording recording, Time now, Time took) {
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    const transport::PortCounters more = difference(*counters_[i], before_[i]);
    auto& amounts = recording.amounts;
    const auto same =
        std::find_if(amounts.begin(), amounts.end(), [&](const auto& a) { return same_amounts(a, more); });
    recording.counters.push_back(static_cast<std::uint32_t>(same - amounts.begin()));
    if (same == amounts.end()) amounts.push_back(more);
  }
  stop_recording();
  kept_ = nullptr;
  if (sends_of_others() != sends_of_others_before_) return;
  if (adopt(key) != nullptr) return;  // another group has recorded it in the meantime
  if (interleave_->recordings >= SharedRecordings::kMostRecordings ||
      interleave_->steps >= SharedRecordings::kMostSteps)
    return;
  Time first_done = took;
  for (const auto& [after, member] : recording.done) first_done = sooner(first_done, after);
  recording.quiet_after = later(since(quiet_from(), now - took), took);
  recording.apart = recording.quiet_after <= (begin_together_ ? took : first_done) + least_launch_;
  for (transport::MemoryRecording::Memory& memory : recording.memory->memories) {
    put_in_order(memory.steps);
    interleave_->steps += memory.steps.size();
  }
  for (transport::ChargeLog& log : recording.charges) {
    log.finish();
    interleave_->steps += log.size();
  }
  ++interleave_->recordings;
  const auto kept = std::make_shared<const Recording>(std::move(recording));
  recordings_.emplace(key, KnownRecording{kept, memories_of(*this, *kept)});
  if (!sources_.empty() && kept->trails.empty())
    shared_->by_key.emplace(key, SharedRecordings::Recorded{kept, this, requesters_before_, requesters(),
                                                            fabric_.streams_since(members_, now - took)});
}

std::uint64_t ReuseTable::replay(const Recording& recording, std::uint8_t traffic_class, Time now) {
  transport::FabricListener* const listener = fabric_.listener();
  const Time until = now + recording.took();
  std::uint64_t transactions = 0;
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    transport::PortCounters& c = *counters_[i];
    const transport::PortCounters& more = recording.amounts[recording.counters[i]];
    c.transactions += more.transactions;
    if (i < ports_.size() && more.transactions != 0) {
      transactions += more.transactions;
      if (listener != nullptr) listener->on_replay(*ports_[i].device, ports_[i].port, traffic_class, more, now, until);
    }
    c.payload_bytes += more.payload_bytes;
    c.wire_bytes += more.wire_bytes;
    c.busy += more.busy;
    if (!recording.charges.empty()) {
      c.replayed = &recording.charges[i];
      c.replayed_from = now;
    }
    c.peak_queued_bytes = std::max(c.peak_queued_bytes, more.peak_queued_bytes);
    for (std::size_t k = 0; k < c.waited.size(); ++k) c.waited[k].add(more.waited[k]);
  }
  return transactions;
}

std::uint64_t ReuseTable::replay_often(const Recording& recording, std::uint64_t times) {
  std::uint64_t transactions = 0;
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    transport::PortCounters& c = *counters_[i];
    const transport::PortCounters& more = recording.amounts[recording.counters[i]];
    if (i < ports_.size()) transactions += more.transactions * times;
    c.transactions += more.transactions * times;
    c.payload_bytes += more.payload_bytes * times;
    c.wire_bytes += more.wire_bytes * times;
    c.busy += more.busy * times;
    c.peak_queued_bytes = std::max(c.peak_queued_bytes, more.peak_queued_bytes);
    for (std::size_t k = 0; k < c.waited.size(); ++k) c.waited[k].add(more.waited[k] * times);
  }
  return transactions;
}

namespace {

/// All who can use memories of a group besides its own collectives; none: unknown ones.
std::optional<std::vector<transport::Horizon*>> beside(const std::vector<ReuseGroup>& groups, std::size_t of,
                                                       const std::vector<OtherTraffic>& others) {
  const Group& group = *groups[of].groups.front();
  if (group.folded()) return std::nullopt;
  const std::set<transport::Window> members(group.members.begin(), group.members.end());
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const transport::Window member : groups[g].groups.front()->members)
      if (g != of && members.count(member) != 0) return std::nullopt;
  std::set<transport::Horizon*> found;
  for (const OtherTraffic& other : others)
    if (members.count(other.source) != 0 || members.count(other.destination) != 0) found.insert(other.horizon);
  if (found.count(nullptr) != 0) return std::nullopt;
  return std::vector<transport::Horizon*>(found.begin(), found.end());
}

}  // namespace

std::vector<std::shared_ptr<ReuseTable>> isolate(const transport::Fabric& fabric, const std::vector<ReuseGroup>& groups,
                                                 const std::vector<OtherTraffic>& others) {
  struct Users {
    std::uint32_t groups = 0;
    std::set<transport::Horizon*> others;  ///< null: unknown ones
  };
  std::map<std::pair<const transport::Device*, std::uint32_t>, Users> users;  // by port
  for (const OtherTraffic& other : others) {
    transport::Message message;
    message.source = other.source;
    message.destination = other.destination;
    message.traffic_class = other.traffic_class;
    message.queue_pair = other.queue_pair;
    for (const transport::Lane& lane : fabric.path_of(message).lanes)
      for (const transport::Hop& hop : lane.hops) users[{hop.device, hop.port.value()}].others.insert(other.horizon);
  }
  std::vector<Footprint> footprints;
  for (const ReuseGroup& group : groups) {
    footprints.push_back(footprint_of(fabric, *group.groups.front(), group.classes));
    if (footprints.back().makeup) footprints.back().makeup->words.push_back(group.least_launch.fs());
    for (const Group* each : group.groups)
      if (footprints.back().makeup) footprints.back().makeup->words.push_back(each->parts.size());
    for (const transport::LinkEnd& port : footprints.back().ports) ++users[{port.device, port.port.value()}].groups;
  }
  std::vector<std::shared_ptr<ReuseTable>> tables;
  std::vector<std::pair<const Makeup*, std::shared_ptr<SharedRecordings>>> shared;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Footprint& own = footprints[g];
    std::set<transport::Horizon*> senders;
    bool alone = true;
    for (const transport::LinkEnd& port : own.ports) {
      const Users& all = users[{port.device, port.port.value()}];
      alone &= all.groups == 1;
      senders.insert(all.others.begin(), all.others.end());
    }
    if (!alone || senders.count(nullptr) != 0 || own.spread || own.ports.empty()) {
      tables.push_back(nullptr);
      continue;
    }
    const Makeup* const makeup = own.makeup ? &*own.makeup : nullptr;
    auto like = std::find_if(shared.begin(), shared.end(),
                             [&](const auto& s) { return makeup != nullptr && *s.first == *makeup; });
    if (like == shared.end() && makeup != nullptr)
      like = shared.insert(shared.end(), {makeup, std::make_shared<SharedRecordings>()});
    tables.push_back(std::make_shared<ReuseTable>(
        fabric, groups[g], own, std::vector<transport::Horizon*>(senders.begin(), senders.end()),
        beside(groups, g, others), makeup != nullptr ? like->second : std::make_shared<SharedRecordings>()));
  }
  return tables;
}

}  // namespace railyard::collective
