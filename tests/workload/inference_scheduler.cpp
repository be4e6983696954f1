// The continuous-batching scheduler in cases with a closed form: chunks, blocks, prefixes, preemption, and the rules of
// SGLang and TensorRT-LLM.
#define BOOST_TEST_MODULE inference_scheduler
#include "workload/inference/scheduler.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "base/units.h"

using namespace railyard;
using namespace railyard::workload::inference;

namespace {

Request request(std::uint32_t prompt_tokens, std::uint32_t output_tokens, std::uint32_t priority = 0) {
  Request r;
  r.prompt_tokens = prompt_tokens;
  r.output_tokens = output_tokens;
  r.priority = priority;
  return r;
}

/// The ids of a prompt: `shared` ids that all prompts have, then ids of its own.
PromptContent content(std::uint32_t block_tokens, std::size_t ids, std::size_t shared, std::uint64_t own) {
  PromptContent c{block_tokens, std::vector<std::uint64_t>(ids, 1'000'000 + own)};
  std::fill_n(c.ids.begin(), shared, 7);
  return c;
}

/// "request:tokens" of each item, in order.
std::string text(const ScheduledBatch& batch) {
  std::string all;
  for (const ScheduledBatch::Item& item : batch.items)
    all += (all.empty() ? "" : " ") + std::to_string(item.request) + ":" + std::to_string(item.tokens);
  return all;
}

/// One batch in flight at a time.
ScheduledBatch step(Scheduler& scheduler) {
  ScheduledBatch batch = scheduler.compose();
  scheduler.complete(batch);
  return batch;
}

void run_to_end(Scheduler& scheduler) {
  while (!scheduler.empty()) BOOST_TEST_REQUIRE(!step(scheduler).items.empty());
}

/// Tokens that a request finds in the prefix index when it starts, alone.
std::uint64_t hit_tokens(Scheduler& scheduler, std::uint32_t number, const Request& r, const PromptContent& c) {
  scheduler.add(number, r, c);
  const std::uint64_t hit = scheduler.compose().items.back().start;
  BOOST_TEST(scheduler.counts(number).cached_tokens == hit);
  return hit;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_chunk_is_the_budget_without_the_decodes) {
  SchedulerSpec spec;
  spec.max_batched_tokens = 100;
  Scheduler scheduler(spec, 1000);
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
  Scheduler scheduler(spec, 1000);
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
  Scheduler scheduler(spec, 1000);
  scheduler.add(0, request(60, 10));
  scheduler.add(1, request(50, 10));
  scheduler.add(2, request(10, 10));
  BOOST_TEST(text(step(scheduler)) == "0:60");  // the third one fits, but does not pass the second one
  BOOST_TEST((scheduler.refusal() == Refusal::budget));
  BOOST_TEST(scheduler.first_waiting() == 1u);
  BOOST_TEST(text(step(scheduler)) == "0:1 1:50 2:10");
  BOOST_TEST((scheduler.refusal() == Refusal::none));
}

BOOST_AUTO_TEST_CASE(slots_limit_the_running_requests) {
  SchedulerSpec spec;
  spec.max_seqs = 2;
  Scheduler scheduler(spec, 1000);
  for (std::uint32_t r = 0; r < 3; ++r) scheduler.add(r, request(10, 1 + r));
  BOOST_TEST(text(step(scheduler)) == "0:10 1:10");
  BOOST_TEST((scheduler.refusal() == Refusal::slots));
  BOOST_TEST(text(step(scheduler)) == "1:1 2:10");
}

BOOST_AUTO_TEST_CASE(a_batch_is_not_the_next_one_until_its_token_is_known) {
  for (const bool placeholders : {false, true}) {
    SchedulerSpec spec;
    spec.placeholders = placeholders;
    Scheduler scheduler(spec, 1000);
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
  Scheduler scheduler(spec, 1000);
  scheduler.add(0, request(20, 3));
  const ScheduledBatch first = scheduler.compose(), second = scheduler.compose(), third = scheduler.compose();
  BOOST_TEST((text(first) == "0:8" && text(second) == "0:8" && text(third) == "0:4"));
  BOOST_TEST((!first.items[0].samples && !second.items[0].samples && third.items[0].samples));
}

BOOST_AUTO_TEST_CASE(of_two_that_outgrow_the_pool_the_later_one_is_preempted) {
  struct Sizes {
    std::uint32_t prompt, answer, blocks;
  };
  for (const Sizes& z : {Sizes{40, 60, 10}, {40, 60, 9}, {33, 100, 12}, {16, 50, 5}, {17, 50, 6}, {48, 30, 8}}) {
    BOOST_TEST_INFO_SCOPE(z.prompt << " + " << z.answer << " tokens, " << z.blocks << " blocks");
    Scheduler scheduler({}, z.blocks + 1);
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
    spec.preemption = Preemption::never;
    Scheduler scheduler(spec, z.blocks + 1);
    for (std::uint32_t r = 0; r < 40; ++r) scheduler.add(r, request(z.prompt, z.answer));
    const std::size_t most = z.blocks / ceil_div(z.prompt + z.answer, 16);
    for (std::uint32_t steps = 0; !scheduler.empty(); ++steps) {
      BOOST_TEST_REQUIRE(step(scheduler).preempted.empty());
      if (steps < z.answer - 1) BOOST_TEST_REQUIRE(scheduler.running() == most);
    }
  }
}

BOOST_AUTO_TEST_CASE(without_preemption_a_request_waits_for_blocks) {
  SchedulerSpec spec;
  spec.preemption = Preemption::never;
  Scheduler scheduler(spec, 1 + 4);
  scheduler.add(0, request(32, 8));   // two blocks, then three
  scheduler.add(1, request(17, 18));  // two blocks, then three
  BOOST_TEST(text(step(scheduler)) == "0:32 1:17");
  BOOST_TEST(text(step(scheduler)) == "1:1");  // no block for the first one
  while (!step(scheduler).items.empty()) {
  }
  BOOST_TEST(scheduler.running() == 2u);  // they wait for each other
}

BOOST_AUTO_TEST_CASE(the_same_prompt_is_found_but_for_its_last_token) {
  for (const std::uint32_t prompt : {1, 15, 16, 17, 63, 64, 65, 512, 1000}) {
    const std::uint64_t expected = (prompt - 1) / 16 * 16;
    BOOST_TEST_INFO_SCOPE("prompt " << prompt);
    Scheduler scheduler({}, 1000);
    const PromptContent same = content(1, prompt, prompt, 0);
    BOOST_TEST(hit_tokens(scheduler, 0, request(prompt, 1), same) == 0u);
    BOOST_TEST(hit_tokens(scheduler, 1, request(prompt, 1), same) == expected);  // while the first one runs
    Scheduler later({}, 1000);
    later.add(0, request(prompt, 3), same);
    run_to_end(later);
    BOOST_TEST(later.pool().held() == 0u);
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
    Scheduler scheduler({}, 1000);
    BOOST_TEST(hit_tokens(scheduler, 0, request(2000, 2), content(s.grain, s.ids, s.shared, 1)) == 0u);
    BOOST_TEST(hit_tokens(scheduler, 1, request(2000, 2), content(s.grain, s.ids, s.shared, 2)) == s.hit);
  }
}

BOOST_AUTO_TEST_CASE(an_answer_is_not_part_of_an_id_of_the_prompt) {
  // The second id of 512 tokens stands for 8 tokens of this prompt; the block after token 512 holds answer tokens, too.
  Scheduler scheduler({}, 1000);
  scheduler.add(0, request(520, 40), content(512, 2, 2, 0));
  run_to_end(scheduler);
  BOOST_TEST(hit_tokens(scheduler, 1, request(1024, 1), content(512, 2, 2, 0)) == 512u);
}

BOOST_AUTO_TEST_CASE(without_prefix_caching_nothing_is_found) {
  SchedulerSpec spec;
  spec.prefix_caching = false;
  Scheduler scheduler(spec, 1000);
  const PromptContent same = content(1, 100, 100, 0);
  BOOST_TEST(hit_tokens(scheduler, 0, request(100, 1), same) == 0u);
  BOOST_TEST(hit_tokens(scheduler, 1, request(100, 1), same) == 0u);
}

BOOST_AUTO_TEST_CASE(the_blocks_longest_free_are_overwritten_first_and_the_tail_before_the_head) {
  Scheduler scheduler({}, 1 + 8);
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
    Scheduler scheduler(spec, 1 + 10);
    scheduler.add(0, request(16, 20));
    scheduler.add(1, request(160, 1));  // ten blocks; nine are free
    BOOST_TEST(text(step(scheduler)) == (reserve == Reserve::chunk ? "0:16 1:48" : "0:16"));
    if (reserve == Reserve::sequence) BOOST_TEST((scheduler.refusal() == Refusal::blocks));
  }
}

BOOST_AUTO_TEST_CASE(the_watermark_keeps_blocks_free_beside_running_requests_only) {
  SchedulerSpec spec;
  spec.watermark_ratio = 0.3;  // of 11 blocks: three
  for (const std::uint32_t prompt : {160, 96, 97}) {
    Scheduler scheduler(spec, 11);
    const bool is_alone = prompt == 160;
    if (!is_alone) scheduler.add(0, request(15, 2));  // one block; nine are left, six of them for the next
    scheduler.add(1, request(prompt, 1));
    const ScheduledBatch batch = step(scheduler);
    BOOST_TEST_INFO_SCOPE("prompt " << prompt);
    BOOST_TEST((batch.items.back().request == 1) == (prompt != 97));
  }
}

BOOST_AUTO_TEST_CASE(an_urgent_request_starts_first) {
  for (const QueuePolicy policy : {QueuePolicy::fcfs, QueuePolicy::priority}) {
    SchedulerSpec spec;
    spec.policy = policy;
    spec.max_seqs = 1;
    Scheduler scheduler(spec, 1000);
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
  Scheduler scheduler(spec, 1 + 12);
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
  Scheduler scheduler(spec, 1 + 14);
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
  Scheduler scheduler(spec, 1 + 4);
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
  Scheduler scheduler(spec, 1000);
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
    Scheduler scheduler(spec, z.tokens + 1);
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

BOOST_AUTO_TEST_CASE(an_idle_sglang_expects_the_first_share_again) {
  SchedulerSpec spec;
  spec.mix = BatchMix::prefill_first;
  spec.reserve = Reserve::expected_output;
  spec.prefix_caching = false;
  spec.block_tokens = 1;
  for (const std::uint32_t more : {0, 1}) {
    Scheduler scheduler(spec, 1 + 5000);
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
struct Memory : WholeSequences {
  std::uint32_t blocks(std::uint64_t tokens) const override { return static_cast<std::uint32_t>(tokens); }
  void on_held(std::uint64_t tokens) override { held += tokens; }
  void on_freed(std::uint64_t tokens) override { held -= tokens; }
  std::uint64_t held = 0;
};

SchedulerSpec whole_sequences() {
  SchedulerSpec spec;
  spec.reserve = Reserve::ahead;
  spec.preemption = Preemption::never;
  spec.prefix_caching = false;
  return spec;
}

/// Numbers of the requests that take memory.
std::vector<std::uint32_t> reserved(Scheduler& scheduler) {
  std::vector<std::uint32_t> numbers;
  for (const Reservation& r : scheduler.reserve()) numbers.push_back(r.request);
  return numbers;
}

}  // namespace

BOOST_AUTO_TEST_CASE(whole_prompts_take_memory_in_turn_and_keep_it_until_they_are_read) {
  SchedulerSpec spec = whole_sequences();
  spec.max_batched_tokens = 100;
  spec.prompts_in_turn = true;
  Memory memory;
  Scheduler scheduler(spec, 1 + 500, &memory);
  for (std::uint32_t r = 0; r < 4; ++r) scheduler.add(r, request(r == 1 ? 150 : 250, 9), {}, RequestPart::prompt);
  BOOST_TEST((reserved(scheduler) == std::vector<std::uint32_t>{0, 1}));  // request 3 would fit, but not before 2
  BOOST_TEST(memory.held == 400u);
  BOOST_TEST(scheduler.pool().free() == 100u);
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
  BOOST_TEST(scheduler.pool().free() == 500u);
}

BOOST_AUTO_TEST_CASE(an_eager_scheduler_composes_when_the_last_batch_begins) {
  SchedulerSpec spec = whole_sequences();
  spec.max_batched_tokens = 100;
  spec.is_eager = true;
  Memory memory;
  Scheduler scheduler(spec, 1 + 1000, &memory);
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
  SchedulerSpec spec = whole_sequences();
  spec.groups = 2;
  spec.max_batched_tokens = spec.max_seqs = 3;
  Memory memory;
  Scheduler scheduler(spec, 1 + 1000, &memory);
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
