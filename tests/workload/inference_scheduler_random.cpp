// The continuous-batching scheduler on thousands of random traces and settings: each step equals that of a reference
// written from the published rules, and what must hold under all settings holds.
#define BOOST_TEST_MODULE inference_scheduler_random
#include <boost/test/unit_test.hpp>
#include <deque>
#include <random>
#include <set>
#include <sstream>

#include "base/units.h"
#include "tests/workload/reference_scheduler.h"
#include "workload/inference/scheduler/paged_strategies.h"

using namespace railyard;
using namespace railyard::workload::inference;
using test::ReferenceScheduler;

namespace {

struct Arrival {
  std::uint32_t step = 0;
  Request request;
  RequestContent content;
};

/// What the reference knows, or everything.
enum class Settings { reference, all };

/// Random requests for a random machine, small so that slots, budget and blocks are all short at times.
struct Case {
  Case(std::uint32_t seed, Settings settings) : random(seed) {
    constexpr std::uint32_t kBlockTokens[] = {1, 4, 16};
    spec.block_tokens = kBlockTokens[random() % 3];
    spec.policy = one_in(3) ? QueuePolicy::priority : QueuePolicy::fcfs;
    spec.reserve = one_in(2) ? Reserve::chunk : Reserve::sequence;
    spec.max_batched_tokens = between(8, 80);
    spec.max_seqs = between(1, 8);
    spec.long_prefill_threshold_tokens = one_in(3) ? between(1, 40) : 0;
    spec.chunked_prefill = !one_in(4);
    spec.watermark_ratio = one_in(4) ? 0.1 : 0;
    spec.prefix_caching = !one_in(4);
    spec.max_in_flight = between(1, 4);
    spec.placeholders = one_in(2);
    if (one_in(2)) {
      spec.drafts.tokens = between(1, 5);
      spec.drafts.acceptance = acceptance_of_ratio(0.25 * between(0, 3), spec.drafts.tokens);
      spec.drafts.lookahead = one_in(2) ? spec.drafts.tokens : 0;
      spec.drafts.drops_last_hit = one_in(2);
      spec.drafts.frees_rejected = settings == Settings::all && one_in(2);
    }
    // Placeholders are for one batch that is composed ahead.
    if (spec.placeholders && spec.drafts.tokens > 0) spec.max_in_flight = std::min(spec.max_in_flight, 2u);
    if (settings == Settings::all) {
      if (one_in(2)) spec.mix = BatchMix::prefill_first;
      if (one_in(4)) spec.reserve = Reserve::full_output;
      if (spec.mix == BatchMix::prefill_first && one_in(2)) spec.reserve = Reserve::expected_output;
      if (spec.reserve == Reserve::full_output && one_in(2)) spec.preemption = Preemption::never;
      if (spec.reserve == Reserve::full_output) spec.mix = BatchMix::mixed;
    }
    // Without chunks, a preempted request must fit into one batch with its answer.
    const std::uint32_t most = spec.chunked_prefill ? 100 : spec.max_batched_tokens;
    const std::uint32_t grain = one_in(3) ? 0 : (one_in(2) ? 1 : between(2, 40));
    std::uint64_t longest = 0;
    for (std::uint32_t r = between(1, 24); r > 0; --r) {
      Arrival a;
      a.step = one_in(2) ? 0 : between(0, 60);
      a.request.prompt_tokens = between(1, most - 1);
      a.request.output_tokens = between(1, std::min(40u, most - a.request.prompt_tokens));
      a.request.priority = static_cast<std::int32_t>(random() % 3);
      a.content.block_tokens = grain;
      // Prompts of a group share all ids up to a point; ids may end before the prompt, or after it.
      const std::uint64_t group = random() % 3, shared = between(0, 100);
      for (std::uint64_t i = 0; grain != 0 && i * grain < between(1, 110); ++i)
        a.content.ids.push_back(i * grain < shared ? group * 1000 + i : random());
      longest = std::max(longest, tokens_of(a));
      arrivals.push_back(std::move(a));
    }
    std::stable_sort(arrivals.begin(), arrivals.end(),
                     [](const Arrival& a, const Arrival& b) { return a.step < b.step; });
    if (one_in(4)) spec.max_model_len = static_cast<std::uint32_t>(longest) + between(0, 4);
    longest = spec.most_slots(longest);
    blocks = static_cast<std::uint32_t>(ceil_div(longest, spec.block_tokens)) + 1 + between(0, one_in(2) ? 3 : 40);
  }
  static std::uint64_t tokens_of(const Arrival& a) { return a.request.prompt_tokens + a.request.output_tokens; }
  bool one_in(std::uint32_t n) { return random() % n == 0; }
  std::uint32_t between(std::uint32_t least, std::uint32_t most) {
    return least + static_cast<std::uint32_t>(random() % (most - least + 1));
  }

