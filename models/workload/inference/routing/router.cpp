#include "workload/inference/routing/router.h"

#include <algorithm>

#include "workload/inference/routing/cache_aware_policy.h"
#include "workload/inference/routing/fixed_policy.h"
#include "workload/inference/routing/kv_cost_policy.h"
#include "workload/inference/routing/least_load_policy.h"
#include "workload/inference/routing/least_requests_policy.h"
#include "workload/inference/routing/link_aware_policy.h"
#include "workload/inference/routing/power_of_two_policy.h"
#include "workload/inference/routing/prefill_load_decider.h"
#include "workload/inference/routing/prefix_trie_policy.h"
#include "workload/inference/routing/random_policy.h"
#include "workload/inference/routing/round_robin_policy.h"
#include "workload/inference/routing/scorers_policy.h"
#include "workload/inference/routing/session_policy.h"
#include "workload/inference/routing/sticky_policy.h"
#include "workload/inference/routing/uncached_tokens_decider.h"

namespace railyard::workload::inference {

namespace {

/// Streams of random numbers, beside those of requests.
constexpr std::uint32_t kPromptChoices = 100, kAnswers = 101;

std::unique_ptr<RoutingPolicy> make_policy(RouterPolicy policy, const RouterSpec& spec,
                                           const std::vector<std::string>& names, const KvEstimate& estimate,
                                           Random random) {
  switch (policy) {
    case RouterPolicy::fixed: return std::make_unique<FixedPolicy>();
    case RouterPolicy::round_robin: return std::make_unique<RoundRobinPolicy>();
    case RouterPolicy::random: return std::make_unique<RandomPolicy>(random);
    case RouterPolicy::session: return std::make_unique<SessionPolicy>(names);
    case RouterPolicy::least_load: return std::make_unique<LeastLoadPolicy>();
    case RouterPolicy::least_requests: return std::make_unique<LeastRequestsPolicy>();
    case RouterPolicy::power_of_two: return std::make_unique<PowerOfTwoPolicy>(random);
    case RouterPolicy::cache_aware: return std::make_unique<CacheAwarePolicy>(spec.cache_aware, names.size());
    case RouterPolicy::kv_cost:
      return std::make_unique<KvCostPolicy>(spec.kv_cost, spec.keeps_prompt.rule != PromptRule::none, random);
    case RouterPolicy::scorers: return std::make_unique<ScorersPolicy>(spec.scorers, names.size(), random);
    case RouterPolicy::sticky: return std::make_unique<StickyPolicy>(spec.sticky, names.size(), random);
    case RouterPolicy::prefix_trie: return std::make_unique<PrefixTriePolicy>(names.size(), random);
    case RouterPolicy::link_aware: return std::make_unique<LinkAwarePolicy>(estimate);
  }
  return nullptr;
}

std::unique_ptr<PromptDecider> make_decider(const PromptRuleSpec& spec) {
  const IslBoundingDecider by_isl(spec.new_tokens(), spec.ratio);
  switch (spec.rule) {
    case PromptRule::none: return nullptr;
    case PromptRule::isl_bounding: return std::make_unique<IslBoundingDecider>(by_isl);
    case PromptRule::prefill_load: return std::make_unique<PrefillLoadDecider>();
    case PromptRule::isl_or_load: return std::make_unique<PrefillLoadDecider>(by_isl);
    case PromptRule::uncached_tokens: return std::make_unique<UncachedTokensDecider>(spec.new_tokens());
  }
  return nullptr;
}

std::vector<RouterView::Member> views_of(const std::vector<Router::Member>& members) {
  return {members.begin(), members.end()};
}

}  // namespace

Router::Router(const RouterSpec& spec, const std::vector<Member>& members, std::uint64_t seed, KvEstimate estimate)
    : spec_(spec),
      view_(views_of(members), Time::seconds(spec.state_delay_us * 1e-6), follows_blocks()),
      is_open_(members.size(), true) {
  std::vector<std::string> names;
  for (std::uint32_t id = 0; id < members.size(); ++id) {
    names.push_back(members[id].name);
    if (takes_prompts(members[id].role)) takes_prompts_.push_back(id);
    if (takes_answers(members[id].role)) takes_answers_.push_back(id);
  }
  prompts_ = make_policy(spec.policy, spec, names, estimate, Random(seed, kPromptChoices));
  answers_ = make_policy(spec.decode.value_or(spec.policy), spec, names, estimate, Random(seed, kAnswers));
  decider_ = make_decider(spec.keeps_prompt);
}

bool Router::follows_blocks() const {
  const bool by_events = spec_.policy == RouterPolicy::scorers && spec_.scorers.by_events;
  return spec_.policy == RouterPolicy::kv_cost || spec_.policy == RouterPolicy::sticky || by_events ||
         spec_.keeps_prompt.rule != PromptRule::none || spec_.queue_order == RouterQueueOrder::wspt;
}

Candidates Router::candidates(const Request& request, RequestPart part) const {
  return policy(part).among(request, part, part == RequestPart::answer ? takes_answers_ : takes_prompts_);
}

void Router::on_lost(std::uint32_t instance) {
  prompts_->on_lost(instance);
  answers_->on_lost(instance);
}

bool Router::is_full(const Candidates& candidates) const {
  if (!spec_.queue_threshold || spec_.keeps_prompt.asks_load()) return false;  // what is too much stays there
  return std::all_of(candidates.begin(), candidates.end(), [&](std::uint32_t id) { return is_busy(id); });
}

bool Router::is_busy(std::uint32_t id) const {
  return static_cast<double>(view_.prefill_tokens(id)) > *spec_.queue_threshold * view_.member(id).max_batched_tokens;
}

bool Router::keeps_prompt(Asked& asked, std::uint32_t answer, std::optional<std::uint32_t> prompt) const {
  PromptFacts facts;
  facts.prompt_tokens = asked.request.prompt_tokens;
  facts.cached_tokens = view_.cached_blocks(answer, asked) * view_.member(answer).block_tokens;
  facts.is_prefill_busy = prompt && is_busy(*prompt);
  return decider_->keeps(facts);
}

std::uint64_t Router::new_tokens(Asked& asked, const Candidates& candidates, Time now) {
  view_.hear(now);
  std::uint64_t fewest = asked.request.prompt_tokens;
  for (const std::uint32_t id : candidates)
    fewest =
        std::min(fewest, asked.request.prompt_tokens - view_.cached_blocks(id, asked) * view_.member(id).block_tokens);
  return std::max<std::uint64_t>(1, fewest);
}

Router::Choice Router::choose(Asked& asked, const Candidates& candidates, Time now) {
  view_.hear(now);
  Choice choice;
  choice.instance = policy(asked.part).choose(asked, candidates, view_, choice.scores);
  choice.out_of_date = view_.out_of_date(choice.instance, now);
  return choice;
}

}  // namespace railyard::workload::inference
