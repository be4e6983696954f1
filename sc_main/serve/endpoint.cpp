#include "sc_main/serve/endpoint.h"

#include <fmt/format.h>
#include <httplib.h>
#include <netinet/tcp.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <thread>

#include "base/input_error.h"
#include "sc_main/serve/api_answer.h"
#include "sc_main/serve/bounded_stream.h"
#include "sc_main/serve/connections.h"

namespace railyard::serve {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostConnections = 4096;
constexpr auto kIdle = 60s;  ///< between requests of a connection
constexpr std::size_t kMostRequestsOfConnection = 1000000;
constexpr auto kRequestPatience = 20s;  ///< for a whole request
constexpr auto kWritePatience = 20s;    ///< for a client to take some of an answer
constexpr std::size_t kHeadBytes = 64 << 10;
/// Of a body: any prompt that the model can take, with six bytes for a character (\uXXXX), and some for all else.
constexpr std::size_t kBytesOfToken = 6 * kCharactersOfToken, kOtherBodyBytes = 64 << 10, kMostBodyBytes = 16 << 20;

/// The stream of the connection that this thread serves.
thread_local BoundedStream* current = nullptr;

void set_error(httplib::Response& response, const ApiError& error) {
  response.status = error.status;
  response.set_content(error_text(error), "application/json");
}

void set_facts(httplib::Response& response, const AnswerFacts& facts) {
  response.set_header("X-Railyard-Request", std::to_string(facts.number));
  response.set_header("X-Railyard-Arrival-S", fmt::format("{}", static_cast<double>(facts.arrival.fs()) / 1e15));
  response.set_header("X-Railyard-Behind-S", fmt::format("{}", facts.behind_s));
}

bool has_left() { return current->has_left(); }

/// Writes a stream, one event in each call. @return whether the client took it
class StreamWriter {
 public:
  StreamWriter(std::shared_ptr<Answer> answer, Backend& backend)
      : answer_(std::move(answer)), backend_(backend), chunks_(answer_->request(), answer_->facts(), backend.model()) {}
  /// The connection is over.
  ~StreamWriter() {
    if (!has_ended_) backend_.leave(answer_);
  }
  StreamWriter(const StreamWriter&) = delete;
  StreamWriter& operator=(const StreamWriter&) = delete;

  bool write_next(httplib::DataSink& sink) {
    try {
      const ApiRequest& request = answer_->request();
      if (next_ == 0 && request.call == ApiCall::chat && !has_role_) {
        has_role_ = true;
        return write(sink, chunks_.role_text());
      }
      const Time token = answer_->wait_token(next_, has_left);
      if (++next_ < request.answer_tokens) return write(sink, chunks_.token_text(token, nullptr));
      const AnswerFacts facts = answer_->facts();
      if (!write(sink, chunks_.token_text(token, &facts))) return false;
      const AnswerFacts at_end = answer_->wait_end(has_left);
      has_ended_ = true;
      return write(sink, chunks_.end_text(at_end)) && finish(sink);
    } catch (const ClientLeft&) {
      return false;
    } catch (const ApiError& error) {
      has_ended_ = true;
      return write(sink, chunks_.error_text(error)) && finish(sink);
    }
  }

 private:
  static bool write(httplib::DataSink& sink, const std::string& text) { return sink.write(text.data(), text.size()); }
  static bool finish(httplib::DataSink& sink) {
    sink.done();
    return true;
  }

