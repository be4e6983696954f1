#include "gpu/memory_traffic.h"

namespace railyard::gpu {

using transport::Message;
using transport::MessageKind;
using transport::Window;

void MemoryTraffic::add(Gpu& gpu) {
  if (gpu.window() >= memories_.size()) memories_.resize(gpu.window() + 1);
  Memory& memory = memories_[gpu.window()];
  memory.gpu = &gpu;
  for (std::uint32_t p = 0; p < gpu.ports(); ++p) memory.ports += gpu.port(PortId(p)).egress.link().rate.bytes_per_second();
}

void MemoryTraffic::change(const Message& message, bool begins) {
  switch (message.kind) {
    case MessageKind::write:
      change(message.source, message, message.source_reads, 0, begins);
      change(message.destination, message, 0, 1, begins);
      break;
    case MessageKind::read:
      change(message.destination, message, 1, 0, begins);
      change(message.source, message, 0, 1, begins);
      break;
    case MessageKind::multicast:
      change(message.source, message, message.source_reads, 0, begins);
      for (const Window member : fabric_.group(message.group)) change(member, message, 0, 1, begins);
      break;
    case MessageKind::reduce:  // the result stays in registers
      for (const Window member : fabric_.group(message.group)) change(member, message, 1, 0, begins);
      break;
  }
}

void MemoryTraffic::change(Window window, const Message& message, std::uint32_t reads, std::uint32_t writes, bool begins) {
  if (window >= memories_.size() || memories_[window].gpu == nullptr) return;
  Memory& memory = memories_[window];
  if (!begins) memory.bytes += message.bytes * (reads + writes);
  if (message.uncontended == Time()) return;  // a copy inside one memory has its own rate
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(message.bytes) / message.uncontended.seconds());
  const std::uint64_t change_of_reads = rate * reads, change_of_writes = rate * writes;
  memory.read = begins ? memory.read + change_of_reads : memory.read - change_of_reads;
  memory.written = begins ? memory.written + change_of_writes : memory.written - change_of_writes;
  memory.gpu->sms().set_traffic(static_cast<double>(std::min(memory.read, 2 * memory.ports) + std::min(memory.written, memory.ports)));
}

}  // namespace railyard::gpu
