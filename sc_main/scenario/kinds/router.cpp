#include "sc_main/scenario/kinds/router.h"

#include <algorithm>
#include <string>
#include <vector>

#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/table/times.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

constexpr double kLongestDelayUs = 60e6;

struct OfPolicies {
  const char* key;
  std::vector<RouterPolicy> policies;
};
/// Keys that belong to some policies only.
const std::vector<OfPolicies>& keys_of_policies() {
  using P = RouterPolicy;
  static const std::vector<OfPolicies> keys{
      {"match_ratio", {P::cache_aware}},
      {"balance_abs", {P::cache_aware}},
      {"balance_rel", {P::cache_aware}},
      {"prefill_load_scale", {P::kv_cost}},
      {"overlap_score_credit", {P::kv_cost}},
      {"overlap_decay", {P::kv_cost}},
      {"host_cache_hit_weight", {P::kv_cost}},
      {"disk_cache_hit_weight", {P::kv_cost}},
      {"active_request_weight", {P::kv_cost}},
      {"temperature", {P::kv_cost}},
      {"prefix_weight", {P::scorers}},
      {"queue_weight", {P::scorers}},
      {"kv_weight", {P::scorers}},
      {"by_events", {P::scorers}},
      {"saturation_tokens", {P::sticky}},
      {"state_delay_us", {P::least_load, P::kv_cost, P::scorers, P::sticky}},
  };
  return keys;
}

const char* word(RouterPolicy policy) {
  return workload::inference::kRouterPolicyNames[static_cast<std::size_t>(policy)];
}

/// Where the policy is written.
std::string policy_key(const Source& source) {
  return value_at(source.root, "workload.router.policy") ? "router.policy" : "router";
}

}  // namespace

