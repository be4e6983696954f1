// Requests that are known before the run: those of a list, or the rows of a trace.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "workload/inference/request_source.h"

namespace railyard::workload::inference {

class RequestList : public RequestSource {
 public:
  using Requests = std::shared_ptr<const std::vector<Request>>;
  /// Content of the prompt at this place of the list. Called once for each request, in the order of the list.
  using Content = std::function<PromptContent(std::uint32_t)>;

  /// @param requests  ordered by arrival
  /// @param content   empty: no prompt shares a prefix with another
  explicit RequestList(Requests requests, Content content = nullptr)
      : requests_(std::move(requests)), content_(std::move(content)) {}

  std::optional<Time> next_arrival() override {
    if (taken_ == requests_->size()) return std::nullopt;
    return (*requests_)[taken_].arrival;
  }
  Arrival take() override {
    const std::uint32_t request = taken_++;
    return {(*requests_)[request], content_ ? content_(request) : PromptContent()};
  }
  void done(std::uint32_t, Time) override {}
  std::uint32_t count() const override { return static_cast<std::uint32_t>(requests_->size()); }

 private:
  Requests requests_;
  Content content_;
  std::uint32_t taken_ = 0;
};

}  // namespace railyard::workload::inference
