#include "sc_main/serve/connections.h"

#include <sys/socket.h>
#include <system_error>
#include <thread>

namespace railyard::serve {

bool Connections::add(socket_t socket) {
  const std::lock_guard lock(mutex_);
  if (has_ended_ || open_.size() >= most_) return false;
  open_.insert(socket);
  return true;
}

void Connections::remove(socket_t socket) {
  const std::lock_guard lock(mutex_);
  open_.erase(socket);
  removed_.notify_all();
}

void Connections::end() {
  std::unique_lock lock(mutex_);
  has_ended_ = true;
  for (const socket_t socket : open_) shutdown(socket, SHUT_RD);
  removed_.wait(lock, [this] { return open_.empty(); });
}

ThreadForEach::Enqueued ThreadForEach::enqueue(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    ++running_;
  }
  const auto run = [this, job = std::move(job)] {
    job();
    const std::lock_guard lock(mutex_);
    --running_;
    ended_.notify_all();
  };
  try {
    std::thread(run).detach();
  } catch (const std::system_error&) {
    is_refused_ = true;
    run();
    is_refused_ = false;
  }
  return static_cast<Enqueued>(true);
}

void ThreadForEach::shutdown() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return running_ == 0; });
}

}  // namespace railyard::serve