  std::mt19937 random;
  SchedulerSpec spec;
  std::uint32_t blocks = 0;
  std::vector<Arrival> arrivals;
};

/// Runs a case to its end. `observer` sees each arrival, each composed batch (empty ones, too) and each completion.
/// @return steps, or 0 if nothing moved any more
template <typename Observer>
std::uint32_t run(Case& c, PagedScheduler& scheduler, Observer& observer) {
  std::deque<ScheduledBatch> in_flight;
  std::size_t arrived = 0;
  for (std::uint32_t step = 0;; ++step) {
    for (; arrived < c.arrivals.size() && c.arrivals[arrived].step <= step; ++arrived) {
      const Arrival& a = c.arrivals[arrived];
      scheduler.add(static_cast<std::uint32_t>(arrived), a.request, a.content);
      observer.on_arrival(static_cast<std::uint32_t>(arrived));
    }
    if (arrived == c.arrivals.size() && scheduler.empty() && in_flight.empty()) return step;
    bool moved = arrived < c.arrivals.size();
    if (in_flight.size() < c.spec.max_in_flight) {
      ScheduledBatch batch = scheduler.compose();
      observer.on_batch(batch);
      moved = moved || !batch.preempted.empty();
      if (!batch.items.empty()) in_flight.push_back(std::move(batch));
    }
    // Batches complete at any time, at the latest when no more may be composed.
    if (in_flight.size() == c.spec.max_in_flight || (!in_flight.empty() && c.one_in(2))) {
      scheduler.verify(in_flight.front());
      observer.on_completion(in_flight.front(), scheduler.complete(in_flight.front()));
      in_flight.pop_front();
      moved = true;
    }
    if (!moved && in_flight.empty()) return 0;
  }
}

/// The reference, run beside the scheduler.
class Beside {
 public:
  Beside(const Case& c, const PagedScheduler& scheduler)
      : case_(c), scheduler_(scheduler), reference_(c.spec, c.blocks) {}

  void on_arrival(std::uint32_t number) {
    reference_.add(number, case_.arrivals[number].request, case_.arrivals[number].content);
  }
  void on_batch(const ScheduledBatch& batch) {
    const ReferenceScheduler::Step step = reference_.step();
    std::vector<ReferenceScheduler::Item> items;
    for (const ScheduledBatch::Item& i : batch.items) items.push_back({i.request, i.tokens, i.start, i.produces});
    BOOST_TEST_REQUIRE(items == step.items, boost::test_tools::per_element());
    BOOST_TEST_REQUIRE(batch.preempted == step.preempted, boost::test_tools::per_element());
    BOOST_TEST_REQUIRE(scheduler_.running() == reference_.running());
    BOOST_TEST_REQUIRE(scheduler_.memory().free == reference_.free());
    preemptions_ += step.preempted.size();
    if (!step.items.empty()) in_flight_.push_back(step);
  }
  void on_completion(const ScheduledBatch& batch, const std::vector<std::uint32_t>& finished) {
    std::vector<std::uint32_t> right;
    for (const ScheduledBatch::Item& i : batch.items) right.push_back(i.right);
    BOOST_TEST_REQUIRE(finished == reference_.complete(in_flight_.front(), right), boost::test_tools::per_element());
    BOOST_TEST_REQUIRE(scheduler_.memory().free == reference_.free());
    in_flight_.pop_front();
  }

  std::size_t preemptions() const { return preemptions_; }

 private:
  const Case& case_;
  const PagedScheduler& scheduler_;
  ReferenceScheduler reference_;
  std::deque<ReferenceScheduler::Step> in_flight_;
  std::size_t preemptions_ = 0;
};

/// As BOOST_TEST_REQUIRE, which is too slow for millions of checks.
void must(bool holds, const char* what) {
  if (!holds) BOOST_FAIL(what);
}

/// What must hold for all settings, from the batches alone.
class Watch {
 public:
  Watch(const Case& c, const PagedScheduler& scheduler) : case_(c), scheduler_(scheduler), states_(c.arrivals.size()) {}

  void on_arrival(std::uint32_t number) { states_[number].known = request(number).prompt_tokens; }