  std::shared_ptr<Answer> answer_;
  Backend& backend_;
  ChunkWriter chunks_;
  bool has_ended_ = false;  ///< the request is over
  std::uint32_t next_ = 0;  ///< token
  bool has_role_ = false;
};

void write_stream(httplib::Response& response, const std::shared_ptr<Answer>& answer, Backend& backend) {
  response.set_chunked_content_provider("text/event-stream",
                                        [writer = std::make_shared<StreamWriter>(answer, backend)](
                                            std::size_t, httplib::DataSink& sink) { return writer->write_next(sink); });
}

/// Calls Server::process_request(), whose parameters depend on the version of cpp-httplib: until 0.14, and later.
using Setup = std::function<void(httplib::Request&)>;
template <class Server, class Base>
bool call_process(Server& server, bool (Base::*process)(httplib::Stream&, bool, bool&, const Setup&),
                  httplib::Stream& stream, bool& is_closed, const Setup& setup) {
  return (server.*process)(stream, false, is_closed, setup);
}
template <class Server, class Base>
bool call_process(Server& server,
                  bool (Base::*process)(httplib::Stream&, const std::string&, int, const std::string&, int, bool, bool&,
                                        const Setup&),
                  httplib::Stream& stream, bool& is_closed, const Setup& setup) {
  return (server.*process)(stream, "", 0, "", 0, false, is_closed, setup);
}

}  // namespace

class Endpoint::Server : public httplib::Server {
 public:
  explicit Server(const ListenAddress& address) : address_(address), connections_(kMostConnections) {
    new_task_queue = [] { return new ThreadForEach; };
    // cpp-httplib's default lets two servers share a port.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    set_tcp_nodelay(true);
    // For the header Keep-Alive.
    set_keep_alive_timeout(std::chrono::seconds(kIdle).count());
    set_keep_alive_max_count(kMostRequestsOfConnection);
    errno = 0;
    if (address_.port == 0)
      address_.port = std::max(0, bind_to_any_port(address_.host));
    else if (!bind_to_port(address_.host, address_.port))
      address_.port = 0;
    if (address_.port == 0) {
      const int why = errno != 0 ? errno : EADDRINUSE;
      const std::string instead =
          why == EADDRNOTAVAIL ? "it is not an address of this computer; accepted: 127.0.0.1, an own address or 0.0.0.0"
                               : fmt::format("--listen {}:0 takes any free port", address_.host);
      throw InputError(Origin{"--listen " + address.text(), 0, 0},
                       fmt::format("cannot listen there: {}; {}", std::strerror(why), instead));
    }
    ::listen(svr_sock_, SOMAXCONN);  // cpp-httplib lets five connections wait
  }

  ~Server() override {
    if (!thread_.joinable()) return;
    connections_.end();
    stop();
    thread_.join();
  }

  void serve(Backend& backend) {
    backend_ = &backend;
    most_body_bytes_ = std::min(kOtherBodyBytes + kBytesOfToken * backend.model().most_tokens, kMostBodyBytes);
    add_routes();
    thread_ = std::thread([this] { listen_after_bind(); });
    while (!is_running()) std::this_thread::sleep_for(1ms);
  }

  const ListenAddress& address() const { return address_; }