Record<RouterSpec> router_record() {
  using Spec = RouterSpec;
  const std::vector<std::string> policies = words_of(workload::inference::kRouterPolicyNames);
  Record<Spec> r;
  r.choice("policy", &Spec::policy, policies,
           "how an instance is chosen. fixed: by `instance` and `decode_instance` of the request; round_robin; random; "
           "session: by a ring of hashes; least_load: by reports of the engines, (4 waiting + running) / max_seqs; "
           "least_requests: sent and not ended; power_of_two: the better of two; cache_aware: SGLang's; kv_cost: "
           "Dynamo's; scorers: llm-d's; sticky: llm-d's, where the prefix is until that instance is saturated; "
           "prefix_trie: production-stack's; link_aware: for `decode` only")
      .required();
  r.choice(
       "decode", &Spec::decode, policies,
       "policy for the instance that computes the answer. link_aware: where the KV would come soonest, over links as "
       "loaded")
      .fallback("as `policy`");
  r.add("state_delay_us", &Spec::state_delay_us,
        "of least_load, kv_cost, scorers, sticky: time from an event in an engine until the router knows of it")
      .range(0, kLongestDelayUs);
  r.add("router_us", &Spec::router_us, "time of the router and its proxies for a request").range(0, kLongestDelayUs);
  r.add("queue_threshold", &Spec::queue_threshold,
        "a request waits in the router while each instance still has more prompt tokens to compute than this many of "
        "its batches (max_batched_tokens) hold")
      .above(0, 1e6)
      .fallback("it does not wait");
  r.choice("queue_order", &Spec::queue_order, {"fcfs", "lcfs", "wspt"},
           "order of the requests that wait: first or last come; wspt: fewest prompt tokens that no instance has "
           "cached when the request comes");
  const auto cache = [](auto member) { return within(&Spec::cache_aware, member); };
  using workload::inference::CacheAwareSpec;
  r.add("match_ratio", cache(&CacheAwareSpec::match_ratio),
        "of cache_aware: share of the prompt that an instance must have to be chosen for it")
      .range(0, 1)
      .cite("sgl-model-gateway --cache-threshold");
  r.add("balance_abs", cache(&CacheAwareSpec::balance_abs),
        "of cache_aware: difference of requests above which, with balance_rel, the least loaded instance is chosen")
      .range(0, 1e9)
      .cite("sgl-model-gateway --balance-abs-threshold");
  r.add("balance_rel", cache(&CacheAwareSpec::balance_rel), "of cache_aware: and most / fewest requests above this")
      .range(0, 1e9)
      .cite("sgl-model-gateway --balance-rel-threshold");
  const auto cost = [](auto member) { return within(&Spec::kv_cost, member); };
  using workload::inference::KvCostSpec;
  r.add("prefill_load_scale", cost(&KvCostSpec::prefill_load_scale), "of kv_cost: weight of the blocks to compute")
      .range(0, 1e6)
      .cite("ai-dynamo/dynamo lib/kv-router/src/config.rs");
  r.add("overlap_score_credit", cost(&KvCostSpec::overlap_score_credit), "of kv_cost: credit for a block that is there")
      .range(0, 1);
  r.add("overlap_decay", cost(&KvCostSpec::overlap_decay),
        "of kv_cost: how fast the credit falls with the tokens that an instance has to compute")
      .range(0, 1e6);
  r.add("host_cache_hit_weight", cost(&KvCostSpec::host_cache_hit_weight),
        "of kv_cost: credit for a block that is in the instance's host memory, and not on its GPUs")
      .range(0, 1);
  r.add("disk_cache_hit_weight", cost(&KvCostSpec::disk_cache_hit_weight),
        "of kv_cost: credit for a block that is on its disks only")
      .range(0, 1);
  r.add("active_request_weight", cost(&KvCostSpec::active_request_weight), "of kv_cost: blocks for a request")
      .range(0, 1e6);
  r.add("temperature", cost(&KvCostSpec::temperature), "of kv_cost: 0: the least cost; else at random by exp(-cost/t)")
      .range(0, 1e6);
  const auto score = [](auto member) { return within(&Spec::scorers, member); };
  using workload::inference::ScorersSpec;
  r.add("prefix_weight", score(&ScorersSpec::prefix_weight), "of scorers: weight of the prefix that is there")
      .range(0, 1e6)
      .cite("llm-d-inference-scheduler v0.8, deploy/config");
  r.add("queue_weight", score(&ScorersSpec::queue_weight), "of scorers: weight of a short queue").range(0, 1e6);
  r.add("kv_weight", score(&ScorersSpec::kv_weight), "of scorers: weight of free KV blocks").range(0, 1e6);
  r.add("by_events", score(&ScorersSpec::by_events),
        "of scorers: prefixes are those that engines report; false: those of prompts that were sent there");
  r.add("saturation_tokens", within(&Spec::sticky, &workload::inference::StickySpec::saturation_tokens),
        "of sticky: prompt tokens in flight above which an instance is saturated: what it computes in the longest wait "
        "that is allowed")
      .range(1, 1e9)
      .fallback("to be given with sticky")
      .cite("llm-d.ai/blog/sticky-until-saturated-token-aware-routing");
  const auto rule = [](auto member) { return within(&Spec::keeps_prompt, member); };
  using workload::inference::PromptRuleSpec;
  r.choice("decider", rule(&PromptRuleSpec::rule), words_of(workload::inference::kPromptRuleNames),
           "which prompts the decode instance computes itself (conditional disaggregation). isl_bounding: with few new "
           "tokens, and few for its length; prefill_load: if the prefill instance is busy (queue_threshold); "
           "isl_or_load: either; uncached_tokens: with few new tokens");
  r.add(
       "decider_tokens", rule(&PromptRuleSpec::tokens),
       "new tokens of a prompt, which the decode instance has not cached, from which on a prefill instance computes it")
      .range(1, 1e9)
      .fallback("2048 with isl_bounding and isl_or_load, 16 with uncached_tokens")
      .cite("ai-dynamo/dynamo lib/kv-router/src/conditional_disagg.rs; llm-d-router prefix-based-pd-decider");
  r.add("decider_ratio", rule(&PromptRuleSpec::ratio), "of isl_bounding, isl_or_load: the same of new tokens / prompt")
      .range(0, 10)
      .cite("ai-dynamo/dynamo lib/kv-router/src/conditional_disagg.rs");
  return r;
}

namespace {

/// A key that needs a rule among those for which `applies` holds.
void check_rule(const RouterSpec& spec, const std::string& key, bool applies, const std::string& accepted,
                const Source& source) {
  if (applies || !value_at(source.root, "workload.router." + key)) return;
  const auto rule = static_cast<std::size_t>(spec.keeps_prompt.rule);
  refuse_workload(source, "router." + key,
                  std::string("does not apply to decider: ") + workload::inference::kPromptRuleNames[rule] +
                      "; accepted with decider: " + accepted);
}

void check_decider(const RouterSpec& spec, bool has_answers, const Source& source) {
  using workload::inference::PromptRule;
  const workload::inference::PromptRuleSpec& keeps = spec.keeps_prompt;
  check_rule(spec, "decider_tokens", keeps.asks_contents() || keeps.rule == PromptRule::uncached_tokens,
             "isl_bounding, isl_or_load, uncached_tokens", source);
  check_rule(spec, "decider_ratio", keeps.asks_contents(), "isl_bounding, isl_or_load", source);
  if (keeps.rule == PromptRule::none) return;
  if (!has_answers)
    refuse_workload(source, "router.decider", "there is no prefill instance; accepted with prefill instances");
  if (keeps.asks_load() && !spec.queue_threshold)
    refuse_workload(source, "router.decider", "nothing says when an instance is busy; accepted with queue_threshold");
}

}  // namespace

