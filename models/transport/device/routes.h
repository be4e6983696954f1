// Routes: the sender of each memory, and shared properties of messages on one path: the path, the transaction size and
// the time of a message without contention. All of them depend on the state of links and are recomputed after a change.
#pragma once

#include <unordered_map>
#include <vector>

#include "transport/device/path.h"

namespace railyard::transport {

/// The sending side of a memory for Fabric::send(): selects the egress and injects the message.
class Sender {
 public:
  virtual void send(Message& message) = 0;
  /// Sends bytes of a message again that a failed link has cut off. @return false: no path is left
  virtual bool send_again(Message&, [[maybe_unused]] std::uint64_t address, [[maybe_unused]] Bytes bytes) {
    return false;
  }
  /// The path of a message of this class, by the same policy; shown by --describe.
  virtual Path path_to(Window destination, std::uint8_t traffic_class, Engine engine) const = 0;
  /// The path of a message of any kind; for a write, path_to(). Throws if this sender cannot send this kind.
  virtual Path path_of(const Message& message) const;

 protected:
  ~Sender() = default;
};

class Routes {
 public:
  /// @param transaction_bytes  payload per transaction; 0: automatic, by path
  explicit Routes(Bytes transaction_bytes) : transaction_bytes_(transaction_bytes) {}

  void add_sender(Window window, Sender& sender);
  /// Null if no sender has that window.
  Sender* sender(Window window) const { return window < sources_.size() ? sources_[window].sender : nullptr; }

  Path path(Window source, Window destination, std::uint8_t traffic_class, Engine engine = Engine::sm) const {
    return sources_[source].sender->path_to(destination, traffic_class, engine);
  }
  Path path_of(const Message& message) const { return sources_[message.source].sender->path_of(message); }
  Bytes transaction_bytes(const Path& path) const;
  /// Time of a message without contention.
  Time uncontended(const Message& message) { return of(message).uncontended(message.bytes); }

  /// Shared properties of messages on one path.
  class Route {
   public:
    Path path;
    Bytes transaction_bytes = 0;
    Time last_byte;  ///< from the write of the last byte to its arrival
    Time uncontended(Bytes bytes) {
      return bytes == latest_bytes_ && !known_.empty() ? latest_uncontended_ : find_uncontended(bytes);
    }

   private:
    Time find_uncontended(Bytes bytes);
    Bytes latest_bytes_ = 0;
    Time latest_uncontended_;
    std::unordered_map<Bytes, Time> known_;
  };
  /// Consecutive messages of a source often use the same route, so the latest route is cached and no table is searched.
  Route& of(const Message& message) {
    const std::uint64_t key = message.path_key();
    const Source& source = sources_[message.source];
    return source.latest != nullptr && key == source.latest_key ? *source.latest : find(key, message);
  }
  /// The state of some link has changed.
  void links_changed();

 private:
  struct Source {
    Sender* sender = nullptr;
    std::uint64_t latest_key = 0;
    Route* latest = nullptr;
  };
  Route& find(std::uint64_t key, const Message& message);

  Bytes transaction_bytes_;
  std::vector<Source> sources_;
  std::unordered_map<std::uint64_t, Route> routes_;
};

}  // namespace railyard::transport