 private:
  void add_routes() {
    Get("/health", [this](const httplib::Request&, httplib::Response& response) {
      response.status = backend_->is_closed() ? 503 : 200;
    });
    Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(backend_->metrics(), "text/plain; version=0.0.4");
    });
    Get("/v1/models", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(models_text(backend_->model(), created_s_), "application/json");
    });
    for (const auto& [path, call] :
         {std::pair{"/v1/completions", ApiCall::completion}, {"/v1/chat/completions", ApiCall::chat}})
      Post(path, [this, call = call](const httplib::Request&, httplib::Response& response,
                                     const httplib::ContentReader& content) { post(call, content, response); });
    set_error_handler([](const httplib::Request& request, httplib::Response& response) {
      if (!response.body.empty() || response.status < 400 || request.path == "/health") return;
      const bool is_unknown = response.status == 404;
      set_error(response, ApiError(response.status, is_unknown ? "NotFoundError" : "BadRequestError",
                                   is_unknown ? "no such path; accepted: GET /health, /metrics, /v1/models, POST "
                                                "/v1/completions, /v1/chat/completions"
                                              : "the request is no HTTP that this server understands"));
    });
    set_exception_handler([](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
      set_error(response, ApiError(500, "InternalServerError", "the request could not be answered"));
    });
  }

  std::string body_of(const httplib::ContentReader& content) const {
    std::string body;
    const bool is_whole = content([&](const char* data, std::size_t size) {
      body.append(data, size);
      return body.size() <= most_body_bytes_;
    });
    if (is_whole) return body;
    if (current->broken() == BoundedStream::Broken::too_slow)
      throw ApiError(408, "RequestTimeoutError", "the body has not come in time");
    if (current->broken() == BoundedStream::Broken::too_large || body.size() > most_body_bytes_)
      throw ApiError(413, "RequestEntityTooLargeError",
                     fmt::format("the body is too large; accepted: up to {} bytes", most_body_bytes_));
    throw bad_request("the body is not complete");
  }

  void post(ApiCall call, const httplib::ContentReader& content, httplib::Response& response) {
    try {
      const std::string body = body_of(content);
      const auto answer = backend_->submit(parse_request(call, body, backend_->model()));
      if (!answer->request().streams) {
        const AnswerFacts facts = waited(answer, &Answer::wait_end);
        set_facts(response, facts);
        response.set_content(completion_text(*answer, facts, backend_->model()), "application/json");
        return;
      }
      set_facts(response, waited(answer, &Answer::wait_arrival));
      write_stream(response, answer, *backend_);
    } catch (const ApiError& error) {
      set_error(response, error);
    }
  }

  /// @throws ApiError for a client that has left, which nobody reads; and those of the answer
  AnswerFacts waited(const std::shared_ptr<Answer>& answer, AnswerFacts (Answer::*wait)(const Answer::HasLeft&)) {
    try {
      return ((*answer).*wait)(has_left);
    } catch (const ClientLeft&) {
      backend_->leave(answer);
      throw ApiError(499, "ClientClosedRequestError", "the client has left");
    }
  }

  /// Of cpp-httplib, private there: serves a connection.
  bool process_and_close_socket(socket_t socket) override {
    if (!ThreadForEach::is_refused() && connections_.add(socket)) {
      BoundedStream stream(socket, kWritePatience);
      current = &stream;
      bool is_closed = false;
      for (std::size_t i = 0; i < kMostRequestsOfConnection && !is_closed && stream.wait_request(kIdle); ++i)
        is_closed = !answer_request(stream);
      if (stream.broken() != BoundedStream::Broken::by_client) stream.linger();
      current = nullptr;
      connections_.remove(socket);
    }
    ::close(socket);
    return true;
  }

  /// @return whether the connection goes on
  bool answer_request(BoundedStream& stream) {
    const auto until = BoundedStream::Clock::now() + kRequestPatience;
    stream.allow(kHeadBytes, until);
    bool has_head = false, is_closed = false;
    const Setup begin_body = [&](httplib::Request& request) {
      has_head = true;
      // No compressed or partial bodies and answers, and no forms: all is JSON.
      for (const char* name : {"Content-Encoding", "Accept-Encoding", "Content-Type", "Range"})
        request.headers.erase(name);
      request.ranges.clear();
      // A request without a length has no body (RFC 9112, 6.3); cpp-httplib would wait for the end of the connection.
      if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding"))
        request.set_header("Content-Length", "0");
      stream.allow(most_body_bytes_ + kHeadBytes, until);
    };
    const bool is_answered = call_process(*this, &Server::process_request, stream, is_closed, begin_body);
    return is_answered && has_head && !is_closed && stream.broken() == BoundedStream::Broken::no;
  }

  ListenAddress address_;
  Connections connections_;
  Backend* backend_ = nullptr;
  std::size_t most_body_bytes_ = 0;
  const long created_s_ = std::time(nullptr);
  std::thread thread_;
};

Endpoint::Endpoint(const ListenAddress& address) : server_(std::make_unique<Server>(address)) {}
Endpoint::~Endpoint() = default;
void Endpoint::serve(Backend& backend) { server_->serve(backend); }
const ListenAddress& Endpoint::address() const { return server_->address(); }

}  // namespace railyard::serve
