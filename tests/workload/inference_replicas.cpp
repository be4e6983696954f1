// Attention replicas of an instance: a step is one batch of each; a request stays where it has been put.
#define BOOST_TEST_MODULE inference_replicas
#include <boost/test/unit_test.hpp>

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/random.h"
#include "tests/support/scheduling.h"
#include "workload/inference/scheduler/continuous_scheduler.h"
#include "workload/inference/scheduler/replicas.h"

using namespace railyard;
using namespace railyard::workload::inference;
using test::request;
using test::step;

namespace {

Replicas replicas(std::uint32_t count, const SchedulerSpec& spec, std::uint32_t blocks) {
  std::vector<std::unique_ptr<Scheduler>> all;
  for (std::uint32_t i = 0; i < count; ++i) all.push_back(std::make_unique<ContinuousScheduler>(spec, blocks));
  return {std::move(all), make_replica_choice(ReplicaRule::least_load, 1), spec.max_in_flight};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_request_goes_to_the_least_loaded_replica_and_all_run_in_one_step) {
  SchedulerSpec spec;
  spec.max_batched_tokens = 100;
  Replicas scheduler = replicas(3, spec, 100);
  for (std::uint32_t r = 0; r < 6; ++r) scheduler.add(r, request(50, 4), {}, RequestPart::all);
  const ScheduledBatch batch = step(scheduler);
  std::map<std::uint32_t, std::vector<std::uint32_t>> requests;
  for (const ScheduledBatch::Item& item : batch.items) requests[item.replica].push_back(item.request);
  BOOST_TEST((requests == std::map<std::uint32_t, std::vector<std::uint32_t>>{{0, {0, 3}}, {1, {1, 4}}, {2, {2, 5}}}));
  BOOST_TEST(batch.fullest_replica().tokens() == 100u);  // each replica has the budget of its own
  BOOST_TEST(batch.tokens() == 300u);
}

// Loads of three replicas, and the one that each engine's rule takes.
BOOST_AUTO_TEST_CASE(rules_choose_as_engines_do) {
  const auto chosen = [](ReplicaRule rule, const std::vector<ReplicaLoad>& loads) {
    return make_replica_choice(rule, 1)->choose(loads, 0);
  };
  // waiting, running, requests, tokens of their prompts
  BOOST_TEST(chosen(ReplicaRule::least_load, {{1, 0, 1, 9}, {0, 3, 3, 9}, {0, 3, 3, 9}}) == 1u);
  BOOST_TEST(chosen(ReplicaRule::fewest_tokens, {{0, 1, 1, 900}, {0, 1, 1, 300}, {0, 2, 2, 400}}) == 1u);
  // Nobody gets more than an even share, which is two here: the second replica has it already.
  BOOST_TEST(chosen(ReplicaRule::fewest_tokens, {{0, 1, 1, 900}, {0, 2, 2, 300}, {0, 1, 1, 400}}) == 2u);
  // All have as many as the fullest one: then a share is one more.
  BOOST_TEST(chosen(ReplicaRule::fewest_tokens, {{0, 1, 1, 900}, {0, 1, 1, 300}, {0, 1, 1, 300}}) == 1u);
  const std::vector<ReplicaLoad> idle(3);
  const auto turns = make_replica_choice(ReplicaRule::round_robin, 1);
  for (std::uint32_t r = 0; r < 7; ++r) BOOST_TEST(turns->choose(idle, 100 - r) == r % 3);
  const auto draws = make_replica_choice(ReplicaRule::random, 1);
  std::vector<std::uint32_t> drawn(3);
  for (std::uint32_t r = 0; r < 3000; ++r) ++drawn[draws->choose(idle, r)];
  for (const std::uint32_t each : drawn) BOOST_TEST((each > 900u && each < 1100u));
}

// The KV of a prompt stays in its replica until it has been read, while other requests leave.
BOOST_AUTO_TEST_CASE(the_kv_of_a_prompt_stays_in_its_replica) {
  SchedulerSpec spec;
  Replicas scheduler = replicas(2, spec, 100);
  for (std::uint32_t r = 0; r < 4; ++r) scheduler.add(r, request(50, 4), {}, RequestPart::prompt);
  BOOST_TEST(step(scheduler).items.size() == 4u);
  scheduler.add(4, request(50, 1), {}, RequestPart::prompt);
  step(scheduler);
  BOOST_TEST(scheduler.empty());
  for (std::uint32_t r = 0; r < 4; ++r) {
    BOOST_TEST(scheduler.replica(r) == r % 2);
    BOOST_TEST(scheduler.blocks(r).size() == 4u);
  }
  scheduler.release(0);
  BOOST_TEST(scheduler.cancel(1) == 50u);
  BOOST_TEST(scheduler.keep(2, 7) == 50u);
  BOOST_TEST(scheduler.memory().held() == 3 * 4u);
  scheduler.end_lease(7);
  scheduler.release(3);
  scheduler.release(4);
  BOOST_TEST(scheduler.memory().held() == 0u);
}

BOOST_AUTO_TEST_CASE(a_replica_without_requests_takes_no_part) {
  SchedulerSpec spec;
  Replicas scheduler = replicas(4, spec, 100);
  scheduler.add(0, request(20, 2), {}, RequestPart::all);
  const ScheduledBatch batch = step(scheduler);
  BOOST_TEST_REQUIRE(batch.items.size() == 1u);
  BOOST_TEST(batch.items.front().replica == 0u);
}

// Every token of every request is computed once, in one replica, and all memory comes back.
BOOST_AUTO_TEST_CASE(tokens_and_blocks_are_conserved) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    Random random(seed, 0);
    SchedulerSpec spec;
    spec.max_batched_tokens = 16 + random.below(100);
    spec.max_seqs = 1 + random.below(8);
    const std::uint32_t count = 1 + random.below(5), blocks = 40 + random.below(40);
    Replicas scheduler = replicas(count, spec, blocks);
    const std::uint32_t total = scheduler.memory().total;
    std::map<std::uint32_t, std::uint64_t> expected, computed;
    std::map<std::uint32_t, std::set<std::uint32_t>> places;
    for (std::uint32_t r = 0; r < 30; ++r) {
      const Request what = request(1 + random.below(200), 1 + random.below(30));
      scheduler.add(r, what, {}, RequestPart::all);
      expected[r] = what.prompt_tokens + what.output_tokens - 1;
    }
    while (!scheduler.empty()) {
      const ScheduledBatch batch = step(scheduler);
      BOOST_TEST_REQUIRE(!batch.items.empty());
      for (const std::uint32_t r : batch.preempted) computed[r] = 0;
      for (const ScheduledBatch::Item& item : batch.items) {
        computed[item.request] = item.start + item.tokens;
        places[item.request].insert(item.replica);
      }
    }
    BOOST_TEST(computed == expected);
    for (const auto& [number, where] : places) BOOST_TEST(where.size() == 1u);
    BOOST_TEST(scheduler.memory().free == total);
  }
}
