// Policies of routers, on states whose scores are computed by hand.
#define BOOST_TEST_MODULE inference_routing
#include "workload/inference/routing/router.h"

#include "workload/inference/routing/prefill_load_decider.h"
#include "workload/inference/routing/uncached_tokens_decider.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>

using namespace railyard;
using namespace railyard::workload;
using namespace railyard::workload::inference;

namespace {

constexpr std::uint32_t kBlock = 16;

struct Fleet {
  explicit Fleet(RouterSpec spec, std::uint32_t instances = 4, std::uint32_t answers = 0, std::uint64_t seed = 1)
      : router(spec, members(instances, answers), seed) {}

  static std::vector<Router::Member> members(std::uint32_t instances, std::uint32_t answers) {
    std::vector<Router::Member> all(instances);
    for (std::uint32_t i = 0; i < instances; ++i) {
      all[i].name = "i" + std::to_string(i);
      all[i].role = i >= instances - answers ? InstanceRole::decode : InstanceRole::prefill;
      all[i].max_seqs = 8 << i;
      all[i].max_batched_tokens = 1024;
      all[i].blocks = 1000;
      all[i].block_tokens = kBlock;
    }
    return all;
  }
  /// A prompt of `tokens` that begins with `shared` tokens of a group; the rest is its own.
  Router::Choice send(std::uint32_t tokens, std::uint64_t group = 0, std::uint32_t shared = 0,
                      RequestPart part = RequestPart::all, Time now = {}) {
    const std::uint32_t number = next++;
    Request request{now, tokens, 1};
    request.session = session;
    RequestContent content;
    if (shared > 0) content = {shared, {group}, {}};
    Asked asked(number, request, content, part);
    const Router::Choice choice = router.choose(asked, router.candidates(request, part), now);
    router.send(asked, choice.instance, now);
    return choice;
  }

  Router router;
  std::uint32_t next = 0;
  std::uint64_t session = 0;
};

RouterSpec with(RouterPolicy policy) {
  RouterSpec spec;
  spec.policy = policy;
  return spec;
}

using Scores = std::vector<double>;

}  // namespace

