#include "pcie/host_memory.h"

#include <algorithm>

namespace railyard::pcie {

using transport::Message;
using transport::Transaction;

HostMemory::HostMemory(sc_core::sc_module_name name, transport::FabricContext& context, transport::Window window,
                       const Config& config)
    : Endpoint(name, context, window), config_(config) {}

void HostMemory::serve(transport::Window window, CopyEngine& engine) {
  if (window >= engines_.size()) engines_.resize(window + 1);
  engines_[window] = &engine;
}

CopyEngine& HostMemory::engine(transport::Window window) const {
  if (!serves(window)) SC_REPORT_FATAL(name(), "only GPUs of its server read host memory");
  return *engines_[window];
}

void HostMemory::send(Message& message) {
  message.address = transport::window_base(message.destination) + message.offset;
  if (beyond_ != nullptr && !serves(message.destination)) {
    beyond_->send(message);
    return;
  }
  engine(message.destination).fetch(message, *this, message.bytes);
}

transport::Path HostMemory::path_to(transport::Window destination, std::uint8_t traffic_class,
                                    transport::Engine with) const {
  if (beyond_ != nullptr && !serves(destination)) return beyond_->path_to(destination, traffic_class, with);
  return engine(destination).fetch_path(*this);
}

transport::Path HostMemory::path_of(const Message& message) const {
  if (beyond_ != nullptr && !serves(message.destination)) return beyond_->path_of(message);
  return Sender::path_of(message);
}

transport::Path HostMemory::bounce_path(transport::Path in, transport::Window destination,
                                        transport::Engine with) const {
  const transport::Path on = engine(destination).fetch_path(*this);
  auto& hops = in.lanes[0].hops;
  in.hops_to_stage = hops.size();
  in.chunk_bytes = config_.chunk_bytes;
  if (with == transport::Engine::copy_engine) in.chunk_start = config_.copy_start;
  hops.insert(hops.end(), on.lanes[0].hops.begin(), on.lanes[0].hops.end());
  in.fixed = on.fixed;
  in.limit = on.limit;
  in.request_bytes = on.request_bytes;
  in.asked_ahead_bytes = on.asked_ahead_bytes;
  in.completion_payload_bytes = on.completion_payload_bytes;
  return in;
}

Bytes HostMemory::end_of(const Message& message, std::uint64_t chunk) const {
  return std::min(message.bytes, (chunk + 1) * config_.chunk_bytes);
}

Bytes HostMemory::size_of(const Message& message, std::uint64_t chunk) const {
  return end_of(message, chunk) - chunk * config_.chunk_bytes;
}

bool HostMemory::bounce(Message& message) {
  const auto [found, fresh] = staged_.try_emplace(&message);
  if (!fresh) return false;
  Staged& staged = found->second;
  staged.chunks = std::max<std::uint64_t>(1, ceil_div(message.bytes, config_.chunk_bytes));
  go_on(message, staged);
  return true;
}

void HostMemory::go_on(Message& message, Staged& staged) {
  const std::uint64_t room = std::min<std::uint64_t>(staged.chunks, staged.taken + config_.chunks);
  if (message.engine == transport::Engine::sm) {
    while (staged.written < room) start(false, message, staged);
    while (staged.fetched < staged.arrived) start(true, message, staged);
    return;
  }
  const auto start_later = [&](std::uint32_t tag) {
    context_.calendar.at(now() + config_.copy_start, *this, tag, reinterpret_cast<std::uint64_t>(&message));
    return true;
  };
  if (!staged.writes && staged.written < room) staged.writes = start_later(kWriteTag);
  if (!staged.reads && staged.fetched < staged.arrived) staged.reads = start_later(kReadTag);
}

void HostMemory::start(bool is_in, Message& message, Staged& staged) {
  if (is_in) {
    engine(message.destination).fetch(message, *this, size_of(message, staged.fetched++));
  } else {
    engine(message.source).stage(message, *this, size_of(message, staged.written++));
  }
}

void HostMemory::begin(const CopyEngine::Chunk& chunk) {
  start(chunk.is_in, *chunk.message, staged_.at(chunk.message));
}

void HostMemory::receive(Transaction& t) {
  if (asks(t.kind) || t.message->to() == window()) {
    Endpoint::receive(t);
    return;
  }
  Message& message = *t.message;
  Staged& staged = staged_.at(&message);
  staged.arrived_bytes += t.payload_bytes;
  if (staged.arrived_bytes == end_of(message, staged.whole)) {
    ++staged.whole;
    context_.calendar.at(t.tail, *this, kWholeTag, reinterpret_cast<std::uint64_t>(&message));
  }
  return_credit(t, t.tail);
  context_.pool.release(&t);
}

void HostMemory::taken(Message& message, Bytes bytes, Time when) {
  if (message.source == window()) return;  // not a bounce
  const auto found = staged_.find(&message);
  Staged& staged = found->second;
  staged.taken_bytes += bytes;
  if (staged.taken_bytes != end_of(message, staged.read)) return;
  if (++staged.read == staged.chunks) {
    staged_.erase(found);
    if (message.engine != transport::Engine::sm) context_.calendar.at(when, *this, kLastTag, message.destination);
  } else if (message.engine != transport::Engine::sm || staged.written < staged.chunks) {
    // There must be no event after the last chunk was read: SMs need no room after all of their chunks are written.
    context_.calendar.at(when, *this, kRoomTag, reinterpret_cast<std::uint64_t>(&message));
  }
}

void HostMemory::on_own_event(std::uint32_t tag, std::uint64_t data) {
  if (tag < kWholeTag) {
    Endpoint::on_own_event(tag, data);
    return;
  }
  if (tag == kLastTag) {
    engine(static_cast<transport::Window>(data)).passed();
    return;
  }
  Message& message = *reinterpret_cast<Message*>(data);
  Staged& staged = staged_.at(&message);
  const bool by_engines = message.engine != transport::Engine::sm;
  switch (tag) {
    case kWholeTag:
      ++staged.arrived;
      staged.writes = false;
      if (by_engines) engine(message.source).passed();
      go_on(message, staged);
      break;
    case kRoomTag:
      ++staged.taken;
      staged.reads = false;
      if (by_engines) engine(message.destination).passed();
      go_on(message, staged);
      break;
    case kWriteTag: engine(message.source).pass({this, &message, false}); break;
    default: engine(message.destination).pass({this, &message, true});
  }
}

}  // namespace railyard::pcie
