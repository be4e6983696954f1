#include "gpu/memory_traffic.h"

#include <algorithm>

namespace railyard::gpu {

using transport::Message;
using transport::MessageKind;
using transport::Window;

void MemoryTraffic::add(Gpu& gpu) {
  if (gpu.window() >= memories_.size()) memories_.resize(gpu.window() + 1);
  Memory& memory = memories_[gpu.window()];
  memory.gpu = &gpu;
  for (std::uint32_t p = 0; p < gpu.ports(); ++p)
    memory.ports += gpu.port(PortId(p)).egress.link().rate.bytes_per_second();
}

void MemoryTraffic::add_part(std::vector<Part>& parts, Window window, std::uint32_t reads, std::uint32_t writes) const {
  if (window < memories_.size() && memories_[window].gpu != nullptr) parts.push_back({window, reads, writes});
}

void MemoryTraffic::find_parts(const Message& message, std::vector<Part>& parts) const {
  parts.clear();
  switch (message.kind) {
    case MessageKind::write:
      add_part(parts, message.source, message.source_reads, 0);
      add_part(parts, message.destination, 0, 1);
      break;
    case MessageKind::read:
      add_part(parts, message.destination, 1, 0);
      add_part(parts, message.source, 0, 1);
      break;
    case MessageKind::multicast:
      add_part(parts, message.source, message.source_reads, 0);
      for (const Window member : fabric_.group(message.group)) add_part(parts, member, 0, 1);
      break;
    case MessageKind::reduce:  // the result stays in registers
      for (const Window member : fabric_.group(message.group)) add_part(parts, member, 1, 0);
      break;
  }
}

void MemoryTraffic::on_begun(const Message& message) {
  if (message.uncontended == Time()) return;  // a copy inside one memory has its own rate
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(demands_.size()));
    demands_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  Demand& demand = demands_[number];
  find_parts(message, demand.parts);
  if (demand.parts.empty()) return;
  free_.pop_back();
  demand.rate = static_cast<std::uint64_t>(static_cast<double>(message.bytes) / message.uncontended.seconds());
  change(demand, true);
  fabric_.calendar().at(fabric_.now() + message.uncontended, *this, 0, number);
}

void MemoryTraffic::on_event(std::uint32_t, std::uint64_t number) {
  change(demands_[number], false);
  free_.push_back(static_cast<std::uint32_t>(number));
}

void MemoryTraffic::on_over(const Message& message) {
  find_parts(message, parts_);
  for (const Part& part : parts_) memories_[part.window].bytes += message.bytes * (part.reads + part.writes);
}

void MemoryTraffic::change(const Demand& demand, bool begins) {
  for (const Part& part : demand.parts) {
    Memory& memory = memories_[part.window];
    const std::uint64_t read = demand.rate * part.reads, written = demand.rate * part.writes;
    memory.read = begins ? memory.read + read : memory.read - read;
    memory.written = begins ? memory.written + written : memory.written - written;
    memory.gpu->sms().set_traffic(
        static_cast<double>(std::min(memory.read, 2 * memory.ports) + std::min(memory.written, memory.ports)));
  }
}

}  // namespace railyard::gpu
