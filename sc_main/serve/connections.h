// A thread for each connection, up to a bound. Beyond it, a connection is refused at once.
#pragma once

#include <httplib.h>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

namespace railyard::serve {

/// The open connections of an endpoint.
class Connections {
 public:
  explicit Connections(std::size_t most) : most_(most) {}

  /// @return whether there is room for another one, and end() has not been called; then remove() must follow
  bool add(socket_t socket);
  void remove(socket_t socket);
  /// Waits until all have been removed; ends those that wait for a client.
  void end();

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable removed_;
  std::set<socket_t> open_;
  bool has_ended_ = false;
};

/// Starts a thread for each job. What enqueue() returns depends on the version of cpp-httplib.
class ThreadForEach : public httplib::TaskQueue {
 public:
  using Enqueued = decltype(std::declval<httplib::TaskQueue&>().enqueue(std::function<void()>()));

  Enqueued enqueue(std::function<void()> job) override;
  /// Waits for all jobs.
  void shutdown() override;
  /// Whether this computer has no thread for the present job, which should end at once.
  static bool is_refused() { return is_refused_; }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t running_ = 0;
  static inline thread_local bool is_refused_ = false;
};

}  // namespace railyard::serve
