// Generated requests: moments of the distributions, stages, closed loops, users, and independent random streams.
// Bounds on statistics are 5 standard errors of the estimate; the seed is fixed.
#define BOOST_TEST_MODULE workload_generator
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "tests/support/taken_requests.h"
#include "workload/inference/requests/request_generator.h"

using namespace railyard;
using namespace railyard::workload::inference;
using railyard::test::Taken;

namespace {

constexpr std::uint64_t kSeed = 7;
constexpr double kStandardErrors = 5;

GeneratorSpec spec_of(std::uint32_t count, ArrivalProcess arrivals, double rate_per_s = 1) {
  GeneratorSpec spec;
  spec.count = count;
  spec.arrivals = arrivals;
  spec.stages = {{rate_per_s, Time::max()}};
  spec.prompt_tokens = UniformTokens{100, 199};
  spec.output_tokens = LognormalTokens{250, 0.68};
  return spec;
}

std::vector<Taken> served(const GeneratorSpec& spec, Time service = Time::ms(1), std::uint64_t seed = kSeed) {
  RequestGenerator source(spec, seed);
  return test::served(source, [=](std::uint32_t) { return service; });
}

/// Mean and standard deviation, with the number of values.
struct Moments {
  double mean = 0, deviation = 0, count = 0;

  explicit Moments(const std::vector<double>& values) : count(static_cast<double>(values.size())) {
    for (const double value : values) mean += value / count;
    for (const double value : values) deviation += (value - mean) * (value - mean) / count;
    deviation = std::sqrt(deviation);
  }
  double cv() const { return deviation / mean; }
  double error_of_mean() const { return kStandardErrors * deviation / std::sqrt(count); }
};

Moments intervals(const std::vector<Taken>& taken) {
  std::vector<double> values;
  Time last;
  for (const Taken& one : taken) {
    values.push_back((one.arrival.request.arrival - last).seconds());
    last = one.arrival.request.arrival;
  }
  return Moments(values);
}

template <class Member>
Moments lengths(const std::vector<Taken>& taken, Member member) {
  std::vector<double> values;
  for (const Taken& one : taken) values.push_back(one.arrival.request.*member);
  return Moments(values);
}

/// Largest number of requests that are in flight together.
std::size_t most_in_flight(const std::vector<Taken>& taken) {
  std::size_t most = 0;
  for (const Taken& at : taken) {
    const Time now = at.arrival.request.arrival;
    most = std::max<std::size_t>(most, std::count_if(taken.begin(), taken.end(), [&](const Taken& other) {
                                   return other.arrival.request.arrival <= now && other.done > now;
                                 }));
  }
  return most;
}

bool same_lengths(const std::vector<Taken>& a, const std::vector<Taken>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Taken& x, const Taken& y) {
    return x.arrival.request.prompt_tokens == y.arrival.request.prompt_tokens &&
           x.arrival.request.output_tokens == y.arrival.request.output_tokens;
  });
}

