// The router of a service: a policy for instances that take prompts, and one for those that take answers. With a PromptDecider, the
// instance for the answer is chosen first, and may take the prompt, too.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "workload/inference/routing/prompt_decider.h"
#include "workload/inference/routing/router_spec.h"
#include "workload/inference/routing/router_view.h"

namespace railyard::workload::inference {

class Router {
 public:
  struct Member : RouterView::Member {
    std::string name;
    InstanceRole role = InstanceRole::colocated;
  };
  /// @param members   the instances, by id
  /// @param estimate  for link_aware
  Router(const RouterSpec& spec, const std::vector<Member>& members, std::uint64_t seed, KvEstimate estimate = {});

  RouterView& view() { return view_; }
  /// Whether reports of blocks are of use.
  bool follows_blocks() const;

  /// Whether requests may go to an instance; all may at first.
  void set_open(std::uint32_t instance, bool is_open) { is_open_[instance] = is_open; }
  bool is_open(std::uint32_t instance) const { return is_open_[instance]; }
  /// What has been sent to this instance is not there any more.
  void on_lost(std::uint32_t instance);

  /// The instances among which a request, or its answer, may go, whether or not they are open.
  Candidates candidates(const Request& request, RequestPart part) const;
  /// Whether the request has to wait in the router.
  bool is_full(const Candidates& candidates) const;
  struct Choice {
    std::uint32_t instance = 0;
    std::vector<double> scores;  ///< one for each candidate; empty: the policy compares nothing
    Time out_of_date;            ///< RouterView::out_of_date() of the instance
  };
  /// Prompt tokens that none of these instances has cached, as last heard; at least one.
  std::uint64_t new_tokens(Asked& asked, const Candidates& candidates, Time now);
  /// @param candidates  those that can hold the request; not empty. send() follows, unless the choice is dropped
  Choice choose(Asked& asked, const Candidates& candidates, Time now);
  /// The request, or the part that was asked for, goes to this instance.
  void send(Asked& asked, std::uint32_t instance, Time now) { view_.on_sent(instance, asked, now); }

  /// Null: prompts never stay with the instance for the answer.
  const PromptDecider* decider() const { return decider_.get(); }
  /// @param answer  the instance that was chosen for the answer
  /// @param prompt  the one for the prompt, if the decider asks for its load
  bool keeps_prompt(Asked& asked, std::uint32_t answer, std::optional<std::uint32_t> prompt) const;

 private:
  const RoutingPolicy& policy(RequestPart part) const { return part == RequestPart::answer ? *answers_ : *prompts_; }
  /// More prompt tokens wait there than queue_threshold allows. @pre spec_.queue_threshold
  bool is_busy(std::uint32_t id) const;
  RoutingPolicy& policy(RequestPart part) { return part == RequestPart::answer ? *answers_ : *prompts_; }

  RouterSpec spec_;
  Candidates takes_prompts_, takes_answers_;
  std::unique_ptr<RoutingPolicy> prompts_, answers_;
  std::unique_ptr<PromptDecider> decider_;
  RouterView view_;
  std::vector<bool> is_open_;
};

}  // namespace railyard::workload::inference
