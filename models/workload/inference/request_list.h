// A list of requests that is known before the run, without contents of prompts.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "workload/inference/request_source.h"

namespace railyard::workload::inference {

class RequestList : public RequestSource {
 public:
  /// @param requests  ordered by arrival
  explicit RequestList(std::vector<Request> requests) : requests_(std::move(requests)) {}

  std::optional<Time> next_arrival() override {
    if (taken_ == count()) return std::nullopt;
    return requests_[taken_].arrival;
  }
  Arrival take() override { return {requests_[taken_++], {}}; }
  void done(std::uint32_t, Time) override {}
  std::uint32_t count() const override { return static_cast<std::uint32_t>(requests_.size()); }

 private:
  std::vector<Request> requests_;
  std::uint32_t taken_ = 0;
};

}  // namespace railyard::workload::inference