RouterSpec resolve_router(const RouterSetting& setting, const Source& source) {
  const std::string path = "workload.router";
  RouterSpec spec;
  spec.policy = setting.has_choice && !setting.names_instances ? RouterPolicy::round_robin : RouterPolicy::fixed;
  const NodePtr written = value_at(source.root, path);
  if (!written) return spec;
  if (written->kind == Node::Kind::mapping) {
    router_record().read(spec, *written, path);
  } else {
    const auto& names = workload::inference::kRouterPolicyNames;
    spec.policy = static_cast<RouterPolicy>(std::find(names.begin(), names.end(), written->text) - names.begin());
  }
  const RouterPolicy answers = spec.decode.value_or(spec.policy);
  if (spec.decode && !setting.has_answers)
    refuse_workload(source, "router.decode", "there is no decode instance; accepted with prefill and decode instances");
  for (const OfPolicies& of : keys_of_policies()) {
    const bool applies = std::any_of(of.policies.begin(), of.policies.end(),
                                     [&](RouterPolicy policy) { return policy == spec.policy || policy == answers; });
    if (applies || !value_at(source.root, path + "." + of.key)) continue;
    std::vector<std::string> accepted;
    for (const RouterPolicy policy : of.policies) accepted.emplace_back(word(policy));
    refuse_workload(
        source, std::string("router.") + of.key,
        std::string("does not apply to policy: ") + word(spec.policy) + "; accepted with policy: " + joined(accepted));
  }
  check_decider(spec, setting.has_answers, source);
  if (spec.policy == RouterPolicy::link_aware)
    refuse_workload(source, policy_key(source),
                    "link_aware compares the ways of KV from the instance with the prompt; accepted as router.decode");
  if (spec.decode == RouterPolicy::link_aware && spec.keeps_prompt.rule != workload::inference::PromptRule::none)
    refuse_workload(source, "router.decode",
                    "link_aware needs the instance with the prompt, and a decider chooses the decode instance first; "
                    "accepted with decider: none");
  const bool is_sticky = spec.policy == RouterPolicy::sticky || answers == RouterPolicy::sticky;
  if (is_sticky && !value_at(source.root, path + ".saturation_tokens"))
    refuse_workload(source, policy_key(source),
                    "sticky needs saturation_tokens: prompt tokens in flight, for example 286720");
  if (value_at(source.root, path + ".queue_order") && !spec.queue_threshold)
    refuse_workload(source, "router.queue_order", "no request waits; accepted with queue_threshold");
  if (setting.names_instances && spec.policy != RouterPolicy::fixed)
    refuse_workload(source, policy_key(source),
                    std::string(word(spec.policy)) +
                        " chooses by itself, and requests name instances; accepted: fixed, or requests without "
                        "`instance` and `decode_instance`");
  return spec;
}

void check_contents(const RouterSpec& router, bool has_contents, const Source& source) {
  if (has_contents) return;
  if (router.keeps_prompt.asks_contents())
    refuse_workload(
        source, "router.decider",
        std::string(workload::inference::kPromptRuleNames[static_cast<std::size_t>(router.keeps_prompt.rule)]) +
            " compares prompts, and the requests do not say what is in them; accepted: uncached_tokens, "
            "generated requests with `prefix`, or a trace with hash_ids or input_tok_ids");
  const bool of_answers = router.decode && uses_contents(*router.decode, router, true);
  if (!uses_contents(router.policy, router, false) && !of_answers) return;
  refuse_workload(source, of_answers ? "router.decode" : policy_key(source),
                  std::string(word(of_answers ? *router.decode : router.policy)) +
                      " compares prompts, and the requests do not say what is in them; accepted: generated requests "
                      "with `prefix`, or a trace with hash_ids or input_tok_ids");
}

}  // namespace railyard::scenario
