#include "transport/study/invariants.h"

#include <algorithm>

#include "transport/device/endpoint.h"

namespace railyard::transport {

void Invariants::expect(bool holds, const Device& device, const std::string& what) const {
  if (!holds) SC_REPORT_FATAL(device.name(), ("an invariant is broken: " + what).c_str());
}

Invariants::Passage& Invariants::at(Passages& passages, const Device& device) {
  for (Passage& passage : passages)
    if (passage.device == &device) return passage;
  return passages.emplace_back(Passage{&device});
}

void Invariants::on_send(const Message& message, Time) { under_way_[&message].clear(); }

void Invariants::on_start(const Device& device, PortId id, const Transaction& t, Time now, const Crossing& crossing) {
  const Device::Port& port = device.port(id);
  const LinkDirection& link = port.egress.link();
  // A gapless stream is rounded up once, so one of its trains can be a femtosecond short.
  const Time shortest = link.latency + since(link.rate.time_for(crossing.wire_bytes), Time::fs(1));
  expect(crossing.tail >= now + shortest, device, port.name + ": a train is faster than its link");
  expect(port.busy_until(now) <= now, device, port.name + ": the line is charged for more than has passed");
  expect(port.egress.outstanding(t.virtual_channel) <= port.egress.most_outstanding(t.virtual_channel), device,
         port.name + ": more is outstanding than the far buffer takes");
  expect(port.egress.packets_outstanding(t.virtual_channel) <= port.egress.most_packets_outstanding(t.virtual_channel),
         device, port.name + ": more packets are outstanding than the far end takes");
  if (t.message != nullptr) {
    const auto found = under_way_.find(t.message);
    expect(found != under_way_.end(), device, port.name + ": a transaction of a message that is not under way");
    at(found->second, device).out += t.carried_bytes();
    at(found->second, *port.peer).in += t.carried_bytes();
  }
}

void Invariants::on_delivered(const Message& message, Time) {
  const auto found = under_way_.find(&message);
  const Passages& passages = found->second;
  // Without passages, the message crossed no link, or crossed fluid links. Bytes lost with links are sent again.
  if (context_.losses == nullptr && !passages.empty() && message.bytes != 0) {
    of_group(message.kind) ? expect_group(message, passages) : expect_transfer(message, passages);
  }
  under_way_.erase(found);
}

void Invariants::expect_transfer(const Message& message, const Passages& passages) const {
  std::size_t sources = 0, destinations = 0;
  for (const Passage& p : passages) {
    const bool source = p.out == p.in + message.bytes, destination = p.in == p.out + message.bytes;
    expect(p.in == p.out || source || destination, *p.device, "bytes of a message were lost or made here");
    sources += source;
    destinations += destination;
  }
  expect(sources == 1 && destinations == 1, *passages[0].device, "a message has not one source and one destination");
}

void Invariants::expect_group(const Message& message, const Passages& passages) const {
  Bytes in = 0, out = 0;
  for (const Passage& p : passages) {
    if (dynamic_cast<const Endpoint*>(p.device) != nullptr) continue;
    in += p.in;
    out += p.out;
  }
  const Bytes one = message.bytes, all = message.bytes * context_.groups[message.group].size();
  const bool multicast = message.kind == MessageKind::multicast;
  expect(out - in == (multicast ? all - one : one - all), *passages.front().device,
         "copies or operands of a message were lost or made");
}

void Invariants::on_credit(const Device& device, PortId port, std::uint8_t, Bytes, Time now, Time usable) {
  expect(usable >= now + device.port(port).egress.link().credit_latency, device, "a credit is faster than its link");
}

void Invariants::expect_settled(const std::vector<Device*>& devices) const {
  for (const Device* device : devices) {
    for (std::uint32_t p = 0; p < device->ports(); ++p) {
      const Device::Port& port = device->port(PortId(p));
      expect(port.counters.queued_bytes == 0 && !port.egress.waiting(), *device,
             port.name + ": bytes still wait at the end");
      for (std::uint8_t vc = 0; vc < kVirtualChannels; ++vc)
        expect(port.egress.unreturned(vc) == 0 && port.egress.packets_unreturned(vc) == 0, *device,
               port.name + ": credits are missing at the end");
    }
  }
  if (devices.empty()) return;
  expect(under_way_.empty() && context_.ledger.live() == 0, *devices.front(),
         "messages are still under way at the end");
  expect(context_.pool.live() == 0, *devices.front(), "transactions are still under way at the end");
}

}  // namespace railyard::transport
