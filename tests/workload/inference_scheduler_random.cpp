// The continuous-batching scheduler on thousands of random traces and settings: each step equals that of a reference
// written from the published rules, and what must hold under all settings holds.
#define BOOST_TEST_MODULE inference_scheduler_random
#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "base/units.h"
#include "tests/workload/reference_scheduler.h"

using namespace railyard;
using namespace railyard::workload::inference;
using test::ReferenceScheduler;

namespace {

struct Arrival {
  std::uint32_t step = 0;
  Request request;
  PromptContent content;
};

/// Random requests for a random machine, small so that slots, budget and blocks are all short at times.
struct Case {
  explicit Case(std::uint32_t seed) : random(seed) {
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
std::uint32_t run(Case& c, Scheduler& scheduler, Observer& observer) {
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
      observer.on_completion(scheduler.complete(in_flight.front()));
      in_flight.pop_front();
      moved = true;
    }
    if (!moved && in_flight.empty()) return 0;
  }
}

/// The reference, run beside the scheduler.
class Beside {
 public:
  Beside(const Case& c, const Scheduler& scheduler)
      : case_(c), scheduler_(scheduler), reference_(c.spec, c.blocks) {}

  void on_arrival(std::uint32_t number) {
    reference_.add(number, case_.arrivals[number].request, case_.arrivals[number].content);
  }
  void on_batch(const ScheduledBatch& batch) {
    const ReferenceScheduler::Step step = reference_.step();
    std::vector<ReferenceScheduler::Item> items;
    for (const ScheduledBatch::Item& i : batch.items) items.push_back({i.request, i.tokens, i.start, i.samples});
    BOOST_TEST_REQUIRE(items == step.items, boost::test_tools::per_element());
    BOOST_TEST_REQUIRE(batch.preempted == step.preempted, boost::test_tools::per_element());
    BOOST_TEST_REQUIRE(scheduler_.running() == reference_.running());
    BOOST_TEST_REQUIRE(scheduler_.pool().free() == reference_.free());
    if (!step.items.empty()) in_flight_.push_back(step);
  }
  void on_completion(const std::vector<std::uint32_t>& finished) {
    BOOST_TEST_REQUIRE(finished == reference_.complete(in_flight_.front()), boost::test_tools::per_element());
    BOOST_TEST_REQUIRE(scheduler_.pool().free() == reference_.free());
    in_flight_.pop_front();
  }

 private:
  const Case& case_;
  const Scheduler& scheduler_;
  ReferenceScheduler reference_;
  std::deque<ReferenceScheduler::Step> in_flight_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(each_step_equals_the_reference) {
  for (std::uint32_t seed = 0; seed < 4000; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    Case c(seed);
    Scheduler scheduler(c.spec, c.blocks);
    Beside beside(c, scheduler);
    BOOST_TEST_REQUIRE(run(c, scheduler, beside) > 0u);
  }
}
