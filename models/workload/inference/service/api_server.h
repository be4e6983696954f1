// The API servers of a service, between clients and engines. A request comes from its source. After the client's time for a request it
// is at the router, and after the router's time and its wait there, at the server of the instance that takes it. It enters the
// engine's queue after the host's time for a request. A
// server is one process (vLLM's default, --api-server-count 1): it takes requests one after the other, so requests that
// arrive together enter the queue one by one. Each token reaches the client after the host's time for a token. A request
// is done when it has left the engine and the client has all its tokens.
//
// A client can leave before its answer is complete, as a connection that is closed (vLLM, entrypoints/openai: a disconnect aborts the
// request). The server gives the request up at once, without time of the host; a batch in flight runs on. A request that the engine
// has finished counts as served.
//
// State is kept only for requests on their way, and passed to the sinks when a request is done.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "workload/host.h"
#include "workload/inference/requests/request_source.h"
#include "workload/inference/service/stay.h"
#include "workload/jobs.h"
#include "workload/request_listener.h"

namespace railyard::workload::inference {

class RequestSink {
 public:
  /// The request is done. `stay` is valid only during the call.
  virtual void on_served(std::uint32_t request, const Stay& stay) = 0;
  /// The client has the next token, the last one of `stay.times.tokens`.
  virtual void on_token(std::uint32_t /*request*/, const Stay& /*stay*/) {}
  /// No instance can ever hold the request.
  virtual void on_refused(std::uint32_t /*request*/) {}
  /// The client has left, at stay.request.leaves, and the request has been given up.
  virtual void on_aborted(std::uint32_t /*request*/, const Stay& /*stay*/) {}

 protected:
  ~RequestSink() = default;
};

class ApiServerClient {
 public:
  /// Whether there are instances that can hold the request; else it is refused.
  virtual bool accepts(const Request& request) const = 0;
  /// The request has come to the router, which calls routed(), now or later.
  virtual void on_at_router(std::uint32_t request) = 0;
  /// The request enters the queue of the engine.
  virtual void on_queued(std::uint32_t request, RequestContent content) = 0;
  /// See ApiServer::forward().
  virtual void on_forwarded(std::uint32_t request) = 0;
  /// The client has left: takes the request from the router and from instances, wherever it is. Called once, and not for requests
  /// that the engine has finished.
  virtual void withdraw(std::uint32_t request) = 0;

 protected:
  ~ApiServerClient() = default;
};

class ApiServer : private JobClient, private JobNamer, private transport::CalendarClient {
 public:
  /// @param hosts           of the instances, by id
  /// @param client_time     of the load generator, before the router has a request
  /// @param router_time     of the router, for each request
  /// @param servers         one for each instance that takes requests; these have the first ids
  /// @param names_requests  names of jobs contain the request
  ApiServer(std::unique_ptr<RequestSource> source, std::vector<Host> hosts, Time client_time, Time router_time,
            std::uint32_t servers, bool names_requests, Executor& executor, ApiServerClient& client);

  void add_sink(RequestSink& sink) { sinks_.push_back(&sink); }
  void follow(RequestListener& listener) { listener_ = &listener; }
  /// Schedules the first arrival. Call once, before the simulation starts.
  void start() { schedule_arrival(); }
  /// Requests have come to a source that is open, or it has been closed.
  void requests_came() { schedule_arrival(); }
  bool is_open() const { return source_->is_open(); }
  /// The client of a request leaves at this instant. @pre the request has been taken or is the source's, and it has arrived by then
  void leaves_at(std::uint32_t request, Time when);
  /// No client leaves before.
  Time next_leave() const { return leaves_.empty() ? Time::max() : *leaves_.begin(); }
  /// Events of clients that leave.
  std::size_t leaves_left() const { return leaves_.size(); }

