// What the load of a run is worth: growth of a queue below and above its capacity, and the middle of a run.
#include "sc_main/kinds/serving_load.h"

#include <cmath>

#include "base/random.h"
#include "tests/support/systemc_main.h"

using namespace railyard;

namespace {

constexpr double kService = 0.1;  // seconds

/// A queue with one server and equal service times: Poisson arrivals, or equal intervals.
std::vector<RequestSpan> queue(double load, std::uint32_t requests, std::uint64_t seed, bool is_poisson = true) {
  Random random(seed, 0);
  std::vector<RequestSpan> spans;
  double arrival = 0, free = 0;
  for (std::uint32_t i = 0; i < requests; ++i) {
    arrival += kService / load * (is_poisson ? random.exponential() : 1);
    free = std::max(free, arrival) + kService;
    spans.emplace_back(Time::seconds(arrival), Time::seconds(free));
  }
  return spans;
}

double share_of_growing(double load, std::uint32_t requests) {
  constexpr std::uint32_t kRuns = 1000;
  std::uint32_t growing = 0;
  for (std::uint32_t seed = 0; seed < kRuns; ++seed)
    if (load_growth(queue(load, requests, seed))->is_certain) ++growing;
  return static_cast<double>(growing) / kRuns;
}

}  // namespace

BOOST_AUTO_TEST_CASE(below_its_capacity_a_queue_does_not_grow) {
  for (const double load : {0.1, 0.5, 0.8, 0.9, 0.99}) {
    BOOST_TEST_INFO_SCOPE(load);
    // At a load of 1 it is a random walk that cannot fall below zero: up to twice the 1 % of the test.
    for (const std::uint32_t requests : {20, 100, 1000}) BOOST_TEST(share_of_growing(load, requests) < 0.02);
  }
}

BOOST_AUTO_TEST_CASE(above_its_capacity_a_queue_grows_by_the_difference) {
  for (const double load : {1.25, 1.5, 3.0}) {
    BOOST_TEST_INFO_SCOPE(load);
    const LoadGrowth even = *load_growth(queue(load, 2000, 0, false));
    BOOST_TEST(even.is_certain);
    BOOST_TEST(even.per_s == (load - 1) / kService, boost::test_tools::tolerance(0.01));
    double within = 0;
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
      const LoadGrowth growth = *load_growth(queue(load, 2000, seed));
      BOOST_TEST(growth.is_certain);
      within += std::abs(growth.per_s - (load - 1) / kService) < 2.26 * growth.error_per_s ? 1 : 0;
    }
    BOOST_TEST(within / 200 > 0.9);  // 95 % by Student's t
  }
}

BOOST_AUTO_TEST_CASE(a_fixed_number_of_requests_does_not_grow) {
  // Eight at once, and another one when one ends; all at once have no arrivals' time.
  std::vector<RequestSpan> loop, batch;
  for (std::uint64_t i = 0; i < 400; ++i) {
    loop.emplace_back(Time::ms(i / 8 * 100), Time::ms(i / 8 * 100 + 100));
    batch.emplace_back(Time::ms(5), Time::ms(10 + i));
  }
  BOOST_TEST(!load_growth(loop)->is_certain);
  BOOST_TEST(!load_growth(batch).has_value());
  BOOST_TEST(!load_growth({}).has_value());
}

BOOST_AUTO_TEST_CASE(bins_keep_all_work_and_find_the_rate_of_any_part) {
  Random random(1, 0);
  WorkBins bins;
  constexpr std::uint64_t kEvents = 100'000;
  // One token each 3 us on average in the first half, twice as many in the second half; not in the order of time.
  std::uint64_t late = 0;
  for (std::uint64_t i = 0; i < kEvents; ++i) {
    const bool is_late = random.below(3) > 0;
    late += is_late ? 1 : 0;
    bins.add(Time::ns(random.below(100'000'000) + (is_late ? 100'000'000 : 0)), {1, 10, 2});
  }
  const WorkBins::Span all = bins.between({}, Time::ms(201)), half = bins.between(Time::ms(100), Time::ms(200)),
                       middle = bins.between(Time::ms(50), Time::ms(150));
  BOOST_TEST(all.work.requests == kEvents);
  BOOST_TEST(all.work.prompt_tokens == 10 * kEvents);
  BOOST_TEST(all.work.output_tokens == 2 * kEvents);
  BOOST_TEST(static_cast<double>(half.work.requests) / half.seconds == late / 0.1, boost::test_tools::tolerance(0.001));
  BOOST_TEST(static_cast<double>(middle.work.requests) / middle.seconds == kEvents / 0.2,
             boost::test_tools::tolerance(0.02));
}
