// Generated sessions: what a prompt contains, when turns and subagents arrive, and what does not depend on the service.
#define BOOST_TEST_MODULE workload_sessions
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>

#include "tests/support/taken_requests.h"
#include "workload/inference/kv/block_contents.h"
#include "workload/inference/requests/session_generator.h"

using namespace railyard;
using namespace railyard::workload::inference;
using railyard::test::served;
using railyard::test::Taken;

namespace {

SessionsSpec spec_of(std::uint32_t count, ArrivalProcess arrivals, double rate_per_s = 100) {
  SessionsSpec spec;
  spec.count = count;
  spec.arrivals = arrivals;
  spec.stages = {{rate_per_s, Time::max()}};
  spec.turns = UniformTokens{1, 5};
  spec.prompt_tokens = UniformTokens{80, 200};
  spec.growth_tokens = UniformTokens{1, 60};
  spec.output_tokens = LognormalTokens{40, 0.8};
  spec.think = Time::ms(7);
  spec.system_tokens = 50;
  return spec;
}

Time uneven(std::uint32_t n) { return Time::us(500 + n * 7919 % 90'000); }

std::vector<Taken> run(const SessionsSpec& spec) {
  SessionGenerator source(spec, 3);
  return served(source, uneven);
}

std::map<std::uint64_t, std::vector<Taken>> by_session(const std::vector<Taken>& taken) {
  std::map<std::uint64_t, std::vector<Taken>> sessions;
  for (const Taken& one : taken) sessions[one.arrival.request.session].push_back(one);
  return sessions;
}

std::uint64_t shared_blocks(const Taken& a, const Taken& b, std::uint32_t block_tokens) {
  const auto of = [&](const Taken& one) {
    return known_contents(one.arrival.content, one.arrival.request.prompt_tokens, block_tokens);
  };
  const auto x = of(a), y = of(b);
  return static_cast<std::uint64_t>(std::mismatch(x.begin(), x.end(), y.begin(), y.end()).first - x.begin());
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_turn_follows_the_answer_and_contains_it) {
  const auto sessions = by_session(run(spec_of(200, ArrivalProcess::poisson)));
  BOOST_TEST(sessions.size() == 200u);
  std::size_t most = 0;
  for (const auto& [number, turns] : sessions) {
    most = std::max(most, turns.size());
    for (std::size_t i = 0; i < turns.size(); ++i) {
      const Request& own = turns[i].arrival.request;
      // The prompt and its answer, to the token.
      BOOST_TEST(turns[i].arrival.content.described() == own.prompt_tokens + own.output_tokens);
      if (i == 0) continue;
      const Request& before = turns[i - 1].arrival.request;
      BOOST_TEST((own.arrival == turns[i - 1].done + Time::ms(7)));
      const std::uint32_t history = before.prompt_tokens + before.output_tokens;
      BOOST_TEST(own.prompt_tokens > history);
      BOOST_TEST(own.prompt_tokens <= history + 60);
      for (const std::uint32_t block : {1u, 16u})
        BOOST_TEST(shared_blocks(turns[i - 1], turns[i], block) == history / block);
    }
  }
  BOOST_TEST(most == 5u);
  // Sessions have nothing but the system prompt in common.
  BOOST_TEST(shared_blocks(sessions.at(1)[0], sessions.at(2).back(), 1) == 50u);
}

BOOST_AUTO_TEST_CASE(sessions_arrive_whatever_becomes_of_others_and_keep_their_lengths) {
  const SessionsSpec spec = spec_of(100, ArrivalProcess::poisson);
  SessionsSpec slow = spec;
  slow.think = Time::ms(900);
  slow.stages = {{10, Time::max()}};
  const auto a = by_session(run(spec)), b = by_session(run(slow));
  BOOST_TEST_REQUIRE(a.size() == b.size());
  for (const auto& [number, turns] : a) {
    const auto& others = b.at(number);
    BOOST_TEST_REQUIRE(turns.size() == others.size());
    // A tenth of the rate, but the same draws. Positions are rounded to 1e-9 of an interval.
    const double first = turns[0].arrival.request.arrival.seconds();
    BOOST_TEST(others[0].arrival.request.arrival.seconds() == 10 * first, boost::test_tools::tolerance(1e-6));
    for (std::size_t i = 0; i < turns.size(); ++i) {
      BOOST_TEST(turns[i].arrival.request.prompt_tokens == others[i].arrival.request.prompt_tokens);
      BOOST_TEST(turns[i].arrival.request.output_tokens == others[i].arrival.request.output_tokens);
    }
  }
}

BOOST_AUTO_TEST_CASE(subagents_run_beside_one_another_and_the_next_turn_waits_for_all) {
  constexpr std::size_t kAgents = 3;
  SessionsSpec spec = spec_of(40, ArrivalProcess::constant);
  spec.subagents = kAgents;
  for (const auto& [number, all] : by_session(run(spec))) {
    BOOST_TEST_REQUIRE(all.size() % (kAgents + 1) == 1u);
    Taken turn = all[0];
    for (std::size_t i = 1; i < all.size(); i += kAgents + 1) {
      Time last;
      for (std::size_t agent = i; agent < i + kAgents; ++agent) {
        BOOST_TEST((all[agent].arrival.request.arrival == turn.done));
        BOOST_TEST(shared_blocks(turn, all[agent], 1) == 50u);
        last = later(last, all[agent].done);
      }
      const Taken& next = all[i + kAgents];
      BOOST_TEST((next.arrival.request.arrival == last + Time::ms(7)));
      BOOST_TEST(shared_blocks(turn, next, 1) == turn.arrival.content.described());
      turn = next;
    }
  }
}

BOOST_AUTO_TEST_CASE(a_closed_loop_of_sessions) {
  SessionsSpec spec = spec_of(60, ArrivalProcess::closed_loop);
  spec.concurrency = 4;
  const auto sessions = by_session(run(spec));
  BOOST_TEST(sessions.size() == 60u);
  std::vector<Time> ends;
  for (const auto& [number, turns] : sessions) ends.push_back(turns.back().done);
  std::sort(ends.begin(), ends.end());
  // The first four start at zero; then one starts when another one ends.
  for (const auto& [number, turns] : sessions) {
    const Time start = turns[0].arrival.request.arrival;
    BOOST_TEST((number <= 4 ? start == Time() : start == ends[number - 5]));
  }
}

BOOST_AUTO_TEST_CASE(a_conversation_beyond_the_longest_prompt_begins_again) {
  SessionsSpec spec = spec_of(1, ArrivalProcess::at_once);
  spec.turns = UniformTokens{40, 40};
  spec.growth_tokens = UniformTokens{1u << 21, 1u << 21};
  const auto taken = run(spec);
  BOOST_TEST(taken.size() == 40u);
  const auto begins_again = std::count_if(taken.begin() + 1, taken.end(), [&](const Taken& one) {
    BOOST_TEST(one.arrival.content.described() <= SessionGenerator::kMostTokens);
    return one.arrival.request.prompt_tokens == 1u << 21;
  });
  BOOST_TEST(begins_again >= 4);
}
