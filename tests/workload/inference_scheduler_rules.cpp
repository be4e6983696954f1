// The continuous-batching scheduler in cases with a closed form: priorities, the rules of SGLang and TensorRT-LLM, and
// whole prompts.
#define BOOST_TEST_MODULE inference_scheduler_rules
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/units.h"
#include "tests/support/scheduling.h"
#include "workload/inference/scheduler/sglang_scheduler.h"
#include "workload/inference/scheduler/whole_sequences.h"

using namespace railyard;
using namespace railyard::workload::inference;
using test::request;
using test::run_to_end;
using test::step;
using test::text;

BOOST_AUTO_TEST_CASE(an_urgent_request_starts_first) {
  for (const QueuePolicy policy : {QueuePolicy::fcfs, QueuePolicy::priority}) {
    SchedulerSpec spec;
    spec.policy = policy;
    spec.max_seqs = 1;
    ContinuousScheduler scheduler(spec, 1000);
    std::string order;
    for (const std::uint32_t priority : {2, 1, 2, 0, 1})
      scheduler.add(static_cast<std::uint32_t>(scheduler.waiting()), request(10, 1, priority));
    while (!scheduler.empty()) order += text(step(scheduler)).substr(0, 1);
    BOOST_TEST(order == (policy == QueuePolicy::priority ? "31402" : "01234"));
  }
}

BOOST_AUTO_TEST_CASE(the_least_urgent_request_gives_its_tokens_of_the_step_back) {
  SchedulerSpec spec;
  spec.policy = QueuePolicy::priority;
  spec.reserve = Reserve::chunk;
  spec.max_batched_tokens = 50;
  spec.max_seqs = 8;
  ContinuousScheduler scheduler(spec, 1 + 12);
  scheduler.add(0, request(126, 20, 2));
  for (const char* chunk : {"0:50", "0:50", "0:26"}) BOOST_TEST(text(step(scheduler)) == chunk);
  scheduler.add(1, request(32, 20, 0));
  scheduler.add(2, request(150, 20, 1));
  BOOST_TEST(text(step(scheduler)) == "0:1 1:32 2:17");  // 8 + 2 + 2 blocks: none is free
  // The second one needs a block. The first one is already in the batch, and leaves it.
  const ScheduledBatch batch = step(scheduler);
  BOOST_TEST(text(batch) == "1:1 2:49");
  BOOST_TEST(batch.preempted == std::vector<std::uint32_t>{0}, boost::test_tools::per_element());
  BOOST_TEST(scheduler.counts(0).recomputed_tokens == 0u);
}

BOOST_AUTO_TEST_CASE(tokens_that_are_given_back_are_not_recomputed) {
  SchedulerSpec spec;
  spec.policy = QueuePolicy::priority;
  spec.reserve = Reserve::chunk;
  spec.max_batched_tokens = 50;
  spec.max_seqs = 8;
  spec.long_prefill_threshold_tokens = 30;
  spec.prefix_caching = false;
  ContinuousScheduler scheduler(spec, 1 + 14);
  scheduler.add(0, request(150, 20, 2));
  for (int chunk = 0; chunk < 5; ++chunk) step(scheduler);
  scheduler.add(1, request(70, 1));
  for (const char* batch : {"0:1 1:30", "0:1 1:30", "1:10"}) BOOST_TEST(text(step(scheduler)) == batch);
  BOOST_TEST(text(step(scheduler)) == "0:30");  // again
  scheduler.add(2, request(190, 1));
  for (int chunk = 0; chunk < 3; ++chunk) BOOST_TEST(text(step(scheduler)) == "0:30 2:20");
  BOOST_TEST(text(step(scheduler)) == "2:20");  // 10 + 5 blocks would be needed
  BOOST_TEST(scheduler.counts(0).preemptions == 2u);
  BOOST_TEST(scheduler.counts(0).recomputed_tokens == 120u);
}

BOOST_AUTO_TEST_CASE(of_equally_urgent_requests_the_latest_is_preempted) {
  SchedulerSpec spec;
  spec.policy = QueuePolicy::priority;
  ContinuousScheduler scheduler(spec, 1 + 4);
  const std::uint32_t priorities[] = {0, 1, 1, 0};
  for (std::uint32_t r = 0; r < 4; ++r) scheduler.add(r, request(16, 20, priorities[r]));
  step(scheduler);
  const ScheduledBatch batch = step(scheduler);  // each needs a second block
  BOOST_TEST(batch.preempted == std::vector<std::uint32_t>({2, 1}), boost::test_tools::per_element());
  BOOST_TEST(text(batch) == "0:1 3:1");
}

