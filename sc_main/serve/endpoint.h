// The HTTP server: routes of OpenAI's API and of vLLM's server, for a Backend. Each connection has a thread, bounds and deadlines of its
// own, so a client that is slow, broken or malicious is an affair of its own thread. A client that closes its connection, or its side of
// it, has left: its request is given up, as by vLLM's server.
#pragma once

#include <memory>
#include <string>

#include "sc_main/serve/answer.h"

namespace railyard::serve {

/// What answers. Called by many threads.
class Backend {
 public:
  /// @throws ApiError: it takes no more requests
  virtual std::shared_ptr<Answer> submit(ApiRequest request) = 0;
  /// The client of an answer has left.
  virtual void leave(const std::shared_ptr<Answer>& answer) = 0;
  /// Text for Prometheus.
  virtual std::string metrics() const = 0;
  /// Takes no more requests.
  virtual bool is_closed() const = 0;
  virtual const ApiModel& model() const = 0;

 protected:
  ~Backend() = default;
};

/// Where to listen.
struct ListenAddress {
  std::string host = "127.0.0.1";
  int port = 8000;  ///< 0: any that is free

  /// @throws InputError  of --listen
  static ListenAddress parse(const std::string& text, bool is_public);
  std::string text() const;
};

class Endpoint {
 public:
  /// Takes the port; clients can connect, and wait until serve(). @throws InputError: the address cannot be had
  explicit Endpoint(const ListenAddress& address);
  /// Ends all connections as soon as their answers are written.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Begins to answer. Call once. @param backend  lives longer than this
  void serve(Backend& backend);
  /// With the port that it has.
  const ListenAddress& address() const;

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace railyard::serve