  void on_batch(const ScheduledBatch& batch) {
    const SchedulerSpec& spec = case_.spec;
    if (spec.reserve == Reserve::full_output)
      must(batch.preempted.empty(), "nobody is preempted if whole answers are reserved");
    for (const std::uint32_t number : batch.preempted) {
      State& s = states_[number];
      ++s.preemptions;
      s.is_running = false;
      s.furthest = std::max(s.furthest, std::min(s.computed, s.known));
      s.computed = s.reserved = 0;
    }
    bool has_decode = false, has_prompt = false;
    std::set<std::uint32_t> once;
    std::uint32_t tokens = 0;
    for (const ScheduledBatch::Item& item : batch.items) {
      State& s = states_[item.request];
      const std::uint64_t end = item.start + item.tokens;
      must(once.insert(item.request).second, "a request is once in a batch");
      must(item.tokens > 0, "an item has tokens");
      must(item.is_first == !s.has_started, "is_first");
      if (s.is_running) {
        must(item.start == s.computed, "a running request goes on where it was");
      } else {
        must(item.start % spec.block_tokens == 0, "whole blocks are found");
        must(spec.prefix_caching || item.start == 0, "nothing is found without prefix caching");
        s.prefill = s.known;
      }
      if (item.is_first) {
        must(spec.policy != QueuePolicy::fcfs || item.request == started_++, "first come, first served");
        s.cached = item.start;
      }
      must(end <= s.known + (spec.placeholders ? s.in_flight : 0) + item.drafts, "tokens are known, or drafts");
      must(item.drafts <= spec.drafts.tokens, "drafts");
      // Only drafts are computed at the answer's end or after it: this step's, or those that a batch in flight may find wrong.
      must(end < s.all(request(item.request)) + item.drafts + (spec.placeholders ? spec.drafts.tokens : 0),
           "the last token's KV is not computed");
      must(spec.max_model_len == 0 || end < spec.max_model_len, "the longest sequence");
      must(item.produces == (end < s.known + s.in_flight ? 0u : 1 + item.drafts), "produces");
      must(item.is_decode == (item.tokens == 1 + item.drafts && item.start >= request(item.request).prompt_tokens),
           "is_decode");
      s.lives.push_back(s.preemptions);
      (item.start < s.prefill ? has_prompt : has_decode) = true;
      s.recomputed += std::min(s.furthest, end) - std::min(s.furthest, item.start);
      s.has_started = s.is_running = true;
      s.computed = end;
      s.reserved = std::max(s.reserved, end + spec.drafts.lookahead);
      s.in_flight += item.produces;
      tokens += item.tokens;
    }
    must(tokens == batch.tokens(), "tokens()");
    must(spec.mix == BatchMix::mixed || !(has_decode && has_prompt), "with prefill_first no decode beside a prompt");
    // Decodes alone are limited by the slots. A preempted request may have got a token of each batch in flight meanwhile.
    const std::uint32_t of_decode = std::max(1 + spec.drafts.tokens, spec.max_in_flight);
    const bool only_decodes = spec.mix == BatchMix::prefill_first && has_decode;
    must(tokens <= (only_decodes ? spec.max_seqs * of_decode : spec.max_batched_tokens), "budget");
    check();
  }

  void on_completion(const ScheduledBatch& batch, const std::vector<std::uint32_t>& finished) {
    std::vector<std::uint32_t> expected;
    for (const ScheduledBatch::Item& item : batch.items) {
      State& s = states_[item.request];
      const std::uint32_t life = s.lives.front();
      s.lives.pop_front();
      if (item.produces == 0) continue;
      s.in_flight -= 1 + item.drafts;
      s.known += item.produces;
      must(item.right <= item.drafts && item.produces <= 1 + item.right, "no more than right");
      must(item.produces == 1 + item.right || s.known == s.all(request(item.request)), "all that is right, or the end");
      if (s.is_running && life == s.preemptions) s.computed -= 1 + item.drafts - item.produces;
      must(s.known <= s.all(request(item.request)), "no more than asked for");
      if (s.known != s.all(request(item.request))) continue;
      expected.push_back(item.request);
      s.is_running = false;
    }
    must(finished == expected, "a request finishes with its last token");
    check();
  }

  std::uint32_t preemptions() const {
    std::uint32_t sum = 0;
    for (const State& s : states_) sum += s.preemptions;
    return sum;
  }
  void at_end() const {
    for (std::uint32_t r = 0; r < states_.size(); ++r)
      must(states_[r].known == states_[r].all(request(r)), "all finish");
    must(scheduler_.memory().free == case_.blocks - 1, "all blocks are free at the end");
  }

 private:
  struct State {
    std::uint64_t known = 0, computed = 0, in_flight = 0, prefill = 0, furthest = 0, recomputed = 0, cached = 0;
    std::uint64_t reserved = 0;  ///< tokens for which it may have blocks
    std::uint32_t preemptions = 0;
    std::deque<std::uint32_t> lives;  ///< preemptions at each batch in flight
    bool has_started = false, is_running = false;
    static std::uint64_t all(const Request& request) { return request.prompt_tokens + request.output_tokens; }
  };
  const Request& request(std::uint32_t number) const { return case_.arrivals[number].request; }

