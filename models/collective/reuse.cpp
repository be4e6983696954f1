#include "collective/reuse.h"

#include <algorithm>

namespace railyard::collective {

namespace {

using PortKey = std::pair<const transport::Device*, std::uint32_t>;

/// @return whether bytes of this path may also cross other ports
bool add_ports(std::vector<PortKey>& ports, const transport::Path& path,
               std::vector<transport::Meter*>* meters = nullptr) {
  bool spread = false;
  if (meters != nullptr && path.meter != nullptr &&
      std::find(meters->begin(), meters->end(), path.meter) == meters->end())
    meters->push_back(path.meter);
  for (const transport::Lane& lane : path.lanes)
    for (const transport::Hop& hop : lane.hops) {
      ports.emplace_back(hop.device, hop.port.value());
      spread |= hop.one_of_several;
    }
  return spread;
}

void sort_unique(std::vector<PortKey>& ports) {
  std::sort(ports.begin(), ports.end());
  ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
}

transport::PortCounters difference(const transport::PortCounters& now, const transport::PortCounters& before) {
  transport::PortCounters d = now;  // the peak queue length stays absolute
  d.transactions -= before.transactions;
  d.payload_bytes -= before.payload_bytes;
  d.wire_bytes -= before.wire_bytes;
  d.busy = now.busy - before.busy;
  for (std::size_t c = 0; c < d.waited.size(); ++c) d.waited[c] = now.waited[c].since(before.waited[c]);
  return d;
}

/// Sorts steps by time and joins those at the same instant.
void put_in_order(std::vector<transport::MemoryCourse::Step>& steps) {
  using Step = transport::MemoryCourse::Step;
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

ReuseTable::ReuseTable(const transport::Fabric& fabric, std::vector<std::pair<transport::Device*, PortId>> ports,
                       const std::vector<transport::Meter*>& meters, Time least_launch)
    : fabric_(fabric), ports_(std::move(ports)), least_launch_(least_launch) {
  for (const auto& [device, port] : ports_) counters_.push_back(&device->port(port).counters);
  for (transport::Meter* meter : meters) counters_.push_back(&meter->counters);
}

Time ReuseTable::quiet_from() const {
  Time from;
  for (const auto& [device, port] : ports_) from = later(from, fabric_.quiet_from({device, port}));
  return from;
}

bool ReuseTable::followed() const {
  return std::any_of(ports_.begin(), ports_.end(),
                     [](const auto& p) { return p.first->port(p.second).listener_mark != 0; });
}

const Course* ReuseTable::find(const CourseKey& key) const {
  const auto found = courses_.find(key);
  return found == courses_.end() ? nullptr : &found->second;
}

void ReuseTable::begin(const Collective& collective) {
  if (kept_ == nullptr) return;
  stop_logs();
  if (kept_ != &collective) kept_->forget_course();
  kept_ = nullptr;
}

void ReuseTable::keeps(Collective& collective, Course& course, Time now) {
  kept_ = &collective;
  for (const transport::PortCounters* counters : counters_) course.counters.push_back(*counters);
  if (!fabric_.charges_followed()) return;
  course.charges.assign(counters_.size(), transport::ChargeLog(now));
  for (std::size_t i = 0; i < counters_.size(); ++i) counters_[i]->log = &course.charges[i];
}

void ReuseTable::stop_logs() {
  for (transport::PortCounters* counters : counters_) counters->log = nullptr;
}

void ReuseTable::keep(const CourseKey& key, Course course, Time now, Time took) {
  stop_logs();
  kept_ = nullptr;
  if (courses_.size() >= kMostCourses || steps_ >= kMostSteps) return;
  Time first_done = took;
  for (const auto& [after, member] : course.done) first_done = sooner(first_done, after);
  course.apart = since(quiet_from(), now - took) <= first_done + least_launch_;
  for (transport::MemoryCourse::Memory& memory : course.memory->memories) {
    put_in_order(memory.steps);
    steps_ += memory.steps.size();
  }
  for (const transport::ChargeLog& log : course.charges) steps_ += log.size();
  const std::vector<transport::PortCounters> before = std::move(course.counters);
  course.counters.clear();
  for (std::size_t i = 0; i < counters_.size(); ++i) course.counters.push_back(difference(*counters_[i], before[i]));
  courses_.emplace(key, std::move(course));
}

std::uint64_t ReuseTable::replay(const Course& course, Time now) {
  std::uint64_t transactions = 0;
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    transport::PortCounters& c = *counters_[i];
    const transport::PortCounters& more = course.counters[i];
    c.transactions += more.transactions;
    if (i < ports_.size()) transactions += more.transactions;
    c.payload_bytes += more.payload_bytes;
    c.wire_bytes += more.wire_bytes;
    c.busy += more.busy;
    if (!course.charges.empty()) {
      c.replayed = &course.charges[i];
      c.replayed_from = now;
    }
    c.peak_queued_bytes = std::max(c.peak_queued_bytes, more.peak_queued_bytes);
    for (std::size_t k = 0; k < c.waited.size(); ++k) c.waited[k].add(more.waited[k]);
  }
  return transactions;
}

std::vector<std::unique_ptr<ReuseTable>> isolate(
    transport::Fabric& fabric, const std::vector<ReuseGroup>& groups, std::uint8_t traffic_class,
    const std::vector<std::tuple<transport::Window, transport::Window, std::uint8_t>>& others) {
  std::vector<PortKey> reached;
  for (const auto& [source, destination, other_class] : others)
    add_ports(reached, fabric.path(source, destination, other_class));
  sort_unique(reached);
  std::vector<std::vector<PortKey>> own(groups.size());
  std::vector<std::vector<transport::Meter*>> meters(groups.size());
  std::map<PortKey, std::uint32_t> users;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    bool spread = false;
    for (const transport::Window a : groups[g].members)
      for (const transport::Window b : groups[g].members)
        if (a != b) spread |= add_ports(own[g], fabric.path(a, b, traffic_class), &meters[g]);
    sort_unique(own[g]);
    for (const PortKey& port : own[g]) ++users[port];
    if (spread) own[g].clear();
  }
  std::vector<std::unique_ptr<ReuseTable>> tables;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<PortKey>& ports = own[g];
    const bool alone = std::all_of(ports.begin(), ports.end(), [&](const PortKey& port) {
      return users[port] == 1 && !std::binary_search(reached.begin(), reached.end(), port);
    });
    if (!alone || ports.empty()) {
      tables.push_back(nullptr);
      continue;
    }
    std::vector<std::pair<transport::Device*, PortId>> mine;
    for (transport::Device* device : fabric.devices())  // in an order that does not depend on addresses
      for (std::uint32_t p = 0; p < device->ports(); ++p)
        if (std::binary_search(ports.begin(), ports.end(), PortKey(device, p))) mine.emplace_back(device, PortId(p));
    tables.push_back(std::make_unique<ReuseTable>(fabric, std::move(mine), meters[g], groups[g].least_launch));
  }
  return tables;
}

}  // namespace railyard::collective
