// How a router chooses, typed and validated. Plain data; no SystemC.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace railyard::workload::inference {

enum class RouterPolicy : std::uint8_t {
  fixed,
  round_robin,
  random,
  session,
  least_load,
  least_requests,
  power_of_two,
  cache_aware,
  kv_cost,
  scorers,
  sticky,
  prefix_trie,
  link_aware,
};
inline constexpr std::array<const char*, 13> kRouterPolicyNames{
    "fixed",       "round_robin", "random",  "session", "least_load",  "least_requests", "power_of_two",
    "cache_aware", "kv_cost",     "scorers", "sticky",  "prefix_trie", "link_aware"};

/// sgl-project/sglang, sgl-model-gateway/src/policies/cache_aware.rs; the values are the command line's.
struct CacheAwareSpec {
  double match_ratio = 0.3;  ///< longest prefix / prompt, above which the instance with the prefix is chosen
  std::uint32_t balance_abs = 64;
  double balance_rel = 1.5;
};

/// ai-dynamo/dynamo, lib/kv-router/src/scheduling/selector/default.rs and config.rs.
struct KvCostSpec {
  double prefill_load_scale = 1;
  double overlap_score_credit = 1;
  double overlap_decay = 0;
  double host_cache_hit_weight = 0.75, disk_cache_hit_weight = 0.25;
  double active_request_weight = 0;
  double temperature = 0;  ///< 0: the least cost
};

/// llm-d's endpoint picker, deploy/config/*.yaml of its inference scheduler (v0.8).
struct ScorersSpec {
  double prefix_weight = 2, queue_weight = 1, kv_weight = 0;
  bool by_events = false;  ///< prefixes by reports of the engines; else by what the router has sent
};

/// Which prompts the instance for the answer computes itself (prompt_decider.h). none: those of whole requests only.
enum class PromptRule : std::uint8_t { none, isl_bounding, prefill_load, isl_or_load, uncached_tokens };
inline constexpr std::array<const char*, 5> kPromptRuleNames{"none", "isl_bounding", "prefill_load", "isl_or_load",
                                                             "uncached_tokens"};

struct PromptRuleSpec {
  PromptRule rule = PromptRule::none;
  /// New tokens of a prompt from which on it goes to an instance that prefills. None: by the rule's source.
  std::optional<std::uint32_t> tokens;
  double ratio = 0.7;  ///< and new tokens / prompt

  std::uint32_t new_tokens() const { return tokens.value_or(rule == PromptRule::uncached_tokens ? 16 : 2048); }
  bool asks_load() const { return rule == PromptRule::prefill_load || rule == PromptRule::isl_or_load; }
  bool asks_contents() const { return rule == PromptRule::isl_bounding || rule == PromptRule::isl_or_load; }
};

/// Order in which a router's own queue is served.
/// wspt: fewest new tokens first (weighted shortest processing time with equal weights, ai-dynamo/dynamo
/// lib/kv-router/src/scheduling/policy.rs): those of the prompt that no instance has cached when the request comes.
enum class RouterQueueOrder : std::uint8_t { fcfs, lcfs, wspt };

struct StickySpec {
  /// Prompt tokens in flight above which an instance is saturated: what it computes in the longest wait that is allowed.
  std::uint64_t saturation_tokens = 0;
};

struct RouterSpec {
  RouterPolicy policy = RouterPolicy::fixed;
  std::optional<RouterPolicy> decode;  ///< of the instance for the answer; none: the same
  double state_delay_us = 0;           ///< from an event in an engine until the router knows of it
  double router_us = 0;                ///< of the router and its proxies, for each request
  /// A request waits in the router while the prompts that an instance still has to compute exceed this many of its batches, at
  /// every instance. None: it does not wait.
  std::optional<double> queue_threshold;
  RouterQueueOrder queue_order = RouterQueueOrder::fcfs;
  CacheAwareSpec cache_aware;
  KvCostSpec kv_cost;
  ScorersSpec scorers;
  StickySpec sticky;
  PromptRuleSpec keeps_prompt;
};

/// Whether a policy compares contents of prompts.
/// @param of_answers  it chooses the instance for the answer, where kv_cost gives no credit for what is there unless prompts may stay
constexpr bool uses_contents(RouterPolicy policy, const RouterSpec& spec, bool of_answers) {
  switch (policy) {
    case RouterPolicy::cache_aware:
    case RouterPolicy::sticky:
    case RouterPolicy::prefix_trie: return true;
    case RouterPolicy::kv_cost:
      return (!of_answers || spec.keeps_prompt.rule != PromptRule::none) && spec.kv_cost.overlap_score_credit > 0;
    case RouterPolicy::scorers: return spec.scorers.prefix_weight > 0;
    default: return false;
  }
}

}  // namespace railyard::workload::inference