BOOST_AUTO_TEST_CASE(with_prefill_first_no_request_decodes_beside_a_prompt) {
  SchedulerSpec spec;
  spec.mix = BatchMix::prefill_first;
  spec.max_batched_tokens = 40;
  spec.max_seqs = 3;
  ContinuousScheduler scheduler(spec, 1000);
  scheduler.add(0, request(10, 20));
  BOOST_TEST(text(step(scheduler)) == "0:10");
  BOOST_TEST(text(step(scheduler)) == "0:1");
  scheduler.add(1, request(100, 20));
  scheduler.add(2, request(10, 20));
  scheduler.add(3, request(10, 20));  // no slot
  for (const char* batch : {"1:40", "1:40", "1:20 2:10", "0:1 1:1 2:1", "0:1 1:1 2:1"})
    BOOST_TEST(text(step(scheduler)) == batch);
}

// SGLang's estimate of what running requests may still generate, its retraction, and the estimate after it: a model of
// equal requests with blocks of one token and without a limit of budget and slots, step by step.
BOOST_AUTO_TEST_CASE(sglang_admits_by_the_expected_share_of_answers) {
  struct Sizes {
    std::uint32_t prompt, answer, tokens;
  };
  for (const Sizes& z : {Sizes{10, 300, 1000}, {100, 2000, 5000}, {10, 6000, 13'000}}) {  // at most 4096 are expected
    BOOST_TEST_INFO_SCOPE(z.prompt << " + " << z.answer << " tokens");
    SchedulerSpec spec;
    spec.mix = BatchMix::prefill_first;
    spec.reserve = Reserve::expected_output;
    spec.prefix_caching = false;
    spec.block_tokens = 1;
    spec.max_batched_tokens = 100'000;
    SglangScheduler scheduler(spec, z.tokens + 1);
    struct Running {
      std::uint32_t number;
      std::uint64_t generated;
    };
    std::vector<Running> running, waiting;
    for (std::uint32_t r = 0; r < 8; ++r) {
      scheduler.add(r, request(z.prompt, z.answer));
      waiting.push_back({r, 0});
    }
    double share = 0.7;
    std::size_t retractions = 0, late_starts = 0;
    while (!scheduler.empty()) {
      // All but the newest token of a running request is in the cache.
      double available = z.tokens, expected = 0;
      for (const Running& r : running) {
        available -= static_cast<double>(z.prompt + r.generated - 1);
        expected += 1 + std::floor(share * static_cast<double>(std::min<std::uint64_t>(z.answer - r.generated, 4096)));
      }
      std::vector<Running> prompts;
      double rest = available - expected;
      while (!waiting.empty()) {
        const Running& r = waiting.front();
        rest -= static_cast<double>(z.prompt + r.generated + std::min<std::uint64_t>(z.answer - r.generated, 4096));
        if (rest < 0) break;
        prompts.push_back(r);
        waiting.erase(waiting.begin());
      }
      late_starts += running.empty() ? 0 : prompts.size();
      std::string batch;
      std::vector<std::uint32_t> retracted;
      if (!prompts.empty()) {
        for (const Running& r : prompts)
          batch += " " + std::to_string(r.number) + ":" + std::to_string(z.prompt + r.generated);
        running.insert(running.end(), prompts.begin(), prompts.end());
      } else {
        // The one with the shortest answer leaves, until there is room for a step, and then for 20 more.
        double steps = 1;
        while (available < steps * static_cast<double>(running.size()) && running.size() > 1) {
          const auto worst = std::min_element(running.rbegin(), running.rend(), [](const Running& a, const Running& b) {
            return a.generated < b.generated;
          });
          available += static_cast<double>(z.prompt + worst->generated - 1);
          retracted.push_back(worst->number);
          waiting.push_back(*worst);
          running.erase(std::prev(worst.base()));
          steps = 21;
        }
        double generated = 0;
        for (const Running& r : running) {
          batch += " " + std::to_string(r.number) + ":1";
          generated += static_cast<double>(r.generated) + 20;
        }
        if (retracted.empty())
          share = std::max(0.14 * 0.7, share - (0.7 - 0.14 * 0.7) / 600);
        else
          share = std::min(1.0, generated / (static_cast<double>(z.answer) * static_cast<double>(running.size())));
        retractions += retracted.size();
      }
      const ScheduledBatch composed = step(scheduler);
      BOOST_TEST_REQUIRE(" " + text(composed) == batch);
      BOOST_TEST_REQUIRE(composed.preempted == retracted, boost::test_tools::per_element());
      for (Running& r : running) {
        if (prompts.empty() ||
            std::any_of(prompts.begin(), prompts.end(), [&](const Running& p) { return p.number == r.number; }))
          ++r.generated;
      }
      running.erase(
          std::remove_if(running.begin(), running.end(), [&](const Running& r) { return r.generated == z.answer; }),
          running.end());
    }
    BOOST_TEST(late_starts > 0u);
    BOOST_TEST((retractions > 0 || z.answer == 2000));
  }
}

BOOST_AUTO_TEST_CASE(sglang_looks_for_requests_once_in_an_interval) {
  SchedulerSpec spec;
  spec.mix = BatchMix::prefill_first;
  spec.reserve = Reserve::expected_output;
  spec.block_tokens = 1;
  spec.receive_interval = 4;
  SglangScheduler scheduler(spec, 1 + 5000);
  scheduler.add(0, request(10, 100));
  BOOST_TEST(text(step(scheduler)) == "0:10");  // nothing ran
  scheduler.add(1, request(20, 100));
  BOOST_TEST(text(step(scheduler)) == "1:20");  // after prompts
  BOOST_TEST(text(step(scheduler)) == "0:1 1:1");
  scheduler.add(2, request(30, 100));
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST(text(step(scheduler)) == "0:1 1:1");
    BOOST_TEST((scheduler.left().refusal == Refusal::unseen));
  }
  BOOST_TEST(text(step(scheduler)) == "2:30");
  BOOST_TEST((scheduler.left().refusal == Refusal::none));
}

BOOST_AUTO_TEST_CASE(an_idle_sglang_expects_the_first_share_again) {
  SchedulerSpec spec;
  spec.mix = BatchMix::prefill_first;
  spec.reserve = Reserve::expected_output;
  spec.prefix_caching = false;
  spec.block_tokens = 1;
  for (const std::uint32_t more : {0, 1}) {
    SglangScheduler scheduler(spec, 1 + 5000);
    scheduler.add(0, request(100, 1000));  // the share is the least one at its end
    run_to_end(scheduler);
    scheduler.add(1, request(100, 2000));
    step(scheduler);
    // 100 tokens are held, and 1 + 0.7 x 1999 expected: 3500 are left.
    scheduler.add(2, request(1400 + more, 2100));
    BOOST_TEST(text(step(scheduler)) == (more == 0 ? "2:1400" : "1:1"));
  }
}

namespace {

/// A block for a token; remembers the tokens that have memory.
struct Memory : SequenceMemory {
  std::uint32_t blocks(std::uint64_t tokens) const override { return static_cast<std::uint32_t>(tokens); }
  void on_held(std::uint64_t tokens) override { held += tokens; }
  void on_freed(std::uint64_t tokens) override { held -= tokens; }
  std::uint64_t held = 0;
};

/// Numbers of the requests that take memory.
std::vector<std::uint32_t> reserved(Scheduler& scheduler) {
  std::vector<std::uint32_t> numbers;
  for (const Reservation& r : scheduler.reserve()) numbers.push_back(r.request);
  return numbers;
}

}  // namespace

BOOST_AUTO_TEST_CASE(whole_prompts_take_memory_in_turn_and_keep_it_until_they_are_read) {
  WholeSequencesSpec spec;
  spec.max_batched_tokens = 100;
  spec.prompts_in_turn = true;
  Memory memory;
  WholeSequences scheduler(spec, 500, memory);
  for (std::uint32_t r = 0; r < 4; ++r) scheduler.add(r, request(r == 1 ? 150 : 250, 9), {}, RequestPart::prompt);
  BOOST_TEST((reserved(scheduler) == std::vector<std::uint32_t>{0, 1}));  // request 3 would fit, but not before 2
  BOOST_TEST(memory.held == 400u);
  BOOST_TEST(scheduler.memory().free == 100u);
  // A batch has chunks of one prompt, though the budget has room for the next one.
  std::uint32_t chunk = 0;
  for (const char* tokens : {"0:100", "0:100", "0:50"}) {
    const ScheduledBatch batch = step(scheduler);
    BOOST_TEST(text(batch) == tokens);
    BOOST_TEST(batch.items.front().chunk == chunk++);
  }
  BOOST_TEST(reserved(scheduler).empty());  // computed, but not read
  scheduler.release(0);
  BOOST_TEST((reserved(scheduler) == std::vector<std::uint32_t>{2}));
  for (const char* tokens : {"1:100", "1:50", "2:100", "2:100", "2:50"}) BOOST_TEST(text(step(scheduler)) == tokens);
  for (const std::uint32_t r : {1u, 2u}) scheduler.release(r);
  BOOST_TEST((reserved(scheduler) == std::vector<std::uint32_t>{3}));
  run_to_end(scheduler);
  scheduler.release(3);
  BOOST_TEST(memory.held == 0u);
  BOOST_TEST(scheduler.memory().free == 500u);
}

BOOST_AUTO_TEST_CASE(an_eager_scheduler_composes_when_the_last_batch_begins) {
  WholeSequencesSpec spec;
  spec.max_batched_tokens = 100;
  spec.is_eager = true;
  Memory memory;
  WholeSequences scheduler(spec, 1000, memory);
  scheduler.add(0, request(300, 1), {}, RequestPart::prompt);
  scheduler.reserve();
  std::vector<ScheduledBatch> batches;
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST_REQUIRE(scheduler.may_compose());
    batches.push_back(scheduler.compose());
    BOOST_TEST(!scheduler.may_compose());
    scheduler.begun(batches.back());  // none of the batches is complete
  }
  for (const ScheduledBatch& batch : batches) scheduler.complete(batch);
  BOOST_TEST(scheduler.empty());
}