  /// A request on its way.
  Stay& on_way(std::uint32_t request) { return live_.at(request); }
  const Stay& on_way(std::uint32_t request) const { return live_.at(request); }
  /// Whether the engine has produced a token of the request.
  bool has_token(std::uint32_t request) const { return live_.at(request).known > 0; }
  /// @pre the request is at the router
  const RequestContent& content(std::uint32_t request) const { return live_.at(request).content; }
  /// Requests on their way, by number.
  std::vector<std::uint32_t> requests() const;
  /// Instances can fail: contents of prompts stay known. Call before start().
  void keep_contents() { keeps_contents_ = true; }
  /// Instances have lost the request, and it goes to the router again. @pre keep_contents()
  void restart(std::uint32_t request);
  /// The router has chosen instances.
  void routed(std::uint32_t request, std::vector<Visit> visits);
  /// The engine has produced the next token of the request.
  void deliver(std::uint32_t request);
  /// The first of two instances has finished a request. It enters the queue of the second one after the first one's time for a
  /// token, which the router of the two receives, and for a request, which the router sends.
  void forward(std::uint32_t request);
  /// The engine has produced all tokens of the request, and has finished with it.
  void leave(std::uint32_t request);
  /// Reports a phase of the request.
  void tell(std::uint32_t request, RequestPhase phase);

  /// No request comes to the queue of an instance before. @param answered  the earliest instant at which an instance may have the
  /// last token of a request
  Time next_queued(Time answered) const;

  std::uint32_t count() const { return source_->count(); }
  std::uint32_t served() const { return served_; }
  std::uint32_t refused() const { return refused_; }
  std::uint32_t aborted() const { return aborted_; }
  bool done() const { return served_ + refused_ + aborted_ == count(); }
  /// Requests, with the share of its tokens for a request that is not done.
  double work_done() const { return work_done_; }

 private:
  struct Live : Stay {
    RequestContent content;  ///< until the request is queued, or kept
    Time accounted;          ///< until then, parts of the TTFT have its time
    Time in_router;          ///< since then
    std::size_t stream = 0;  ///< of the host
    Time at_router;
    std::uint32_t known = 0;  ///< tokens that the engine has produced
    bool has_left = false;    ///< the engine
    bool is_queued = false;   ///< in the first queue, or later
    bool is_aborted = false;  ///< its client has left: it is over when no host job of it is under way
    std::uint32_t jobs = 0;   ///< of the host, under way
  };
  enum What : std::uint8_t { kSend, kRoute, kReceive, kDeliver, kForward };
  struct Fields {
    std::uint32_t request;
    std::uint32_t what : 3;
    std::uint32_t token : 29;
  };

  void schedule_arrival();
  void arrive();
  void reach_router(std::uint32_t request);
  void receive(std::uint32_t request);
  void enter(std::uint32_t request);
  void delivered(std::uint32_t request);
  void finish(std::uint32_t request);
  /// Work of the host for a request. on_job_done() follows.
  void host(std::uint32_t request, std::size_t stream, Time duration, What what, std::uint32_t token = 0);
  void leave_early(std::uint32_t request);
  /// Ends an aborted request, if no host job of it is under way.
  void drop(std::uint32_t request);
  /// The request is over.
  void forget(std::uint32_t request);
  JobLabel label(std::uint32_t request, What what, std::uint32_t token) const;

  void on_job_done(const Job& job) override;
  static constexpr std::uint32_t kArriveTag = 0, kLeaveTag = 1;
  void on_event(std::uint32_t tag, std::uint64_t request) override;
  // Client_Request: from a request's arrival until the router has it. Router_Request: its time there. Host_Request: from then until
  // it is queued.
  // Host_Forward: until it is in the second queue. Host_Token[i]: delivery of token i. All with _Req[r], if names contain the
  // request.
  std::string name(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "host"; }
  Recorded recorded(std::uint64_t arguments) const override;
  HostWork host_work(std::uint64_t arguments) const override;

  std::unique_ptr<RequestSource> source_;
  std::vector<Host> hosts_;
  bool receives_slowly_;  ///< some host takes time for a request
  Time client_time_, router_time_;
  bool names_requests_;
  Executor& executor_;
  ApiServerClient& client_;
  Rank& rank_;  ///< with a stream for each process that receives requests, and one for each request on its way
  std::vector<std::size_t> free_streams_;
  std::unordered_map<std::uint32_t, Live> live_;
  std::uint32_t arrived_ = 0, served_ = 0, refused_ = 0, aborted_ = 0;
  std::uint32_t before_queue_ = 0,
                leaving_ = 0;  ///< requests before the first queue; and which no instance has any more
  bool keeps_contents_ = false;
  double work_done_ = 0;
  Time scheduled_arrival_ = Time::max();
  std::multiset<Time> leaves_;  ///< instants at which clients leave, of events on the calendar
  std::vector<RequestSink*> sinks_;
  RequestListener* listener_ = nullptr;
};

}  // namespace railyard::workload::inference
