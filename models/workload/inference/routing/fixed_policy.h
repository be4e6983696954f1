// Each request says where it goes (Request::instance, Request::answer_instance).
#pragma once

#include "workload/inference/routing/routing_policy.h"

namespace railyard::workload::inference {

class FixedPolicy : public RoutingPolicy {
 public:
  /// @pre the request's instances are among `all`
  Candidates among(const Request& request, RequestPart part, const Candidates& all) const override {
    return {all.at(part == RequestPart::answer ? request.answer_instance : request.instance)};
  }
  std::uint32_t choose(Asked&, const Candidates& candidates, RouterView&, std::vector<double>&) override {
    return candidates.front();
  }
};

}  // namespace railyard::workload::inference