BOOST_AUTO_TEST_CASE(requests_that_decode_together_stay_together) {
  // Two groups, at most three requests: the third joins the second group, the fourth the first group that has a batch to
  // compose when a last token has been scheduled.
  WholeSequencesSpec spec;
  spec.groups = 2;
  spec.max_batched_tokens = spec.max_seqs = 3;
  Memory memory;
  WholeSequences scheduler(spec, 1000, memory);
  const auto arrive = [&](std::uint32_t number, std::uint32_t output) {
    scheduler.add(number, request(10, output), {}, RequestPart::answer);
    scheduler.reserve();
    scheduler.arrived(number);
  };
  arrive(0, 3);
  arrive(1, 4);
  ScheduledBatch first = scheduler.compose();
  BOOST_TEST(text(first) == "0:1 1:1");
  arrive(2, 9);
  arrive(3, 9);
  ScheduledBatch second = scheduler.compose();
  BOOST_TEST(text(second) == "2:1");
  BOOST_TEST(!scheduler.may_compose());
  scheduler.complete(first);
  first = scheduler.compose();
  BOOST_TEST(text(first) == "0:1 1:1");  // the last token of request 0, whose slot is taken until now
  scheduler.complete(second);
  second = scheduler.compose();
  BOOST_TEST(text(second) == "2:1 3:1");
  BOOST_TEST((scheduler.complete(first) == std::vector<std::uint32_t>{0}));
  BOOST_TEST(text(scheduler.compose()) == "1:1");
  BOOST_TEST(memory.held == (10u + 4) + (10 + 9) + (10 + 9));
}

