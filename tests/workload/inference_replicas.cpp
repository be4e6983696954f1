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
  return {std::move(all), spec.max_in_flight};
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
