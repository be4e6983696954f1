#include "transport/edge/generic_payload_adapter.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "transport/assembly.h"

namespace railyard::transport {

namespace {

constexpr PortId kOut{0};  // an adapter for an initiator has one output port

}  // namespace

InitiatorAdapter::InitiatorAdapter(sc_core::sc_module_name name, Assembly& fabric, Window window,
                                   std::uint8_t traffic_class)
    : Endpoint(name, fabric.context(), window), fabric_(fabric), traffic_class_(traffic_class) {
  fabric.add_device(*this);
  fabric.add_sender(window, *this);
  socket.register_b_transport(this, &InitiatorAdapter::b_transport);
}

void InitiatorAdapter::b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  sc_core::wait(delay);
  delay = sc_core::SC_ZERO_TIME;
  payload.set_dmi_allowed(false);

  const std::uint64_t address = payload.get_address();
  const Bytes bytes = payload.get_data_length();
  const Arrival memory = arrival(walk(*this, kOut, address, 0), address);
  if (memory.endpoint == nullptr || !memory.endpoint->is_memory() ||
      (bytes != 0 && window_of(address + bytes - 1) != window_of(address))) {
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return;
  }
  if (payload.get_byte_enable_ptr() != nullptr) {
    payload.set_response_status(tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE);
    return;
  }
  if (payload.get_streaming_width() < bytes) {
    payload.set_response_status(tlm::TLM_BURST_ERROR_RESPONSE);
    return;
  }
  if (payload.get_command() != tlm::TLM_IGNORE_COMMAND && bytes != 0) {
    Access access;
    Message message;
    message.source = window();
    message.destination = window_of(address);
    message.offset = address - window_base(message.destination);
    message.bytes = bytes;
    message.traffic_class = traffic_class_;
    message.client = this;
    message.cookie = reinterpret_cast<std::uint64_t>(&access);
    if (payload.is_write()) {
      fabric_.send(message);
    } else {
      read(message);
    }
    sc_core::wait(access.done);
    if (payload.is_read()) std::memset(payload.get_data_ptr(), 0, bytes);
  }
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
}

void InitiatorAdapter::send(Message& message) {
  message.address = window_base(message.destination) + message.offset;
  Part part;
  part.message = &message;
  part.bytes = message.bytes;
  part.address = message.address;
  inject(kOut, part);
}

void InitiatorAdapter::read(Message& wanted) {
  const std::uint64_t address = window_base(wanted.destination) + wanted.offset;
  const Arrival memory = arrival(walk(*this, kOut, address, 0, TransactionKind::read_request), address);
  const Path path = read_path(*this, kOut, *memory.endpoint, memory.port, memory.endpoint->read_latency());
  Message& message = *context_.ledger.acquire(wanted);
  message.started = now();
  message.address = address;
  message.transaction_bytes = fabric_.transaction_bytes(path);
  message.uncontended = uncontended_time(path, message.bytes, message.transaction_bytes);
  if (context_.listener != nullptr) context_.listener->on_send(message, now());
  Part part;
  part.message = &message;
  part.bytes = message.bytes;
  part.address = address;
  part.kind = TransactionKind::read_request;
  part.reply_to = window_base(window());
  inject(kOut, part);
}

Path InitiatorAdapter::path_to(Window destination, std::uint8_t, Engine) const {
  Path path;
  path.lanes.push_back({walk(*this, kOut, window_base(destination), 0), 1});
  return path;
}

void InitiatorAdapter::receive(Transaction& t) {
  if (t.kind != TransactionKind::read_response)
    SC_REPORT_FATAL(name(), "an initiator was written to or read from; it has no memory");
  land(t);
}

void InitiatorAdapter::on_delivered(Message& message) {
  reinterpret_cast<Access*>(message.cookie)->done.notify(sc_core::SC_ZERO_TIME);
}

TargetAdapter::TargetAdapter(sc_core::sc_module_name name, Assembly& fabric, Window window)
    : Endpoint(name, fabric.context(), window) {
  fabric.add_device(*this);
  SC_HAS_PROCESS(TargetAdapter);
  SC_THREAD(serve_target);
}

void TargetAdapter::receive(Transaction& t) {
  context_.calendar.at(t.kind == TransactionKind::write ? t.tail : t.head, *this, kArriveTag,
                       reinterpret_cast<std::uint64_t>(&t));
}

void TargetAdapter::on_own_event(std::uint32_t tag, std::uint64_t data) {
  if (tag != kArriveTag) {
    Endpoint::on_own_event(tag, data);
    return;
  }
  arrived_.push_back(reinterpret_cast<Transaction*>(data));
  work_.notify(sc_core::SC_ZERO_TIME);
}

void TargetAdapter::serve_target() {
  for (;;) {
    while (arrived_.empty()) sc_core::wait(work_);
    Transaction& t = *arrived_.front();
    arrived_.pop_front();
    access(t);
    t.tail = later(t.tail, now());
    if (t.kind == TransactionKind::write) {
      land(t);
    } else {
      return_credit(t, t.tail);
      t.egress = t.ingress;
      t.ingress = PortId();
      answer(t);
    }
  }
}

void TargetAdapter::access(Transaction& t) {
  zeros_.assign(std::max<Bytes>(zeros_.size(), t.payload_bytes), 0);
  const auto length = static_cast<unsigned>(t.payload_bytes);
  tlm::tlm_generic_payload payload;
  payload.set_command(t.kind == TransactionKind::write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
  payload.set_address(t.address - window_base(window()));
  payload.set_data_ptr(zeros_.data());
  payload.set_data_length(length);
  payload.set_streaming_width(length);
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  socket->b_transport(payload, delay);
  if (delay != sc_core::SC_ZERO_TIME) sc_core::wait(delay);
  if (!payload.is_response_ok())
    SC_REPORT_ERROR(name(), ("the target answered " + payload.get_response_string() + " at offset " +
                             std::to_string(payload.get_address()))
                                .c_str());
}

}  // namespace railyard::transport
