#include "transport/recovery.h"

#include <algorithm>

#include "transport/device/endpoint.h"

namespace railyard::transport {

void Recovery::on_lost(Message& message, std::uint64_t address, Bytes bytes) {
  // Handle losses later, not inside a device, whose queues may be in an intermediate state.
  if (losses_.empty()) context_.calendar.at(context_.calendar.now(), *this, 0, 0);
  losses_.push_back({&message, address, bytes});
  lost_bytes_ += bytes;
}

void Recovery::on_read_lost(Transaction& transaction) {
  if (transaction.fork != nullptr) {
    lost_bytes_ += transaction.payload_bytes;
    give_up(*transaction.message, transaction.payload_bytes);
    return;
  }
  context_.endpoints[window_of(transaction.reply_to)]->read_lost(transaction);
}

void Recovery::on_event(std::uint32_t, std::uint64_t) {
  for (const Loss& loss : std::exchange(losses_, {})) {
    Sender* const sender = routes_.sender(loss.message->source);
    if (sender == nullptr || !sender->send_again(*loss.message, loss.address, loss.bytes))
      give_up(*loss.message, loss.bytes);
  }
}

void Recovery::give_up(Message& message, Bytes bytes) {
  const Time now = context_.calendar.now();
  const bool first = message.undeliverable == 0;
  const bool ends = of_group(message.kind) || (first && !message.client->on_cut_off(message));
  if (ends && !undeliverable_)
    undeliverable_ = {now,           message.source, message.destination,   message.kind,
                      message.group, message.bytes,  message.traffic_class, message.client->name_of(message)};
  message.undeliverable += std::max<Bytes>(1, bytes);
  message.finished = later(message.finished, now);
  // Copies and operands of a multicast or a reduction are not counted, so its message stays in flight.
  if (!of_group(message.kind) && message.landed + message.undeliverable >= message.to_land)
    context_.endpoints[message.source]->complete(message);
}

}  // namespace railyard::transport
