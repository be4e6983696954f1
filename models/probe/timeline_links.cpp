#include "probe/timeline_links.h"

namespace railyard::probe {

namespace {

constexpr std::size_t kUse = 0, kQueue = 1;
constexpr double kPercent = 100;

}  // namespace

void TimelineLinks::attach(const transport::Device& sender, PortId port, const std::string& name,
                           const transport::Device& home) {
  Direction& d = directions_.emplace_back();
  d.port = &sender.port(port);
  d.name = name;
  d.process = file_.process(home.name());
  d.order = static_cast<std::uint32_t>(directions_.size());
  d.bursts.resize(class_names_.size());
  std::vector<Direction*>& ports = by_port_[&sender];
  ports.resize(sender.ports(), nullptr);
  ports[port.value()] = &d;
}

TimelineLinks::Direction* TimelineLinks::direction(const transport::Device& device, PortId port) {
  if (latest_device_ != &device) {
    latest_device_ = &device;
    const auto found = by_port_.find(&device);
    latest_ports_ = found == by_port_.end() ? nullptr : &found->second;
  }
  return latest_ports_ == nullptr ? nullptr : (*latest_ports_)[port.value()];
}

void TimelineLinks::appear(Direction& d) {
  d.lanes = Lanes(d.process, d.name, d.order);
  const Time longest = large_ ? WindowCounter::kLongestOfMany : WindowCounter::kLongest;
  d.counters.emplace_back(file_.events, d.process, d.name, "use %", WindowCounter::Of::mean, longest);
  d.counters.emplace_back(file_.events, d.process, d.name, "queued bytes", WindowCounter::Of::peak, longest);
}

void TimelineLinks::on_start(const transport::Device& device, PortId port, const transport::Transaction& t, Time now,
                             const transport::Crossing& crossing) {
  Direction* const found = direction(device, port);
  if (found == nullptr) return;
  Direction& d = *found;
  if (d.counters.empty()) appear(d);
  count_use(d, now);
  d.charged_from = now;
  d.charged_until = d.port->egress.free();

  Burst& burst = this->burst(d, t.traffic_class, now);
  burst.until = later(burst.until, crossing.leaves);
  burst.bytes += t.carried_bytes();
  burst.wire_bytes += crossing.wire_bytes;
  ++burst.trains;
}

void TimelineLinks::on_replay(const transport::Device& device, PortId port, std::uint8_t traffic_class,
                              const transport::PortCounters& added, Time from, Time until) {
  Direction* const found = direction(device, port);
  if (found == nullptr) return;
  Direction& d = *found;
  if (d.counters.empty()) appear(d);
  count_use(d, from);
  d.charged_until = Time();
  d.counters[kUse].add(from, until, kPercent * (added.busy.seconds() / (until - from).seconds()));
  d.counters[kQueue].add(from, until, static_cast<double>(added.peak_queued_bytes));

  Burst& burst = this->burst(d, traffic_class, from);
  burst.until = later(burst.until, until);
  burst.bytes += added.payload_bytes;
  burst.wire_bytes += added.wire_bytes;
  burst.trains += added.transactions;
}

TimelineLinks::Burst& TimelineLinks::burst(Direction& d, std::uint8_t traffic_class, Time from) {
  Burst& burst = d.bursts[traffic_class];
  Time gap = kGap;
  if (large_) {
    const auto [begin, end] = WindowCounter::window_at(from, WindowCounter::kLongestOfMany);
    gap = later(gap, end - begin);
  }
  if (burst.trains != 0 && from > burst.until + gap) write(d, traffic_class);
  if (burst.trains == 0) burst.from = from;
  return burst;
}

void TimelineLinks::on_queue(const transport::Device& device, PortId port, Bytes queued, Time now) {
  Direction* const found = direction(device, port);
  if (found == nullptr) return;
  Direction& d = *found;
  if (now != d.queued_since) {
    count_queue(d, now);
    d.queued_since = now;
  }
  d.queued = queued;
}

void TimelineLinks::count_use(Direction& d, Time now) {
  d.counters[kUse].add(d.charged_from, sooner(d.charged_until, now), kPercent);
}

void TimelineLinks::count_queue(Direction& d, Time now) {
  if (d.queued == 0) return;
  if (d.counters.empty()) appear(d);
  d.counters[kQueue].add(d.queued_since, now, static_cast<double>(d.queued));
}

void TimelineLinks::write(Direction& d, std::size_t traffic_class) {
  Burst& burst = d.bursts[traffic_class];
  const std::string& name = class_names_[traffic_class];
  file_.events.slice(d.lanes.place(file_.events, burst.from, burst.until), name, name, burst.from, burst.until,
                     {{"bytes", burst.bytes}, {"wire_bytes", burst.wire_bytes}, {"trains", burst.trains}});
  burst = Burst();
}

void TimelineLinks::finish(Time end) {
  for (Direction& d : directions_) {
    count_queue(d, end);
    if (d.counters.empty()) continue;
    count_use(d, end);
    for (WindowCounter& counter : d.counters) counter.finish(end);
    for (std::size_t c = 0; c < d.bursts.size(); ++c) {
      d.bursts[c].until = sooner(d.bursts[c].until, end);
      if (d.bursts[c].trains != 0) write(d, c);
    }
  }
}

}  // namespace railyard::probe
