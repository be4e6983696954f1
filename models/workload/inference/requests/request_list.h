// A list of requests that is known before the run, without contents of prompts.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "workload/inference/requests/request_source.h"

namespace railyard::workload::inference {

class RequestList : public RequestSource {
 public:
  /// Shared by all sources of a list, and ordered by arrival.
  using Requests = std::shared_ptr<const std::vector<Request>>;

  explicit RequestList(Requests requests) : requests_(std::move(requests)) {}

  std::optional<Time> next_arrival() override {
    if (taken_ == count()) return std::nullopt;
    return (*requests_)[taken_].arrival;
  }
  Arrival take() override { return {(*requests_)[taken_++], {}, {}}; }
  std::uint32_t done(std::uint32_t, Time) override { return 0; }
  bool follows_answers() const override { return false; }
  std::uint32_t count() const override { return static_cast<std::uint32_t>(requests_->size()); }

 private:
  Requests requests_;
  std::uint32_t taken_ = 0;
};

}  // namespace railyard::workload::inference
