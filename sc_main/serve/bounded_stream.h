// A connection of a client as cpp-httplib reads and writes it, with bounds of its own: an instant until which a request must have come, a
// number of bytes that it may have, and time for a client to take what is written. cpp-httplib itself bounds only the pause between two
// bytes, and not the number of headers. Uses poll(), so any number of files can be open.
#pragma once

#include <httplib.h>
#include <array>
#include <chrono>
#include <cstddef>

namespace railyard::serve {

class BoundedStream : public httplib::Stream {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Broken { no, too_large, too_slow, by_client };

  /// @param socket        stays open after the stream
  /// @param write_patience  for a client to take some of what is written
  BoundedStream(socket_t socket, Clock::duration write_patience) : socket_(socket), write_patience_(write_patience) {}

  /// Waits for the first byte of the next request. @return false: none came
  bool wait_request(Clock::duration patience);
  /// From now on, until the next call, so many bytes may come, and until then.
  void allow(std::size_t bytes, Clock::time_point until) {
    allowed_ = bytes;
    until_ = until;
  }
  /// Why reading has failed.
  Broken broken() const { return broken_; }
  /// The client has closed the connection, or its side of it, and nothing that it has sent is unread.
  bool has_left() const;
  /// Lets a client read the last answer: closing at once, with bytes unread, would throw it away.
  void linger();

  bool is_readable() const override { return true; }
  bool is_writable() const override;
  ssize_t read(char* to, std::size_t size) override;
  ssize_t write(const char* from, std::size_t size) override;
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  /// For cpp-httplib's own select(), which nothing here needs, and which would refuse numbers beyond FD_SETSIZE.
  socket_t socket() const override { return 0; }

 private:
  /// Fills the buffer. @return as recv()
  ssize_t receive(Clock::time_point until);

  const socket_t socket_;
  const Clock::duration write_patience_;
  std::array<char, 16384> buffer_;
  std::size_t begin_ = 0, end_ = 0;  ///< of what has come and is not read
  std::size_t allowed_ = 0;
  Clock::time_point until_;
  Broken broken_ = Broken::no;
};

}  // namespace railyard::serve
