// The continuous-batching scheduler in cases with a closed form: chunks, slots, blocks and prefixes.
#define BOOST_TEST_MODULE inference_scheduler
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/units.h"
#include "tests/support/scheduling.h"
#include "workload/inference/scheduler/trtllm_scheduler.h"

using namespace railyard;
using namespace railyard::workload::inference;
using test::request;
using test::run_to_end;
using test::step;
using test::text;

namespace {

/// The ids of a prompt: `shared` ids that all prompts have, then ids of its own.
RequestContent content(std::uint32_t block_tokens, std::size_t ids, std::size_t shared, std::uint64_t own) {
  RequestContent c{block_tokens, std::vector<std::uint64_t>(ids, 1'000'000 + own), {}};
  std::fill_n(c.ids.begin(), shared, 7);
  return c;
}

/// Tokens that a request finds in the prefix index when it starts, alone.
std::uint64_t hit_tokens(ContinuousScheduler& scheduler, std::uint32_t number, const Request& r,
                         const RequestContent& c) {
  scheduler.add(number, r, c);
  const std::uint64_t hit = scheduler.compose().items.back().start;
  BOOST_TEST(scheduler.counts(number).cached_tokens == hit);
  return hit;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_chunk_is_the_budget_without_the_decodes) {
  SchedulerSpec spec;
  spec.max_batched_tokens = 100;
  ContinuousScheduler scheduler(spec, 1000);
  for (std::uint32_t r = 0; r < 5; ++r) scheduler.add(r, request(10, 50));
  step(scheduler);
  scheduler.add(5, request(300, 2));
  for (const char* chunk : {"5:95", "5:95", "5:95", "5:15", "5:1"})
    BOOST_TEST(text(step(scheduler)) == std::string("0:1 1:1 2:1 3:1 4:1 ") + chunk);
  BOOST_TEST(text(step(scheduler)) == "0:1 1:1 2:1 3:1 4:1");  // the answer of two tokens is known
}

BOOST_AUTO_TEST_CASE(a_long_prompt_leaves_budget_to_the_next_below_its_threshold) {
  SchedulerSpec spec;
  spec.max_batched_tokens = 130;
  spec.long_prefill_threshold_tokens = 100;
  ContinuousScheduler scheduler(spec, 1000);
  scheduler.add(0, request(250, 10));
  scheduler.add(1, request(70, 10));
  BOOST_TEST(text(step(scheduler)) == "0:100 1:30");
  BOOST_TEST(text(step(scheduler)) == "0:100 1:30");
  BOOST_TEST(text(step(scheduler)) == "0:50 1:10");
}

BOOST_AUTO_TEST_CASE(without_chunks_a_prompt_waits_for_a_budget_that_holds_it) {
  SchedulerSpec spec;
  spec.max_batched_tokens = 100;
  spec.chunked_prefill = false;
  ContinuousScheduler scheduler(spec, 1000);
  scheduler.add(0, request(60, 10));
  scheduler.add(1, request(50, 10));
  scheduler.add(2, request(10, 10));
  BOOST_TEST(text(step(scheduler)) == "0:60");  // the third one fits, but does not pass the second one
  BOOST_TEST((scheduler.left().refusal == Refusal::budget));
  BOOST_TEST(scheduler.left().first == 1u);
  BOOST_TEST(text(step(scheduler)) == "0:1 1:50 2:10");
  BOOST_TEST((scheduler.left().refusal == Refusal::none));
}

BOOST_AUTO_TEST_CASE(slots_limit_the_running_requests) {
  SchedulerSpec spec;
  spec.max_seqs = 2;
  ContinuousScheduler scheduler(spec, 1000);
  for (std::uint32_t r = 0; r < 3; ++r) scheduler.add(r, request(10, 1 + r));
  BOOST_TEST(text(step(scheduler)) == "0:10 1:10");
  BOOST_TEST((scheduler.left().refusal == Refusal::slots));
  BOOST_TEST(text(step(scheduler)) == "1:1 2:10");
}

BOOST_AUTO_TEST_CASE(a_batch_is_not_the_next_one_until_its_token_is_known) {
  for (const bool placeholders : {false, true}) {
    SchedulerSpec spec;
    spec.placeholders = placeholders;
    ContinuousScheduler scheduler(spec, 1000);
    scheduler.add(0, request(20, 3));
    const ScheduledBatch first = scheduler.compose(), second = scheduler.compose(), third = scheduler.compose();
    BOOST_TEST(text(first) == "0:20");
    BOOST_TEST(text(second) == (placeholders ? "0:1" : ""));
    BOOST_TEST(text(third) == (placeholders ? "0:1" : ""));
    BOOST_TEST(text(scheduler.compose()) == "");  // nothing follows the last token
    scheduler.complete(first);
    BOOST_TEST(text(scheduler.compose()) == (placeholders ? "" : "0:1"));
  }
}

BOOST_AUTO_TEST_CASE(chunks_of_a_prompt_are_in_several_batches_in_flight) {
  SchedulerSpec spec;
  spec.max_batched_tokens = 8;
  spec.max_seqs = 8;
  ContinuousScheduler scheduler(spec, 1000);
  scheduler.add(0, request(20, 3));
  const ScheduledBatch first = scheduler.compose(), second = scheduler.compose(), third = scheduler.compose();
  BOOST_TEST((text(first) == "0:8" && text(second) == "0:8" && text(third) == "0:4"));
  BOOST_TEST((first.items[0].produces == 0 && second.items[0].produces == 0 && third.items[0].produces == 1));
}

BOOST_AUTO_TEST_CASE(of_two_that_outgrow_the_pool_the_later_one_is_preempted) {
  struct Sizes {
    std::uint32_t prompt, answer, blocks;
  };
  for (const Sizes& z : {Sizes{40, 60, 10}, {40, 60, 9}, {33, 100, 12}, {16, 50, 5}, {17, 50, 6}, {48, 30, 8}}) {
    BOOST_TEST_INFO_SCOPE(z.prompt << " + " << z.answer << " tokens, " << z.blocks << " blocks");
    ContinuousScheduler scheduler({}, z.blocks + 1);
    for (std::uint32_t r : {0, 1}) scheduler.add(r, request(z.prompt, z.answer));
    step(scheduler);
    for (std::uint32_t k = 1;; ++k) {  // tokens of each answer that are known
      const ScheduledBatch batch = step(scheduler);
      if (2 * ceil_div(z.prompt + k, 16) <= z.blocks) {
        BOOST_TEST_REQUIRE(text(batch) == "0:1 1:1");
        continue;
      }
      BOOST_TEST(text(batch) == "0:1");
      BOOST_TEST(batch.preempted == std::vector<std::uint32_t>{1}, boost::test_tools::per_element());
      // The later one returns when the first one, which takes the last of its blocks, is finished.
      const std::uint32_t lost = ceil_div(z.prompt + z.answer - 1, 16) - (z.blocks - (z.prompt + k - 1) / 16);
      const std::uint32_t found = 16 * ((z.prompt + k - 1) / 16 - lost);
      for (std::uint32_t rest = z.answer - k - 1; rest > 0; --rest) BOOST_TEST_REQUIRE(text(step(scheduler)) == "0:1");
      const ScheduledBatch back = scheduler.compose();
      BOOST_TEST(text(back) == "1:" + std::to_string(z.prompt + k - found));
      BOOST_TEST(back.items[0].start == found);
      BOOST_TEST(scheduler.counts(1).preemptions == 1u);
      BOOST_TEST(scheduler.counts(1).recomputed_tokens == z.prompt + k - 1 - found);  // the last token is new
      BOOST_TEST(scheduler.counts(1).cached_tokens == 0u);
      scheduler.complete(back);
      run_to_end(scheduler);
      break;
    }
  }
}

BOOST_AUTO_TEST_CASE(only_whole_answers_start_with_full_output) {
  struct Sizes {
    std::uint32_t prompt, answer, blocks;
  };
  for (const Sizes& z : {Sizes{100, 60, 100}, {100, 61, 100}, {1, 15, 7}, {1, 16, 7}, {300, 20, 61}, {300, 20, 60}}) {
    SchedulerSpec spec;  // TensorRT-LLM's GUARANTEED_NO_EVICT
    spec.reserve = Reserve::full_output;
    TrtllmScheduler scheduler(spec, z.blocks + 1);
    for (std::uint32_t r = 0; r < 40; ++r) scheduler.add(r, request(z.prompt, z.answer));
    const std::size_t most = z.blocks / ceil_div(z.prompt + z.answer, 16);
    for (std::uint32_t steps = 0; !scheduler.empty(); ++steps) {
      BOOST_TEST_REQUIRE(step(scheduler).preempted.empty());
      if (steps < z.answer - 1) BOOST_TEST_REQUIRE(scheduler.running() == most);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_same_prompt_is_found_but_for_its_last_token) {
  for (const std::uint32_t prompt : {1, 15, 16, 17, 63, 64, 65, 512, 1000}) {
    const std::uint64_t expected = (prompt - 1) / 16 * 16;
    BOOST_TEST_INFO_SCOPE("prompt " << prompt);
    ContinuousScheduler scheduler({}, 1000);
    const RequestContent same = content(1, prompt, prompt, 0);
    BOOST_TEST(hit_tokens(scheduler, 0, request(prompt, 1), same) == 0u);
    BOOST_TEST(hit_tokens(scheduler, 1, request(prompt, 1), same) == expected);  // while the first one runs
    ContinuousScheduler later({}, 1000);
    later.add(0, request(prompt, 3), same);
    run_to_end(later);
    BOOST_TEST(later.memory().held() == 0u);
    BOOST_TEST(hit_tokens(later, 1, request(prompt, 1), same) == expected);  // after it has finished
  }
}

BOOST_AUTO_TEST_CASE(prompts_share_the_blocks_whose_ids_are_equal) {
  struct Share {
    std::uint32_t grain;
    std::size_t ids, shared;
    std::uint64_t hit;
  };
  for (const Share& s : {Share{1, 2000, 37, 32},
                         {1, 2000, 48, 48},
                         {16, 125, 5, 80},
                         {512, 4, 1, 512},
                         {512, 4, 3, 1536},
                         {40, 50, 1, 32},
                         {40, 50, 2, 80},
                         {0, 0, 0, 0}}) {
    BOOST_TEST_INFO_SCOPE("ids of " << s.grain << " tokens, " << s.shared << " shared");
    ContinuousScheduler scheduler({}, 1000);
    BOOST_TEST(hit_tokens(scheduler, 0, request(2000, 2), content(s.grain, s.ids, s.shared, 1)) == 0u);
    BOOST_TEST(hit_tokens(scheduler, 1, request(2000, 2), content(s.grain, s.ids, s.shared, 2)) == s.hit);
  }
}

BOOST_AUTO_TEST_CASE(an_answer_is_not_part_of_an_id_of_the_prompt) {
  // The second id of 512 tokens stands for 8 tokens of this prompt; the block after token 512 holds answer tokens, too.
  ContinuousScheduler scheduler({}, 1000);
  scheduler.add(0, request(520, 40), content(512, 2, 2, 0));
  run_to_end(scheduler);
  BOOST_TEST(hit_tokens(scheduler, 1, request(1024, 1), content(512, 2, 2, 0)) == 512u);
}

BOOST_AUTO_TEST_CASE(the_next_turn_finds_prompt_and_answer) {
  // 64 + 64 tokens, of which 127 are computed: seven full blocks. The next turn begins with the same 128 tokens.
  for (const std::size_t known : {128, 64}) {
    ContinuousScheduler scheduler(SchedulerSpec(), 1000);
    scheduler.add(0, request(64, 64), content(1, known, known, 0));
    run_to_end(scheduler);
    BOOST_TEST(hit_tokens(scheduler, 1, request(138, 1), content(1, 138, 128, 1)) == (known == 128 ? 112u : 64u));
  }
}

BOOST_AUTO_TEST_CASE(without_prefix_caching_nothing_is_found) {
  SchedulerSpec spec;
  spec.prefix_caching = false;
  ContinuousScheduler scheduler(spec, 1000);
  const RequestContent same = content(1, 100, 100, 0);
  BOOST_TEST(hit_tokens(scheduler, 0, request(100, 1), same) == 0u);
  BOOST_TEST(hit_tokens(scheduler, 1, request(100, 1), same) == 0u);
}

BOOST_AUTO_TEST_CASE(the_blocks_longest_free_are_overwritten_first_and_the_tail_before_the_head) {
  ContinuousScheduler scheduler({}, 1 + 8);
  const auto of = [](std::uint64_t own) { return content(1, 64, 0, own); };
  scheduler.add(0, request(64, 1), of(1));
  run_to_end(scheduler);
  scheduler.add(1, request(64, 1), of(2));
  run_to_end(scheduler);
  scheduler.add(2, request(32, 1), of(3));  // two blocks: the tail of the first prompt
  run_to_end(scheduler);
  BOOST_TEST(hit_tokens(scheduler, 3, request(64, 1), of(1)) == 32u);  // and takes the tail of the second prompt
  BOOST_TEST(hit_tokens(scheduler, 4, request(64, 1), of(2)) == 32u);
}

BOOST_AUTO_TEST_CASE(the_whole_sequence_must_fit_or_the_chunk) {
  for (const Reserve reserve : {Reserve::sequence, Reserve::chunk}) {
    SchedulerSpec spec;
    spec.max_batched_tokens = 64;
    spec.max_seqs = 8;
    spec.reserve = reserve;
    ContinuousScheduler scheduler(spec, 1 + 10);
    scheduler.add(0, request(16, 20));
    scheduler.add(1, request(160, 1));  // ten blocks; nine are free
    BOOST_TEST(text(step(scheduler)) == (reserve == Reserve::chunk ? "0:16 1:48" : "0:16"));
    if (reserve == Reserve::sequence) BOOST_TEST((scheduler.left().refusal == Refusal::blocks));
  }
}

BOOST_AUTO_TEST_CASE(the_watermark_keeps_blocks_free_beside_running_requests_only) {
  SchedulerSpec spec;
  spec.watermark_ratio = 0.3;  // of 11 blocks: three
  for (const std::uint32_t prompt : {160, 96, 97}) {
    ContinuousScheduler scheduler(spec, 11);
    const bool is_alone = prompt == 160;
    if (!is_alone) scheduler.add(0, request(15, 2));  // one block; nine are left, six of them for the next
    scheduler.add(1, request(prompt, 1));
    const ScheduledBatch batch = step(scheduler);
    BOOST_TEST_INFO_SCOPE("prompt " << prompt);
    BOOST_TEST((batch.items.back().request == 1) == (prompt != 97));
  }
}
