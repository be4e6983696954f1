// The router of a service: a policy for instances that take prompts, and one for those that take only answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "workload/inference/routing/router_spec.h"
#include "workload/inference/routing/router_view.h"

namespace railyard::workload::inference {

class Router {
 public:
  struct Member : RouterView::Member {
    std::string name;
    InstanceRole role = InstanceRole::colocated;
  };
  /// @param members  the instances, by id
  Router(const RouterSpec& spec, const std::vector<Member>& members, std::uint64_t seed);

  RouterView& view() { return view_; }
  /// Whether reports of blocks are of use.
  bool follows_blocks() const;

  /// The instances among which a request, or its answer, may go.
  Candidates candidates(const Request& request, RequestPart part) const;
  /// Whether the request has to wait in the router.
  bool is_full(const Candidates& candidates) const;
  struct Choice {
    std::uint32_t instance = 0;
    std::vector<double> scores;  ///< one for each candidate; empty: the policy compares nothing
    Time out_of_date;            ///< RouterView::out_of_date() of the instance
  };
  /// @param candidates  those that can hold the request; not empty
  Choice choose(Asked& asked, const Candidates& candidates, Time now);

 private:
  const RoutingPolicy& policy(RequestPart part) const { return part == RequestPart::answer ? *answers_ : *prompts_; }
  RoutingPolicy& policy(RequestPart part) { return part == RequestPart::answer ? *answers_ : *prompts_; }

  RouterSpec spec_;
  Candidates takes_prompts_, takes_answers_;
  std::unique_ptr<RoutingPolicy> prompts_, answers_;
  RouterView view_;
};

}  // namespace railyard::workload::inference
