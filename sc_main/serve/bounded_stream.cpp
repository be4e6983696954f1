#include "sc_main/serve/bounded_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

namespace railyard::serve {

namespace {

using Clock = BoundedStream::Clock;

/// @return whether it happens until then
bool wait_for(socket_t socket, short what, Clock::time_point until) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd one{socket, what, 0};
    const int found = poll(&one, 1, static_cast<int>(std::clamp<long long>(left, 0, 3600 * 1000)));
    if (found > 0) return true;
    if (found == 0 && Clock::now() >= until) return false;
    if (found < 0 && errno != EINTR) return false;
  }
}

}  // namespace

ssize_t BoundedStream::receive(Clock::time_point until) {
  while (true) {
    if (!wait_for(socket_, POLLIN, until)) {
      broken_ = Broken::too_slow;
      return -1;
    }
    const ssize_t got = recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    begin_ = 0;
    end_ = got > 0 ? static_cast<std::size_t>(got) : 0;
    if (got <= 0) broken_ = Broken::by_client;
    return got;
  }
}

bool BoundedStream::wait_request(Clock::duration patience) {
  return begin_ < end_ || receive(Clock::now() + patience) > 0;
}

ssize_t BoundedStream::read(char* to, std::size_t size) {
  if (broken_ != Broken::no) return -1;
  if (allowed_ == 0) {
    broken_ = Broken::too_large;
    return -1;
  }
  if (begin_ == end_) {
    const ssize_t got = receive(until_);
    if (got <= 0) return got;
  }
  const std::size_t taken = std::min({size, end_ - begin_, allowed_});
  std::memcpy(to, buffer_.data() + begin_, taken);
  begin_ += taken;
  allowed_ -= taken;
  return static_cast<ssize_t>(taken);
}

bool BoundedStream::is_writable() const { return wait_for(socket_, POLLOUT, Clock::now()); }

ssize_t BoundedStream::write(const char* from, std::size_t size) {
  while (true) {
    if (!wait_for(socket_, POLLOUT, Clock::now() + write_patience_)) return -1;
    const ssize_t sent = send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return sent;
    if (errno != EINTR && errno != EAGAIN) return -1;
  }
}

bool BoundedStream::has_left() const {
  if (begin_ < end_) return false;  // a request that follows in the pipeline
  char byte = 0;
  const ssize_t got = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
}

void BoundedStream::linger() {
  constexpr auto kPatience = std::chrono::seconds(1);
  constexpr std::size_t kMost = 1 << 20;
  shutdown(socket_, SHUT_WR);
  const Clock::time_point until = Clock::now() + kPatience;
  for (std::size_t thrown_away = 0; thrown_away < kMost;) {
    const ssize_t got = receive(until);
    if (got <= 0) return;
    thrown_away += static_cast<std::size_t>(got);
  }
}

}  // namespace railyard::serve
