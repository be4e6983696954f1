// Requests that come while the run goes on: those of a server's clients. Nobody knows the next one before it is added, so a LiveSource
// is open until it is closed, and promises nothing about arrivals. Plain C++; no SystemC, and one thread: whoever takes requests from
// other threads adds them between two instants of the run.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "workload/inference/requests/request_source.h"

namespace railyard::workload::inference {

/// What has been added and not taken, shared by the source in a service and by the code that adds.
class LiveRequests {
 public:
  /// @pre open; the arrival is not before that of an earlier request, nor before now @return the request's number
  std::uint32_t add(const Request& request, RequestContent content) {
    waiting_.push_back({request, std::move(content), {}});
    return added_++;
  }
  /// No more requests come.
  void close() { is_open_ = false; }
  bool is_open() const { return is_open_; }
  std::uint32_t added() const { return added_; }

 private:
  friend class LiveSource;

  std::deque<RequestSource::Arrival> waiting_;
  std::uint32_t added_ = 0;
  bool is_open_ = true;
};

class LiveSource : public RequestSource {
 public:
  explicit LiveSource(std::shared_ptr<LiveRequests> requests) : requests_(std::move(requests)) {}

  std::optional<Time> next_arrival() override {
    if (requests_->waiting_.empty()) return std::nullopt;
    return requests_->waiting_.front().request.arrival;
  }
  Arrival take() override {
    Arrival next = std::move(requests_->waiting_.front());
    requests_->waiting_.pop_front();
    return next;
  }
  std::uint32_t done(std::uint32_t, Time) override { return 0; }
  bool follows_answers() const override { return false; }
  bool is_open() const override { return requests_->is_open(); }
  std::uint32_t count() const override { return requests_->added() + (is_open() ? 1 : 0); }

 private:
  std::shared_ptr<LiveRequests> requests_;
};

}  // namespace railyard::workload::inference