  void check() const {
    std::uint64_t running = 0, blocks = 0, most_blocks = 0, longest = 0;
    for (std::uint32_t r = 0; r < states_.size(); ++r) {
      const State& s = states_[r];
      if (s.known == 0 || s.known == s.all(request(r))) continue;  // not yet there, or finished
      const Scheduler::Counts counts = scheduler_.counts(r);
      must(counts.preemptions == s.preemptions, "preemptions");
      must(counts.cached_tokens == s.cached, "cached tokens");
      must(counts.recomputed_tokens == s.recomputed, "recomputed tokens");
      if (!s.is_running) continue;
      ++running;
      blocks += ceil_div(s.computed, case_.spec.block_tokens);
      most_blocks += ceil_div(s.reserved, case_.spec.block_tokens);
      longest = std::max<std::uint64_t>(longest, ceil_div(s.computed, case_.spec.block_tokens));
    }
    must(scheduler_.running() == running, "running()");
    must(running <= case_.spec.max_seqs, "slots");
    // Each running request holds the blocks of its tokens; requests share blocks only by the prefix index.
    const BlockPool& pool = scheduler_.store().pool();
    must(pool.free() + pool.held() == case_.blocks - 1, "free and held blocks are all blocks");
    must(pool.held() <= most_blocks, "no block is held by nobody");
    must(pool.held() >= (case_.spec.prefix_caching ? longest : blocks), "blocks are shared by the prefix index only");
  }

  const Case& case_;
  const PagedScheduler& scheduler_;
  std::vector<State> states_;
  std::uint32_t started_ = 0;
};

/// All steps as text.
struct Transcript {
  void on_arrival(std::uint32_t number) { text << "+" << number << "\n"; }
  void on_batch(const ScheduledBatch& batch) {
    for (const ScheduledBatch::Item& i : batch.items) text << i.request << ":" << i.tokens << "@" << i.start << " ";
    for (const std::uint32_t number : batch.preempted) text << "-" << number << " ";
  }
  void on_completion(const ScheduledBatch&, const std::vector<std::uint32_t>& finished) {
    for (const std::uint32_t number : finished) text << "=" << number << " ";
    text << "\n";
  }
  std::ostringstream text;
};

}  // namespace

BOOST_AUTO_TEST_CASE(each_step_equals_the_reference) {
  std::size_t preemptions = 0;
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    Case c(seed, Settings::reference);
    ContinuousScheduler scheduler(c.spec, c.blocks);
    Beside beside(c, scheduler);
    BOOST_TEST_REQUIRE(run(c, scheduler, beside) > 0u);
    preemptions += beside.preemptions();
  }
  BOOST_TEST(preemptions > 2000u);  // the traces are hard enough
}

BOOST_AUTO_TEST_CASE(invariants_hold_under_all_settings) {
  std::uint32_t retracted = 0, preempted_for_prompts = 0;  // cases
  for (std::uint32_t seed = 0; seed < 4000; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    Case c(seed, Settings::all);
    const std::unique_ptr<PagedScheduler> paged = make_paged_scheduler(c.spec, c.blocks);
    PagedScheduler& scheduler = *paged;
    Watch watch(c, scheduler);
    const std::uint32_t steps = run(c, scheduler, watch);
    BOOST_TEST_REQUIRE(steps > 0u);
    watch.at_end();
    // Nobody starves: on average a request waits for less than two steps of each batch in flight to get one token further.
    std::uint64_t tokens = 0;
    for (const Arrival& a : c.arrivals) tokens += Case::tokens_of(a);
    BOOST_TEST_REQUIRE(steps <= c.arrivals.back().step + 2 * c.spec.max_in_flight * tokens);
    retracted += c.spec.reserve == Reserve::expected_output && watch.preemptions() > 0;
    preempted_for_prompts +=
        c.spec.mix == BatchMix::prefill_first && c.spec.reserve == Reserve::sequence && watch.preemptions() > 0;
  }
  BOOST_TEST(retracted > 50u);
  BOOST_TEST(preempted_for_prompts > 50u);
}

BOOST_AUTO_TEST_CASE(the_same_requests_give_the_same_steps) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    std::string text[2];
    for (std::string& t : text) {
      Case c(seed, Settings::all);
      Transcript transcript;
      run(c, *make_paged_scheduler(c.spec, c.blocks), transcript);
      t = transcript.text.str();
    }
    BOOST_TEST(text[0] == text[1]);
  }
}
