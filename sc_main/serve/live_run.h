// The room `serve` is the executable railyard_serve: a server of OpenAI's API whose answers come from a simulated service. Endpoint speaks HTTP
// (bounded_stream.h, connections.h) and hands requests, which parse_request() has read (api_request.h), to a LiveRun, which puts them into
// the run; an Answer brings tokens back, and api_answer.h writes them. Pacer keeps simulated time at the wall clock, LiveMetrics counts.
// serve_main.cpp calls them in order. HTTP is nowhere else.
//
// A run whose requests come from other threads. submit() puts a request into a bounded inbox; the simulation's thread (drive()) takes
// it into the LiveSource of the service, with its instant of arrival:
//
//   pace > 0   the simulated instant that was due when it came. SystemC runs up to the instant that is due now, and then waits for the
//              wall clock or the next request. So arrivals are exact, also if the simulation is behind: then tokens are late
//   pace 0     the instant after the present one. Simulated time goes from event to event, and stands still while no request is under way
//
// Arrivals are whole nanoseconds, so the record of a run, a trace in LLMServingSim's format, has them exactly.
#pragma once

#include <atomic>
#include <csignal>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sc_main/kinds/serving_run.h"
#include "sc_main/output_file.h"
#include "sc_main/serve/answer.h"
#include "sc_main/serve/endpoint.h"
#include "sc_main/serve/inbox.h"
#include "sc_main/serve/live_metrics.h"
#include "sc_main/serve/pacer.h"
#include "workload/inference/requests/live_source.h"

namespace railyard::serve {

class LiveRun : public Backend, private workload::inference::ServiceSink {
 public:
  /// No request is taken after this instant, so that those under way can end before the longest run.
  static constexpr double kLastArrivalSeconds = kLongestRunSeconds - 600;
  static constexpr std::uint32_t kMostUnderWay = 16384;  ///< requests; more are refused until some have ended

  /// @param requests  those of the source of the service
  /// @param signals   number of signals to stop that have come
  /// @param record    file for the record; "": none
  LiveRun(ServingRun& run, const workload::inference::ServingSpec& spec,
          std::shared_ptr<workload::inference::LiveRequests> requests, ApiModel model, double pace,
          const volatile std::sig_atomic_t& signals, const std::string& record);

  // Backend, for any thread.
  std::shared_ptr<Answer> submit(ApiRequest request) override;
  void leave(const std::shared_ptr<Answer>& answer) override { leaving_.put({answer, WallClock::now()}); }
  std::string metrics() const override { return metrics_.text(); }
  bool is_closed() const override { return inbox_.is_closed(); }
  const ApiModel& model() const override { return model_; }

  // For the simulation's thread.
  /// Lets SystemC run until the first signal has closed the inbox, and all requests have ended; or a request cannot go on.
  void drive();
  /// After the run: requests without an answer fail, and the record is whole.
  void finish();

 private:
  struct Submission {
    std::shared_ptr<Answer> answer;
    WallClock::time_point came;
  };
  struct Ended {
    std::shared_ptr<Answer> answer;
    std::uint64_t cached_tokens;
  };
  /// A request of the record. It is written when all before it are, with the instant at which its client left.
  struct Recorded {
    std::string line;  ///< without its end
    std::optional<Time> left;
    bool is_over = false;
  };

  void close_if_asked();
  void run_to(Time until);
  /// @pre something is pending
  Time next_instant() const;
  /// Takes what is in the inbox into the run.
  void take_in();
  /// Of the simulation behind the wall clock, in simulated seconds.
  double behind_s(Time now) const;
  /// Lets clients leave.
  void take_leaves();
  /// The simulated instant of an event outside of the run: later than what has happened already, so that a run of the record sees the
  /// same order.
  Time instant_of(WallClock::time_point came) const;
  void record(const ApiRequest& request, Time arrival);
  void close_record(std::uint32_t request, std::optional<Time> left);
  void write_records(bool all);
  /// The request has an answer, or never gets one.
  std::shared_ptr<Answer> take_out(std::uint32_t request);

  void on_token(std::uint32_t request, const workload::inference::Stay& stay) override;
  void on_served(std::uint32_t request, const workload::inference::Stay& stay) override;
  void on_refused(std::uint32_t request) override;
  void on_aborted(std::uint32_t request, const workload::inference::Stay& stay) override;

  ServingRun& run_;
  transport::Calendar& calendar_;
  std::shared_ptr<workload::inference::LiveRequests> requests_;
  const ApiModel model_;
  const double pace_;
  const volatile std::sig_atomic_t& signals_;
  Pacer pacer_;
  Inbox<Submission> inbox_, leaving_;
  std::atomic<std::uint32_t> under_way_{0};
  std::unordered_map<std::uint32_t, std::shared_ptr<Answer>> answers_;  ///< of requests under way
  std::vector<Ended> ended_;  ///< in this step: who gets the last of an answer finds it in the metrics
  Time last_arrival_;
  double behind_s_ = 0;  ///< after the latest run_to()
  LiveMetrics metrics_;
  std::unique_ptr<OutputFile> record_;
  std::deque<Recorded> recorded_;  ///< not written yet
  std::uint32_t written_ = 0;      ///< requests of the record
};

}  // namespace railyard::serve
