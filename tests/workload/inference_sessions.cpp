// Sessions on engines: prefix hits of later turns, and the instant at which they arrive.
#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

constexpr std::uint32_t kPrompt = 100, kGrowth = 37, kOutput = 21, kSystem = 40, kBlock = 16;
const Time kThink = Time::ms(3);

std::vector<std::string> sessions(std::uint32_t count, std::uint32_t turns, const std::string& more = "",
                                  const std::string& instances = "[{name: a}]", const std::string& router = "session") {
  return {"workload.requests={count: " + std::to_string(count) + ", prompt_tokens: " + std::to_string(kPrompt) +
              ", output_tokens: " + std::to_string(kOutput) + ", sessions: {turns: " + std::to_string(turns) +
              ", think_s: 0.003, growth_tokens: " + std::to_string(kGrowth) +
              ", system_tokens: " + std::to_string(kSystem) + more + "}}",
          "workload.scheduler={block_tokens: 16, max_seqs: 64}", "workload.instances=" + instances,
          "workload.router=" + router};
}

/// Of turn n, from 0.
std::uint32_t prompt_of(std::uint32_t n) { return kPrompt + n * (kGrowth + kOutput); }
/// Tokens that turn n finds: full blocks of the turn before, whose last token has no KV.
std::uint32_t found_by(std::uint32_t n) { return (prompt_of(n - 1) + kOutput - 1) / kBlock * kBlock; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_turn_finds_the_earlier_prompt_and_its_answer) {
  constexpr std::uint32_t kTurns = 6;
  for (const std::string instances : {"[{name: a}]", "[{name: a, role: prefill}, {name: d, role: decode}]"}) {
    BOOST_TEST_INFO_SCOPE(instances);
    ServingBench run(tiny_serving(sessions(1, kTurns, "", instances)));
    run.run();
    BOOST_TEST_REQUIRE(run.served.size() == kTurns);
    const bool is_pair = instances.size() > 20;
    for (std::uint32_t n = 0; n < kTurns; ++n) {
      const Stay& turn = run.served[n];
      BOOST_TEST(turn.request.prompt_tokens == prompt_of(n));
      // An instance for prompts has not computed the answer.
      const std::uint32_t found = n == 0 ? 0 : is_pair ? prompt_of(n - 1) / kBlock * kBlock : found_by(n);
      BOOST_TEST(turn.counts.cached_tokens == found);
      if (n > 0) BOOST_TEST((turn.request.arrival == run.served[n - 1].times.last_token + kThink));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_router_by_session_finds_what_others_miss) {
  constexpr std::uint32_t kTurns = 4, kSessions = 12;
  const auto found = [&](const std::string& router) {
    ServingBench run(tiny_serving(sessions(kSessions, kTurns, "", "[{name: a, count: 4}]", router)));
    run.run();
    BOOST_TEST(run.served.size() == kSessions * kTurns);
    std::uint64_t sum = 0;
    for (const Stay& served : run.served) sum += served.counts.cached_tokens;
    return sum;
  };
  // Beside the system prompt of first turns, which only some find.
  std::uint64_t of_turns = 0;
  for (std::uint32_t n = 1; n < kTurns; ++n) of_turns += found_by(n);
  BOOST_TEST(found("session") >= kSessions * of_turns);
  BOOST_TEST(found("session") <= kSessions * (of_turns + kSystem));
  BOOST_TEST(found("prefix_trie") >= kSessions * of_turns);
  BOOST_TEST(found("round_robin") < kSessions * of_turns);
}

BOOST_AUTO_TEST_CASE(subagents_are_served_beside_one_another) {
  constexpr std::uint32_t kAgents = 5;
  ServingBench run(tiny_serving(sessions(1, 2, ", subagents: 5")));
  run.run();
  BOOST_TEST_REQUIRE(run.served.size() == kAgents + 2);
  const Stay &first = run.served.front(), &second = run.served.back();
  Time last, soonest = Time::max();
  for (std::uint32_t i = 1; i <= kAgents; ++i) {
    const Stay& agent = run.served[i];
    BOOST_TEST((agent.request.arrival == first.times.last_token));
    BOOST_TEST(agent.counts.cached_tokens == kSystem / kBlock * kBlock);
    last = later(last, agent.times.last_token);
    soonest = sooner(soonest, agent.times.last_token);
  }
  // All have tokens before one of them is done.
  for (std::uint32_t i = 1; i <= kAgents; ++i) BOOST_TEST((run.served[i].times.first_token < soonest));
  BOOST_TEST((second.request.arrival == last + kThink));
  BOOST_TEST(second.counts.cached_tokens == found_by(1));
}