BOOST_AUTO_TEST_CASE(by_turn_and_by_requests) {
  Fleet turn(with(RouterPolicy::round_robin));
  for (std::uint32_t i = 0; i < 9; ++i) BOOST_TEST(turn.send(100).instance == i % 4);

  Fleet fewest(with(RouterPolicy::least_requests));
  for (std::uint32_t i = 0; i < 4; ++i) BOOST_TEST(fewest.send(100).instance == i);
  fewest.router.view().on_ended(2, 2);
  const Router::Choice choice = fewest.send(100);
  BOOST_TEST(choice.instance == 2u);
  BOOST_TEST(choice.scores == (Scores{1, 1, 0, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(least_load_weighs_waiting_requests_four_times) {
  Fleet fleet(with(RouterPolicy::least_load));
  const EngineLoad loads[] = {{3, 0, 0}, {2, 1, 0}, {8, 2, 0}, {33, 0, 0}};
  for (std::uint32_t i = 0; i < 4; ++i) fleet.router.view().on_load(i, loads[i], {});
  const Router::Choice choice = fleet.send(100);
  BOOST_TEST(choice.scores == (Scores{3 / 8., 6 / 16., 16 / 32., 33 / 64.}), boost::test_tools::per_element());
  BOOST_TEST(choice.instance == 0u);  // of equal ones the first
  fleet.router.view().on_load(0, {3, 1, 0}, {});
  BOOST_TEST(fleet.send(100).instance == 1u);
}

BOOST_AUTO_TEST_CASE(reports_are_heard_after_their_delay) {
  RouterSpec spec = with(RouterPolicy::least_load);
  spec.state_delay_us = 50;
  Fleet fleet(spec);
  const auto at = [](double us) { return Time::seconds(us * 1e-6); };
  fleet.router.view().on_load(0, {8, 8, 0}, at(100));
  const Router::Choice before = fleet.send(100, 0, 0, RequestPart::all, at(149));
  BOOST_TEST(before.instance == 0u);
  BOOST_TEST((before.out_of_date == at(149) - at(100)));
  const Router::Choice after = fleet.send(100, 0, 0, RequestPart::all, at(150));
  BOOST_TEST(after.instance == 1u);
  BOOST_TEST((after.out_of_date == Time()));
}

BOOST_AUTO_TEST_CASE(power_of_two_never_takes_the_fullest_of_three) {
  Fleet fleet(with(RouterPolicy::power_of_two), 3);
  // The number of requests differs by one at most, if every request goes to the emptier of two out of three.
  std::vector<std::uint32_t> sent(3);
  std::set<std::uint32_t> chosen;
  for (std::uint32_t i = 0; i < 300; ++i) {
    const Router::Choice choice = fleet.send(10);
    const auto most = *std::max_element(choice.scores.begin(), choice.scores.end());
    const auto are_full = std::count(choice.scores.begin(), choice.scores.end(), most);
    BOOST_TEST((are_full > 1 || choice.scores[choice.instance] < most));
    ++sent[choice.instance];
    chosen.insert(choice.instance);
  }
  BOOST_TEST(chosen.size() == 3u);
  BOOST_TEST(*std::max_element(sent.begin(), sent.end()) - *std::min_element(sent.begin(), sent.end()) <= 2u);
}

BOOST_AUTO_TEST_CASE(a_session_stays_and_only_the_sessions_of_a_missing_instance_move) {
  Fleet fleet(with(RouterPolicy::session), 4), same(with(RouterPolicy::session), 4);
  std::vector<std::uint32_t> homes, sent(4);
  for (std::uint64_t session = 1; session <= 2000; ++session) {
    fleet.session = same.session = session;
    homes.push_back(fleet.send(100).instance);
    ++sent[homes.back()];
    BOOST_TEST(same.send(100).instance == homes.back());
  }
  for (const double count : sent) BOOST_TEST(count == 500, boost::test_tools::tolerance(0.25));
  for (std::uint64_t session = 1; session <= 2000; ++session) {
    Request request{{}, 100, 1};
    request.session = session;
    const RequestContent nothing;
    Asked asked(0, request, nothing, RequestPart::all);
    const std::uint32_t home = same.router.choose(asked, {0, 1, 3}, {}).instance;
    BOOST_TEST((homes[session - 1] == 2 ? home != 2 : home == homes[session - 1]));
  }
  fleet.session = 0;  // without one: the fewest requests in a minute
  const auto fewest = std::min_element(sent.begin(), sent.end()) - sent.begin();
  BOOST_TEST(fleet.send(100).instance == static_cast<std::uint32_t>(fewest));
}

BOOST_AUTO_TEST_CASE(cache_aware_follows_prefixes_until_loads_differ_too_much) {
  Fleet fleet(with(RouterPolicy::cache_aware));
  BOOST_TEST(fleet.send(1600, 7, 800).instance == 0u);
  BOOST_TEST(fleet.send(1600, 8, 800).instance == 1u);  // nothing is there: the fewest requests
  const Router::Choice again = fleet.send(1600, 7, 800);
  BOOST_TEST(again.instance == 0u);
  BOOST_TEST(again.scores == (Scores{0.5, 0, 0, 0}), boost::test_tools::per_element());
  BOOST_TEST(fleet.send(3200, 7, 800).instance == 2u);  // a quarter of the prompt is below the limit of 0.3
  // Until the difference is more than 64, although most / fewest is far above 1.5 before.
  std::uint32_t more = 0;
  while (fleet.send(1600, 7, 800).instance == 0) ++more;
  BOOST_TEST(more == 63u);  // 65 there, then 0 in instance 3
}

BOOST_AUTO_TEST_CASE(kv_cost_is_dynamos) {
  Fleet fleet(with(RouterPolicy::kv_cost), 4);
  RouterView& view = fleet.router.view();
  // Instance 1 has 20 blocks of group 5's prefix, instance 3 has 10.
  const std::vector<BlockPool::Content> blocks = known_contents({320, {5}, {}}, 640, kBlock);
  BOOST_TEST_REQUIRE(blocks.size() == 20u);
  for (std::size_t i = 0; i < 20; ++i) {
    view.on_stored(1, blocks[i], {});
    if (i < 10) view.on_stored(3, blocks[i], {});
  }
  // Raw prefill 40 blocks, decode 40 blocks.
  Router::Choice choice = fleet.send(640, 5, 320);
  BOOST_TEST(choice.scores == (Scores{80, 60, 80, 70}), boost::test_tools::per_element());
  BOOST_TEST(choice.instance == 1u);
  // It has 320 tokens to compute there, 20 blocks, and 40 blocks of its own; 20 of them are shared.
  choice = fleet.send(640, 5, 320);
  BOOST_TEST(choice.scores == (Scores{80, (20 + 40 - 20) + (40 + 20), 80, 70}), boost::test_tools::per_element());
  BOOST_TEST(choice.instance == 3u);
  view.on_first_token(0, 1);  // nothing to compute any more
  choice = fleet.send(640, 5, 320);
  BOOST_TEST(choice.scores == (Scores{80, (40 - 20) + 60, 80, (30 + 40 - 10) + 60}), boost::test_tools::per_element());
  view.on_ended(0, 1);
  BOOST_TEST(choice.instance != 3u);  // the others cost the same
  view.on_ended(2, choice.instance);
  choice = fleet.send(640, 5, 320);
  BOOST_TEST(choice.scores[1] == 60);
  BOOST_TEST(choice.instance == 1u);
  view.on_removed(1, blocks[4], {});  // the prefix is there up to a hole
  view.on_ended(3, 1);
  BOOST_TEST(fleet.send(640, 5, 320).scores[1] == 80 - 4);
}

BOOST_AUTO_TEST_CASE(kv_cost_credits_what_follows_in_host_memory_and_on_disks) {
  Fleet fleet(with(RouterPolicy::kv_cost), 3);
  RouterView& view = fleet.router.view();
  const std::vector<BlockPool::Content> blocks = known_contents({320, {5}, {}}, 640, kBlock);
  // Instance 1: 4 blocks on its GPUs, 8 more in host memory, all on disks. Instance 2: blocks 4 to 9 in host memory, behind a hole.
  for (std::size_t i = 0; i < 20; ++i) {
    if (i < 4) view.on_stored(1, blocks[i], {});
    if (i < 12) view.on_stored(1, blocks[i], {}, KvPlace::host);
    view.on_stored(1, blocks[i], {}, KvPlace::disks);
    if (i >= 4 && i < 10) view.on_stored(2, blocks[i], {}, KvPlace::host);
  }
  BOOST_TEST(fleet.send(640, 5, 320).scores == (Scores{80, 80 - 4 - 0.75 * 8 - 0.25 * 8, 80}),
             boost::test_tools::per_element());
  view.on_ended(0, 1);
  view.on_removed(1, blocks[6], {}, KvPlace::host);  // then disks follow
  BOOST_TEST(fleet.send(640, 5, 320).scores[1] == 80 - 4 - 0.75 * 2 - 0.25 * 14);
}

BOOST_AUTO_TEST_CASE(kv_cost_has_no_credit_for_answers_and_decays_with_load) {
  RouterSpec spec = with(RouterPolicy::kv_cost);
  spec.kv_cost.overlap_decay = 1;
  spec.kv_cost.active_request_weight = 3;
  Fleet fleet(spec, 4, 2);
  const std::vector<BlockPool::Content> blocks = known_contents({320, {5}, {}}, 640, kBlock);
  for (std::uint32_t id = 0; id < 4; ++id)
    for (const BlockPool::Content content : blocks) fleet.router.view().on_stored(id, content, {});
  const std::uint32_t first = fleet.send(640, 5, 320).instance;
  BOOST_TEST_REQUIRE(first < 2u);
  // 320 tokens to compute more than the other one: excess 320 / 640, credit 20 / 1.5.
  const Router::Choice next = fleet.send(640, 5, 320);
  BOOST_TEST(next.scores[first] == (20 + 40 - 20 / 1.5) + 60 + 3);
  BOOST_TEST(next.scores[1 - first] == 20 + 40);
  const Router::Choice answer = fleet.send(640, 5, 320, RequestPart::answer);
  BOOST_TEST(answer.scores == (Scores{40, 40}), boost::test_tools::per_element());
  BOOST_TEST(answer.instance >= 2u);
}

BOOST_AUTO_TEST_CASE(a_temperature_draws_by_cost) {
  RouterSpec spec = with(RouterPolicy::kv_cost);
  spec.kv_cost.temperature = 0.5;
  Fleet fleet(spec, 2);
  const Request request{{}, 320, 1};
  const RequestContent nothing;
  Asked other(9999, request, nothing, RequestPart::all);
  fleet.router.view().on_sent(0, other, {});  // scaled costs 1 and 0
  std::uint32_t dear = 0;
  constexpr std::uint32_t kDraws = 20000;
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    const Router::Choice choice = fleet.send(160);
    dear += choice.instance == 0;
    fleet.router.view().on_ended(i, choice.instance);
  }
  const double expected = std::exp(-2.) / (1 + std::exp(-2.));
  BOOST_TEST(std::abs(dear / double(kDraws) - expected) < 4 * std::sqrt(expected / kDraws));
}

BOOST_AUTO_TEST_CASE(scorers_add_prefix_queue_and_free_blocks) {
  RouterSpec spec = with(RouterPolicy::scorers);
  spec.scorers.kv_weight = 1;
  Fleet fleet(spec, 3);
  const EngineLoad loads[] = {{4, 0, 500}, {4, 1, 0}, {4, 4, 250}};
  for (std::uint32_t i = 0; i < 3; ++i) fleet.router.view().on_load(i, loads[i], {});
  Router::Choice choice = fleet.send(640, 5, 320);
  BOOST_TEST(choice.scores == (Scores{1 + 0.5, 0.75 + 1, 0 + 0.75}), boost::test_tools::per_element());
  BOOST_TEST(choice.instance == 1u);
  choice = fleet.send(640, 5, 320);  // half of its blocks went there
  BOOST_TEST(choice.scores == (Scores{1.5, 2 * 0.5 + 1.75, 0.75}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_prefix_is_sticky_until_its_instance_is_saturated) {
  RouterSpec spec = with(RouterPolicy::sticky);
  spec.sticky.saturation_tokens = 1000;
  Fleet fleet(spec, 3);
  const auto send = [&] { return fleet.send(640, 5, 320).instance; };
  const std::uint32_t home = send();
  BOOST_TEST(send() == home);  // 640 tokens in flight
  const std::uint32_t second = send();
  BOOST_TEST(second != home);  // 1280
  BOOST_TEST(send() == second);
  const std::uint32_t third = send();
  BOOST_TEST((third != home && third != second));
  fleet.router.view().on_first_token(0, home);
  fleet.router.view().on_first_token(1, home);
  BOOST_TEST(send() == home);  // all have the prefix: nothing in flight there
  BOOST_TEST(fleet.send(640, 6, 320).scores.size() == 3u);
}

BOOST_AUTO_TEST_CASE(new_tokens_are_those_that_no_instance_has) {
  RouterSpec spec = with(RouterPolicy::round_robin);
  spec.queue_order = RouterQueueOrder::wspt;
  Fleet fleet(spec, 2);
  const Request request{{}, 640, 1};
  const RequestContent content{320, {5}, {}};
  Asked asked(0, request, content, RequestPart::all);
  BOOST_TEST(fleet.router.new_tokens(asked, {0, 1}, {}) == 640u);
  const Asked::Contents blocks = asked.contents(kBlock);
  for (std::size_t i = 0; i < 3; ++i) fleet.router.view().on_stored(1, blocks[i], {});
  BOOST_TEST(fleet.router.new_tokens(asked, {0, 1}, {}) == 640u - 3 * kBlock);
  BOOST_TEST(fleet.router.new_tokens(asked, {0}, {}) == 640u);
}

BOOST_AUTO_TEST_CASE(prefix_trie_remembers_all) {
  Fleet fleet(with(RouterPolicy::prefix_trie), 4);
  std::vector<std::uint32_t> homes;
  for (std::uint64_t group = 0; group < 4; ++group) homes.push_back(fleet.send(640, group, 320).instance);
  BOOST_TEST(std::set<std::uint32_t>(homes.begin(), homes.end()).size() == 4u);
  for (std::uint32_t i = 0; i < 40; ++i) BOOST_TEST(fleet.send(640, i % 4, 320).instance == homes[i % 4]);
}

BOOST_AUTO_TEST_CASE(a_router_is_full_when_all_candidates_are) {
  RouterSpec spec = with(RouterPolicy::round_robin);
  spec.queue_threshold = 2;  // batches of 1024 tokens
  Fleet fleet(spec, 2);
  fleet.send(2049);
  BOOST_TEST(!fleet.router.is_full({0, 1}));
  fleet.send(2048);
  BOOST_TEST(!fleet.router.is_full({0, 1}));
  BOOST_TEST(fleet.router.is_full({0}));
  fleet.send(1);  // by turn, instance 0
  fleet.send(1);
  BOOST_TEST(fleet.router.is_full({0, 1}));
  fleet.router.view().on_first_token(1, 1);
  BOOST_TEST(!fleet.router.is_full({0, 1}));
}

// The cases of ai-dynamo/dynamo's own tests of conditional_disagg.rs, and the limit of llm-d's prefix-based-pd-decider.
BOOST_AUTO_TEST_CASE(prompts_stay_by_the_rules_of_dynamo_and_llm_d) {
  const IslBoundingDecider isl(2048, 0.7), any_share(2048, 1.1);
  BOOST_TEST(isl.keeps({1000, 14 * 64, false}));
  BOOST_TEST(isl.keeps({500, 10 * 64, false}));  // more is cached than the prompt has
  BOOST_TEST(isl.keeps({0, 0, false}));
  BOOST_TEST(!isl.keeps({200, 0, false}));  // few tokens, but all of the prompt
  BOOST_TEST(!isl.keeps({1000, 300, false}));
  BOOST_TEST(isl.keeps({1000, 301, false}));
  BOOST_TEST(!any_share.keeps({100'000, 1000 * 64, false}));
  BOOST_TEST(!any_share.keeps({2048, 0, false}));
  BOOST_TEST(any_share.keeps({2047, 0, false}));
  const PrefillLoadDecider load, either(isl);
  BOOST_TEST(load.keeps({100'000, 0, true}));
  BOOST_TEST(!load.keeps({1000, 14 * 64, false}));
  BOOST_TEST(either.keeps({1000, 14 * 64, false}));
  BOOST_TEST(either.keeps({100'000, 0, true}));
  BOOST_TEST(!either.keeps({100'000, 0, false}));
  const UncachedTokensDecider uncached(16);
  BOOST_TEST(uncached.keeps({1000, 985, false}));
  BOOST_TEST(!uncached.keeps({1000, 984, false}));
}

BOOST_AUTO_TEST_CASE(a_decider_knows_what_engines_report_and_what_was_sent) {
  RouterSpec spec = with(RouterPolicy::kv_cost);
  spec.keeps_prompt.rule = PromptRule::isl_or_load;
  spec.queue_threshold = 0.5;  // of 1024 tokens
  Fleet fleet(spec, 3, 1);
  const Request request{{}, 640, 1};
  const RequestContent content{320, {5}, {}};
  Asked asked(77, request, content, RequestPart::answer);
  BOOST_TEST(!fleet.router.keeps_prompt(asked, 2, 0));
  const Asked::Contents blocks = asked.contents(kBlock);
  for (const BlockPool::Content block : blocks) fleet.router.view().on_stored(2, block, {});
  BOOST_TEST(fleet.router.keeps_prompt(asked, 2, 0));  // 320 of 640 tokens are new
  BOOST_TEST(!fleet.router.keeps_prompt(asked, 1, 0));
  // Half of the prompt is credited where it is, of blocks that the request and others hold.
  BOOST_TEST(fleet.router.choose(asked, {2}, {}).scores == (Scores{40 - 20}), boost::test_tools::per_element());
  asked.part = RequestPart::prompt;
  fleet.router.send(asked, 0, {});
  BOOST_TEST(fleet.router.keeps_prompt(asked, 1, 0));  // instance 0 is busy
  BOOST_TEST(!fleet.router.keeps_prompt(asked, 1, 1));
  BOOST_TEST(!fleet.router.is_full({0, 0}));  // nobody waits: a prompt that is too much stays
}