bool same_arrivals(const std::vector<Taken>& a, const std::vector<Taken>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Taken& x, const Taken& y) {
    return x.arrival.request.arrival == y.arrival.request.arrival;
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(poisson_intervals_are_exponential) {
  const Moments m = intervals(served(spec_of(200'000, ArrivalProcess::poisson, 20)));
  BOOST_TEST(std::abs(m.mean - 1.0 / 20) < m.error_of_mean());
  // The variance of an exponential sample has the relative standard error sqrt(8 / n).
  BOOST_TEST(std::abs(m.cv() * m.cv() - 1) < kStandardErrors * std::sqrt(8 / m.count));
}

BOOST_AUTO_TEST_CASE(poisson_counts_have_their_mean_as_variance) {
  const double rate_per_s = 20, window_s = 1;
  std::map<int, int> counts;
  const auto taken = served(spec_of(200'000, ArrivalProcess::poisson, rate_per_s));
  for (const Taken& one : taken) ++counts[static_cast<int>(one.arrival.request.arrival.seconds() / window_s)];
  std::vector<double> values;
  for (const auto& [window, count] : counts) values.push_back(count);
  const Moments m(values);
  BOOST_TEST(std::abs(m.deviation * m.deviation / m.mean - 1) < kStandardErrors * std::sqrt(2 / m.count));
}

BOOST_AUTO_TEST_CASE(burstiness_sets_the_variation_of_gamma_intervals) {
  for (const double burstiness : {0.25, 0.5, 1.0, 4.0, 100.0}) {
    GeneratorSpec spec = spec_of(200'000, ArrivalProcess::gamma, 20);
    spec.burstiness_ratio = burstiness;
    const Moments m = intervals(served(spec));
    BOOST_TEST_CONTEXT("burstiness " << burstiness) {
      BOOST_TEST(std::abs(m.mean - 1.0 / 20) < m.error_of_mean());
      // Gamma's excess kurtosis is 6 / shape.
      const double error = std::sqrt((2 + 6 / burstiness) / m.count);
      BOOST_TEST(std::abs(m.cv() * m.cv() * burstiness - 1) < kStandardErrors * error);
    }
  }
}

BOOST_AUTO_TEST_CASE(constant_arrivals_are_exact) {
  const auto taken = served(spec_of(1000, ArrivalProcess::constant, 8));
  for (std::size_t i = 0; i < taken.size(); ++i)
    BOOST_TEST((taken[i].arrival.request.arrival == Time::ms(125) * (i + 1)));
}

BOOST_AUTO_TEST_CASE(requests_at_once_arrive_at_zero) {
  for (const Taken& one : served(spec_of(100, ArrivalProcess::at_once)))
    BOOST_TEST((one.arrival.request.arrival == Time()));
}

BOOST_AUTO_TEST_CASE(stages_follow_each_other) {
  GeneratorSpec spec = spec_of(1, ArrivalProcess::constant);
  spec.count.reset();
  spec.stages = {{5, Time::ms(600'000)}, {10, Time::ms(600'000)}, {0.5, Time::ms(100'000)}};
  const auto taken = served(spec);
  BOOST_TEST(taken.size() == 3000u + 6000u + 50u);
  BOOST_TEST((taken[2999].arrival.request.arrival == Time::ms(600'000)));
  BOOST_TEST((taken[3000].arrival.request.arrival == Time::ms(600'100)));
  BOOST_TEST((taken.back().arrival.request.arrival == Time::ms(1'300'000)));

  spec.arrivals = ArrivalProcess::poisson;
  std::vector<double> counts(3);
  for (const Taken& one : served(spec)) {
    const Time at = one.arrival.request.arrival;
    ++counts[at < Time::ms(600'000) ? 0 : at < Time::ms(1'200'000) ? 1 : 2];
    BOOST_TEST((at <= Time::ms(1'300'000)));
  }
  const std::vector<double> means{3000, 6000, 50};
  for (std::size_t i = 0; i < means.size(); ++i)
    BOOST_TEST(std::abs(counts[i] - means[i]) < kStandardErrors * std::sqrt(means[i]));
}

BOOST_AUTO_TEST_CASE(lognormal_lengths_have_the_mean_and_the_variation) {
  GeneratorSpec spec = spec_of(200'000, ArrivalProcess::at_once);
  spec.prompt_tokens = LognormalTokens{1180, 0.86};
  const auto taken = served(spec);
  const auto check = [&](const Moments& m, double mean, double cv) {
    BOOST_TEST(std::abs(m.mean - mean) < m.error_of_mean());
    // Standard error of a lognormal's variance, from its fourth central moment.
    const double w = 1 + cv * cv;
    const double error = std::sqrt((std::pow(w, 4) + 2 * std::pow(w, 3) + 3 * w * w - 4) / m.count);
    BOOST_TEST(std::abs(m.deviation * m.deviation / (mean * cv * mean * cv) - 1) < kStandardErrors * error);
  };
  check(lengths(taken, &Request::prompt_tokens), 1180, 0.86);
  check(lengths(taken, &Request::output_tokens), 250, 0.68);
}

BOOST_AUTO_TEST_CASE(uniform_lengths_are_equally_likely) {
  GeneratorSpec spec = spec_of(100'000, ArrivalProcess::at_once);
  spec.prompt_tokens = UniformTokens{3, 12};
  std::map<std::uint32_t, double> counts;
  for (const Taken& one : served(spec)) ++counts[one.arrival.request.prompt_tokens];
  BOOST_TEST(counts.size() == 10u);
  BOOST_TEST(counts.begin()->first == 3u);
  for (const auto& [tokens, count] : counts)
    BOOST_TEST(std::abs(count - 10'000) < kStandardErrors * std::sqrt(100'000 * 0.1 * 0.9));
}

BOOST_AUTO_TEST_CASE(lengths_are_at_least_one_token_and_at_most_the_limit) {
  GeneratorSpec spec = spec_of(10'000, ArrivalProcess::at_once);
  spec.output_tokens = LognormalTokens{2, 3, 40};
  std::set<std::uint32_t> seen;
  for (const Taken& one : served(spec)) seen.insert(one.arrival.request.output_tokens);
  BOOST_TEST(*seen.begin() == 1u);
  BOOST_TEST(*seen.rbegin() == 40u);
}

BOOST_AUTO_TEST_CASE(same_seed_same_requests) {
  GeneratorSpec spec = spec_of(2000, ArrivalProcess::gamma, 3);
  spec.burstiness_ratio = 0.5;
  const auto first = served(spec), again = served(spec), other = served(spec, Time::ms(1), kSeed + 1);
  BOOST_TEST((same_lengths(first, again) && same_arrivals(first, again)));
  BOOST_TEST((!same_lengths(first, other) && !same_arrivals(first, other)));
}

// A platform or library with other values would change the results of scenarios without notice.
BOOST_AUTO_TEST_CASE(first_requests_of_a_seed) {
  const auto taken = served(spec_of(3, ArrivalProcess::poisson, 6), Time::ms(1), 1);
  const std::vector<Request> expected{{Time::fs(46'082'451'166'667), 178, 210},
                                      {Time::fs(138'620'442'000'000), 146, 167},
                                      {Time::fs(166'099'647'333'333), 119, 270}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    BOOST_TEST((taken[i].arrival.request.arrival == expected[i].arrival));
    BOOST_TEST(taken[i].arrival.request.prompt_tokens == expected[i].prompt_tokens);
    BOOST_TEST(taken[i].arrival.request.output_tokens == expected[i].output_tokens);
  }
}

BOOST_AUTO_TEST_CASE(arrivals_and_lengths_are_independent) {
  const GeneratorSpec base = spec_of(2000, ArrivalProcess::poisson, 3);
  const auto first = served(base);
  for (const ArrivalProcess process :
       {ArrivalProcess::at_once, ArrivalProcess::gamma, ArrivalProcess::constant, ArrivalProcess::closed_loop}) {
    GeneratorSpec spec = base;
    spec.arrivals = process;
    BOOST_TEST(same_lengths(first, served(spec)));
  }
  GeneratorSpec spec = base;
  spec.prompt_tokens = LognormalTokens{100, 1};
  const auto changed = served(spec);
  BOOST_TEST(same_arrivals(first, changed));
  BOOST_TEST(lengths(first, &Request::output_tokens).mean == lengths(changed, &Request::output_tokens).mean);
}

BOOST_AUTO_TEST_CASE(a_closed_loop_keeps_its_concurrency) {
  GeneratorSpec spec = spec_of(500, ArrivalProcess::closed_loop);
  spec.concurrency = 8;
  RequestGenerator source(spec, kSeed);
  const auto taken = test::served(source, [](std::uint32_t n) { return Time::us(100 + n * 37 % 91); });
  BOOST_TEST(most_in_flight(taken) == 8u);
  // Each request after the first 8 arrives at the instant at which an earlier one is done.
  std::multiset<std::uint64_t> ends, starts;
  for (const Taken& one : taken) ends.insert(one.done.fs());
  for (std::size_t i = 8; i < taken.size(); ++i) starts.insert(taken[i].arrival.request.arrival.fs());
  BOOST_TEST(std::equal(starts.begin(), starts.end(), ends.begin()));

  spec.count = 3;  // fewer than the concurrency
  BOOST_TEST(most_in_flight(served(spec)) == 3u);
}

BOOST_AUTO_TEST_CASE(a_closed_loop_waits_for_answers) {
  GeneratorSpec spec = spec_of(3, ArrivalProcess::closed_loop);
  RequestGenerator source(spec, kSeed);
  source.take();
  BOOST_TEST(!source.next_arrival());
  source.done(0, Time::ms(4));
  BOOST_TEST((source.next_arrival() == Time::ms(4)));
}

BOOST_AUTO_TEST_CASE(users_wait_for_their_answers) {
  GeneratorSpec spec = spec_of(600, ArrivalProcess::poisson, 1000);
  spec.prefix = SharedPrefix{3, 2, 110};
  const auto service = [](std::uint32_t n) { return Time::us(2000 + n * 7919 % 9000); };
  RequestGenerator source(spec, kSeed);
  const auto taken = test::served(source, service);

  // Prompts hold the prefix, and their ids cover exactly the prefix.
  std::map<std::uint64_t, std::size_t> requests_of_group;
  for (const Taken& one : taken) {
    const RequestContent& content = one.arrival.content;
    BOOST_REQUIRE(content.ids.size() == 1u);
    BOOST_TEST(content.block_tokens == 110u);
    BOOST_TEST(one.arrival.request.prompt_tokens >= 110u);
    ++requests_of_group[content.ids[0]];
  }
  BOOST_TEST(requests_of_group.size() == 3u);
  for (const auto& [group, requests] : requests_of_group) BOOST_TEST(requests == 200u);

  // Two users in each group: at most two requests of a group in flight, and at times two.
  for (const auto& [group, requests] : requests_of_group) {
    std::vector<Taken> of_group;
    for (const Taken& one : taken) {
      if (one.arrival.content.ids[0] == group) of_group.push_back(one);
    }
    BOOST_TEST(most_in_flight(of_group) == 2u);
  }
  // The users are overloaded. So nearly all requests arrive at the instant of an answer, not at their drawn arrival.
  std::set<std::uint64_t> ends;
  for (const Taken& one : taken) ends.insert(one.done.fs());
  const auto follows = std::count_if(taken.begin(), taken.end(),
                                     [&](const Taken& one) { return ends.count(one.arrival.request.arrival.fs()); });
  BOOST_TEST(follows >= 500);
}

BOOST_AUTO_TEST_CASE(one_user_sends_requests_in_series) {
  GeneratorSpec spec = spec_of(50, ArrivalProcess::constant, 10);  // every 100 ms
  spec.prefix = SharedPrefix{1, 1, 0};
  const auto quick = served(spec, Time::ms(30));
  for (std::size_t i = 0; i < quick.size(); ++i) {
    BOOST_TEST((quick[i].arrival.request.arrival == Time::ms(100) * (i + 1)));
    BOOST_TEST(quick[i].arrival.content.ids.empty());
  }
  const auto slow = served(spec, Time::ms(130));
  for (std::size_t i = 0; i < slow.size(); ++i)
    BOOST_TEST((slow[i].arrival.request.arrival == Time::ms(100) + Time::ms(130) * i));
}

// One user is slow, two are quick: requests of the quick ones overtake those that the slow one has still to send.
BOOST_AUTO_TEST_CASE(quick_users_do_not_wait_for_a_slow_one) {
  GeneratorSpec spec = spec_of(30, ArrivalProcess::constant, 10);
  spec.prompt_tokens = UniformTokens{100, 100};
  spec.prefix = SharedPrefix{3, 1, 50};
  RequestGenerator source(spec, kSeed);
  const auto taken = test::served(source, [](std::uint32_t n) { return n == 0 ? Time::ms(10'000) : Time::ms(1); });
  const auto slow = taken[0].arrival.content.ids[0];
  for (std::size_t i = 1; i <= 20; ++i) BOOST_TEST(taken[i].arrival.content.ids[0] != slow);
  for (std::size_t i = 21; i < 30; ++i) {
    BOOST_TEST(taken[i].arrival.content.ids[0] == slow);
    BOOST_TEST((taken[i].arrival.request.arrival == Time::ms(10'100 + i - 21)));
  }
}

BOOST_AUTO_TEST_CASE(users_share_a_closed_loop) {
  GeneratorSpec spec = spec_of(300, ArrivalProcess::closed_loop);
  spec.concurrency = 4;
  spec.prefix = SharedPrefix{6, 1, 20};
  RequestGenerator source(spec, kSeed);
  const auto taken = test::served(source, [](std::uint32_t n) { return Time::us(100 + n * 7919 % 900); });
  BOOST_TEST(most_in_flight(taken) == 4u);
  for (std::uint64_t group = 0; group < 6; ++group) {
    std::vector<Taken> of_group;
    for (const Taken& one : taken) {
      if (one.arrival.content.ids[0] == group) of_group.push_back(one);
    }
    BOOST_TEST(of_group.size() == 50u);
    BOOST_TEST(most_in_flight(of_group) == 1u);
  }
}
