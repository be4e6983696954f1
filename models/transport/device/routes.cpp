#include "transport/device/routes.h"

#include <stdexcept>

namespace railyard::transport {

Path Sender::path_of(const Message& message) const {
  if (message.kind != MessageKind::write) throw std::logic_error("this source only writes");
  return path_to(message.destination, message.traffic_class, message.engine);
}

void Routes::add_sender(Window window, Sender& sender) {
  if (window >= sources_.size()) sources_.resize(window + 1);
  sources_[window].sender = &sender;
}

Bytes Routes::transaction_bytes(const Path& path) const {
  return transaction_bytes_ != 0 ? transaction_bytes_ : automatic_transaction_bytes(path);
}

Routes::Route& Routes::find(std::uint64_t key, const Message& message) {
  const auto [found, fresh] = routes_.try_emplace(key);
  Route& route = found->second;
  if (fresh) {
    route.path = path_of(message);
    route.transaction_bytes = transaction_bytes(route.path);
    route.last_byte = last_byte_time(route.path, route.transaction_bytes);
  }
  Source& source = sources_[message.source];
  source.latest_key = key;
  source.latest = &route;
  return route;
}

Time Routes::Route::find_uncontended(Bytes bytes) {
  const auto [found, fresh] = known_.try_emplace(bytes);
  if (fresh) found->second = uncontended_time(path, bytes, transaction_bytes);
  latest_bytes_ = bytes;
  latest_uncontended_ = found->second;
  return found->second;
}

void Routes::links_changed() {
  for (Source& source : sources_) source.latest = nullptr;
  routes_.clear();
}

}  // namespace railyard::transport
