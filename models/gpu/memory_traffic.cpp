#include "gpu/memory_traffic.h"

#include <algorithm>

#include "transport/fabric.h"

namespace railyard::gpu {

using transport::MemoryRecording;
using transport::Message;
using transport::MessageKind;
using transport::Window;

namespace {

constexpr std::uint32_t kLeaveTag = 0;   ///< a message stops taking bandwidth
constexpr std::uint32_t kUpdateTag = 1;  ///< the SM array gets the new traffic

}  // namespace

void MemoryTraffic::add(Gpu& gpu) {
  if (gpu.window() >= memories_.size()) memories_.resize(gpu.window() + 1);
  memories_[gpu.window()] = std::make_unique<Memory>(*this);
  Memory& memory = *memories_[gpu.window()];
  memory.gpu = &gpu;
  for (std::uint32_t p = 0; p < gpu.ports(); ++p)
    memory.ports += gpu.port(PortId(p)).egress.link().rate.bytes_per_second();
  gpu.sms().set_traffic_source(&memory);
}

void MemoryTraffic::add_part(std::vector<Part>& parts, Window window, std::uint32_t reads, std::uint32_t writes) const {
  if (!same_.empty())
    if (const auto found = same_.find(window); found != same_.end()) window = found->second;
  if (window < memories_.size() && memories_[window] != nullptr) parts.push_back({window, reads, writes});
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

std::uint64_t MemoryTraffic::rate_of(const Message& message) {
  return static_cast<std::uint64_t>(static_cast<double>(message.bytes) / message.uncontended.seconds());
}

void MemoryTraffic::on_begun(const Message& message) {
  if (message.uncontended == Time()) return;  // a copy inside one memory has a rate of its own
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(demands_.size()));
    demands_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  Demand& demand = demands_[number];
  find_parts(message, demand.parts);
  if (demand.parts.empty()) return;
  free_.pop_back();
  demand.rate = rate_of(message);
  change(demand, true);
  fabric_.calendar().at(fabric_.now() + message.uncontended, *this, kLeaveTag, number);
}

void MemoryTraffic::on_event(std::uint32_t tag, std::uint64_t data) {
  switch (tag) {
    case kLeaveTag:
      change(demands_[data], false);
      free_.push_back(static_cast<std::uint32_t>(data));
      break;
    case kUpdateTag: update(*memories_[data]); break;
  }
}

void MemoryTraffic::on_over(const Message& message) {
  find_parts(message, parts_);
  for (const Part& part : parts_) memories_[part.window]->bytes += message.bytes * (part.reads + part.writes);
}

void MemoryTraffic::change(const Demand& demand, bool begins) {
  for (const Part& part : demand.parts) {
    Memory& memory = *memories_[part.window];
    memory.gpu->sms().expect_present();
    begin_change(memory);
    ++(begins ? memory.messages : memory.messages_over);
    const std::uint64_t read = demand.rate * part.reads, written = demand.rate * part.writes;
    memory.load.read += begins ? read : -read;
    memory.load.written += begins ? written : -written;
    if (memory.gpu->sms().watched()) expect_update(memory, fabric_.now());
  }
}

void MemoryTraffic::begin_change(Memory& memory) {
  if (memory.changed == fabric_.now()) return;
  memory.before = memory.load;
  memory.changed = fabric_.now();
}

// -- recordings

void MemoryTraffic::keep(const Message& message, Time after, MemoryRecording& recording) const {
  find_parts(message, parts_);
  for (const Part& part : parts_) {
    auto memory = std::find_if(recording.memories.begin(), recording.memories.end(),
                               [&part](const MemoryRecording::Memory& m) { return m.window == part.window; });
    if (memory == recording.memories.end()) memory = recording.memories.insert(memory, {part.window, 0, {}});
    memory->bytes += message.bytes * (part.reads + part.writes);
    if (message.uncontended == Time()) continue;
    const auto read = static_cast<std::int64_t>(rate_of(message) * part.reads);
    const auto written = static_cast<std::int64_t>(rate_of(message) * part.writes);
    memory->steps.push_back({after, read, written});
    memory->steps.push_back({after + message.uncontended, -read, -written});
  }
}

void MemoryTraffic::on_replayed(std::shared_ptr<const MemoryRecording> recording, const std::vector<Window>& windows) {
  const Time now = fabric_.now();
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const MemoryRecording::Memory& of_recording = recording->memories[i];
    Memory& memory = *memories_[windows[i]];
    memory.bytes += of_recording.bytes;
    ++memory.replays_begun;
    const auto done =
        [now](const Replay&
                  replay) {  // its steps sum to zero, so it may leave once all of them, or none, are in the load
          return replay.over() || (replay.next == 0 && replay.from + replay.steps->back().after < now);
        };
    memory.replays.erase(std::remove_if(memory.replays.begin(), memory.replays.end(), done), memory.replays.end());
    if (of_recording.steps.empty()) continue;
    memory.replays.push_back({recording, &of_recording.steps, now});
    if (memory.gpu->sms().watched()) expect_step(memory);
  }
}