BOOST_AUTO_TEST_CASE(a_decode_of_four_tokens_gives_back_what_was_guessed_wrong) {
  SchedulerSpec spec;
  spec.block_tokens = 2;
  spec.drafts.tokens = 3;
  spec.drafts.acceptance = {1, 1, 1};
  ContinuousScheduler scheduler(spec, 1 + 100);
  scheduler.add(0, request(10, 9));
  BOOST_TEST(text(step(scheduler)) == "0:10");
  // Eleven tokens are known; of the next one and three drafts, so many are right.
  std::uint64_t known = 11, computed = 10;
  for (const std::uint32_t right : {4u, 1u, 2u}) {
    ScheduledBatch batch = scheduler.compose();
    BOOST_TEST_REQUIRE(batch.items.size() == 1u);
    ScheduledBatch::Item& item = batch.items.front();
    BOOST_TEST(
        (item.is_decode && item.start == computed && item.tokens == 4 && item.drafts == 3 && item.produces == 4));
    BOOST_TEST(!scheduler.may_compose());
    item.produces = right;
    const bool is_last = (known += right) == 19;
    computed = known - 1;
    BOOST_TEST(scheduler.complete(batch).empty() == !is_last);
    BOOST_TEST(scheduler.memory().held() <= (computed + 4 + 1) / 2 + 1);
  }
  BOOST_TEST(known == 18u);
  run_to_end(scheduler);
  BOOST_TEST(scheduler.memory().held() == 0u);
}

// 20 blocks; requests of 32 + 300 tokens whose KV is here: two blocks each at first.
BOOST_AUTO_TEST_CASE(a_head_that_waits_names_its_need_and_the_holders) {
  SchedulerSpec spec;
  spec.max_seqs = 1;
  ContinuousScheduler scheduler(spec, 1 + 20);
  for (const std::uint32_t r : {0u, 1u, 2u}) scheduler.add(r, request(32, 250), {}, RequestPart::answer);
  BOOST_TEST(scheduler.compose().reservations.size() == 3u);
  scheduler.arrived(0);
  ScheduledBatch batch;
  while (batch.preempted.empty())
    batch = step(scheduler);  // alone, until it holds the 16 blocks beside those of the others
  BOOST_TEST(
      scheduler.blocked() ==
      "1 requests wait, request 0 first, for 17 blocks: 16 of 20 are free; held by request 1: 2 (its KV is on its "
      "way), request 2: 2 (its KV is on its way)");
  BOOST_TEST(step(scheduler).items.empty());  // until KV arrives
  scheduler.arrived(2);
  BOOST_TEST(text(step(scheduler)) == "2:1");  // passes the head
  scheduler.arrived(1);
  run_to_end(scheduler);
}