void MemoryTraffic::on_composed(const MemoryRecording& recording, const std::vector<Window>& windows,
                                std::uint64_t times) {
  for (std::size_t i = 0; i < windows.size(); ++i) memories_[windows[i]]->bytes += recording.memories[i].bytes * times;
}

bool MemoryTraffic::Memory::are_over(std::size_t but_last) const {
  if (messages != messages_over) return false;
  const Time now = owner.fabric_.now();
  for (std::size_t i = 0; i + but_last < replays.size(); ++i)
    if (replays[i].from + replays[i].steps->back().after >= now) return false;
  return true;
}

void MemoryTraffic::catch_up(Memory& memory, bool with_now) {
  const Time now = fabric_.now();
  for (Replay& replay : memory.replays)
    for (; !replay.over() && replay.when() < now; ++replay.next) {
      const MemoryRecording::Step& step = (*replay.steps)[replay.next];
      memory.load.add(step);
      if (memory.changed == now) memory.before.add(step);
    }
  if (!with_now) return;
  for (Replay& replay : memory.replays)
    for (; !replay.over() && replay.when() == now; ++replay.next) {
      begin_change(memory);
      memory.load.add((*replay.steps)[replay.next]);
    }
}

void MemoryTraffic::expect_step(Memory& memory) {
  Time next = Time::max();
  for (const Replay& replay : memory.replays)
    if (!replay.over()) next = sooner(next, replay.when());
  if (next != Time::max()) expect_update(memory, next);
}

// -- kernels

MessageTraffic MemoryTraffic::traffic(const Memory& memory, const Load& load) {
  return {static_cast<double>(std::min(load.read, 2 * memory.ports) + std::min(load.written, memory.ports)),
          static_cast<double>(load.read + load.written)};
}

MessageTraffic MemoryTraffic::watched(Memory& memory) {
  catch_up(memory, false);
  expect_step(memory);
  if (memory.changed != fabric_.now()) return traffic(memory, memory.load);
  expect_update(memory, fabric_.now());
  return traffic(memory, memory.before);
}

void MemoryTraffic::expect_update(Memory& memory, Time when) {
  if (memory.next_update <= when) return;
  memory.next_update = when;
  const transport::Window window = memory.gpu->window();
  fabric_.calendar().at_last(when, transport::Calendar::kLastTurns + window, *this, kUpdateTag, window);
}

void MemoryTraffic::update(Memory& memory) {
  if (memory.next_update != fabric_.now()) return;  // done already, or an earlier event has replaced this one
  memory.next_update = Time::max();
  if (!memory.gpu->sms().watched()) return;
  catch_up(memory, true);
  memory.gpu->sms().set_traffic(traffic(memory, memory.load));
  expect_step(memory);
}

}  // namespace railyard::gpu
