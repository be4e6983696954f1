// Requests that follow each other: the generator's keys, and traces with sessions, names of rows and parents.
#define BOOST_TEST_MODULE scenario_sessions
#include "tests/scenario/request_forms.h"
#include "tests/support/taken_requests.h"
#include "workload/inference/kv/block_contents.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

/// Takes all; each is done after a millisecond.
std::vector<Taken> run(const ServingRequests& requests) {
  const auto source = requests.make_source();
  return served(*source, [](std::uint32_t) { return Time::ms(1); });
}

Time arrival(const Taken& one) { return one.arrival.request.arrival; }

/// Tokens of the prompt of b that the prompt and answer of a begin with.
std::uint64_t common(const Taken& a, const Taken& b) {
  const auto of = [](const Taken& one) {
    return known_contents(one.arrival.content, one.arrival.request.prompt_tokens, 1);
  };
  const auto x = of(a), y = of(b);
  return static_cast<std::uint64_t>(std::mismatch(x.begin(), x.end(), y.begin(), y.end()).first - x.begin());
}

const std::string kLengths = "prompt_tokens: 100, output_tokens: 20";

std::string ids(std::uint64_t from, std::uint64_t to) {
  std::string text;
  for (std::uint64_t id = from; id < to; ++id) text += (id > from ? "," : "") + std::to_string(id);
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(generated_sessions) {
  const Requests r;
  const ServingRequests requests =
      r.load("{count: 3, " + kLengths + ", sessions: {turns: 4, think_s: 0.5, growth_tokens: 30, subagents: 2}}");
  BOOST_TEST(requests.has_sessions);
  BOOST_TEST(requests.has_contents);
  BOOST_TEST(run(requests).size() == 3u * (4 + 3 * 2));
  BOOST_TEST(requests.prompt->tokens == 100u + 3 * (30 + 20));
  BOOST_TEST(requests.prompt_and_output->tokens == 100u + 3 * (30 + 20) + 20);

  const auto refusal = [&](const std::string& sessions, const std::string& more = "") {
    return r.refusal("{count: 3, " + kLengths + more + ", sessions: {" + sessions + "}}");
  };
  const std::string good = "turns: 4, growth_tokens: 30";
  BOOST_TEST(refusal(good) == "accepted");
  BOOST_TEST(refusal(good + ", system_tokens: 101") ==
             "s.yaml:2:118: error: workload.requests.sessions.system_tokens: 101 is more than the shortest prompt, 100 "
             "tokens");
  BOOST_TEST(refusal("turns: 1001, growth_tokens: 30") ==
             "s.yaml:2:81: error: workload.requests.sessions.turns: 1001 is out of range; accepted: 1 to 1000");
  BOOST_TEST(refusal("turns: 900, growth_tokens: 30, subagents: 900") ==
             "s.yaml:2:73: error: workload.requests.sessions: up to 2430000 requests; accepted: up to 1000000");
  BOOST_TEST(
      refusal(good, ", prefix: {groups: 1, users_per_group: 1, shared_tokens: 5}") ==
      "s.yaml:2:71: error: workload.requests.prefix: does not apply to sessions; their system_tokens are equal in "
      "all of them");
  BOOST_TEST(refusal("turns: 4") ==
             "s.yaml:2:73: error: workload.requests.sessions.growth_tokens: is required; new tokens of each later "
             "prompt, after the "
             "earlier prompt and its answer");
}

BOOST_AUTO_TEST_CASE(sub_requests_follow_each_other) {
  const Requests r;
  // A session without ids between two rows; its third prompt is too short to contain what came before.
  const ServingRequests trace = r.trace("llmservingsim",
                                        "{\"input_toks\": 5, \"output_toks\": 1, \"arrival_time_ns\": 9000000}\n"
                                        "{\"session_id\": \"s\", \"arrival_time_ns\": 1000000, \"sub_requests\": ["
                                        "{\"input_toks\": 50, \"output_toks\": 10, \"tool_duration_ns\": 2000000}, "
                                        "{\"input_toks\": 75, \"output_toks\": 5}, "
                                        "{\"input_toks\": 60, \"output_toks\": 5, \"tool_duration_ns\": 7000000}, "
                                        "{\"input_toks\": 65, \"output_toks\": 5}]}\n"
                                        "{\"input_toks\": 6, \"output_toks\": 1, \"arrival_time_ns\": 4500000}\n");
  BOOST_TEST(trace.has_sessions);
  BOOST_TEST(trace.prompt->where.str() == "t:2:1");
  const auto all = run(trace);
  BOOST_TEST_REQUIRE(all.size() == 6u);
  const std::vector<std::uint32_t> prompts{50, 75, 6, 60, 5, 65};
  const std::vector<std::uint64_t> at_us{1000, 4000, 4500, 5000, 9000, 13000};
  for (std::size_t i = 0; i < all.size(); ++i) {
    BOOST_TEST(all[i].arrival.request.prompt_tokens == prompts[i]);
    BOOST_TEST((arrival(all[i]) == Time::us(at_us[i])));
    BOOST_TEST(all[i].arrival.request.session == (i == 2 || i == 4 ? 0u : 1u));
  }
  BOOST_TEST(common(all[0], all[1]) == 60u);
  BOOST_TEST(common(all[1], all[3]) == 0u);
  BOOST_TEST(common(all[3], all[5]) == 65u);
  BOOST_TEST(!all[0].arrival.after.has_value());
  BOOST_TEST(*all[5].arrival.after == 3u);
}

BOOST_AUTO_TEST_CASE(mooncake_sessions_wait_for_their_answers) {
  const Requests r;
  const auto row = [](const std::string& more, std::uint64_t input, std::uint64_t hashes) {
    return "{" + more + ", \"input_length\": " + std::to_string(input) + ", \"output_length\": 600, \"hash_ids\": [" +
           ids(0, hashes) + "]}\n";
  };
  const auto all = run(r.trace("mooncake", row("\"timestamp\": 100, \"session_id\": \"a\"", 1100, 3) +
                                               row("\"session_id\": \"a\", \"delay\": 40", 2000, 4) +
                                               row("\"timestamp\": 180.5, \"session_id\": \"a\"", 2700, 6)));
  BOOST_TEST_REQUIRE(all.size() == 3u);
  BOOST_TEST((arrival(all[0]) == Time()));
  BOOST_TEST((arrival(all[1]) == Time::ms(1 + 40)));
  BOOST_TEST((arrival(all[2]) == Time::us(80'500)));  // not before its own time
  // The next prompt tells which blocks the answer has filled: of 1100 + 600 tokens three of 512.
  BOOST_TEST(common(all[0], all[1]) == 3u * 512);
  BOOST_TEST(common(all[1], all[2]) == 5u * 512);
}

BOOST_AUTO_TEST_CASE(mooncake_rows_wait_for_named_ones) {
  const Requests r;
  const auto row = [](const std::string& more) {
    return "{" + more + ", \"input_length\": 10, \"output_length\": 3}\n";
  };
  // Two agents beside one another, and a turn that waits for both.
  const auto all =
      run(r.trace("mooncake", row("\"timestamp\": 5, \"request_id\": \"r\", \"session_id\": 1") +
                                  row("\"request_id\": \"x\", \"wait_for\": [\"r\"]") +
                                  row("\"request_id\": \"y\", \"wait_for\": [\"r\"], \"delay\": 10") +
                                  row("\"request_id\": \"z\", \"session_id\": 1, \"wait_for\": [\"x\", \"y\"], "
                                      "\"delay\": 2, \"tool_wait_ms\": 3")));
  BOOST_TEST_REQUIRE(all.size() == 4u);
  BOOST_TEST((arrival(all[1]) == Time::ms(1)));
  BOOST_TEST((arrival(all[2]) == Time::ms(11)));
  BOOST_TEST((arrival(all[3]) == Time::ms(12 + 5)));
  BOOST_TEST(*all[3].arrival.after == 2u);
  BOOST_TEST(all[3].arrival.request.session == all[0].arrival.request.session);
}

BOOST_AUTO_TEST_CASE(bailian_parents) {
  const Requests r;
  const auto row = [](int chat, int parent, const std::string& at, int input, const std::string& hashes) {
    return "{\"chat_id\": " + std::to_string(chat) + ", \"parent_chat_id\": " + std::to_string(parent) +
           ", \"timestamp\": " + at + ", \"input_length\": " + std::to_string(input) +
           ", \"output_length\": 40, \"type\": \"text\", \"turn\": 1, \"hash_ids\": [" + hashes + "]}\n";
  };
  // A turn that is due before its parent's answer, and one that is due later.
  const auto all =
      run(r.trace("bailian", row(7, -1, "60.5", 40, ids(0, 3)) + row(8, 7, "60.5", 100, ids(0, 7)) +
                                 row(9, 8, "61", 200, ids(0, 13)) + row(10, -1, "60.75", 40, ids(90, 93))));
  BOOST_TEST_REQUIRE(all.size() == 4u);
  const std::vector<std::uint64_t> at_ms{0, 1, 250, 500};
  for (std::size_t i = 0; i < all.size(); ++i) BOOST_TEST((arrival(all[i]) == Time::ms(at_ms[i])));
  BOOST_TEST(common(all[0], all[1]) == 80u);
  BOOST_TEST(common(all[1], all[3]) == 128u);  // of 140 tokens, in blocks of 16
  BOOST_TEST(all[1].arrival.request.session == all[3].arrival.request.session);
  BOOST_TEST(all[2].arrival.request.session == 0u);
}

BOOST_AUTO_TEST_CASE(sessions_that_cannot_be_are_refused_with_their_line) {
  const Requests r;
  const auto bailian = [&](const std::string& rows) { return r.trace_refusal("bailian", rows); };
  const auto chat = [](int chat, int parent) {
    return "{\"chat_id\": " + std::to_string(chat) + ", \"parent_chat_id\": " + std::to_string(parent) +
           ", \"timestamp\": 1, \"input_length\": 8, \"output_length\": 2}\n";
  };
  BOOST_TEST(bailian(chat(1, -1) + chat(2, 1) + chat(3, 2)) == "accepted");
  BOOST_TEST(bailian(chat(21, -1) + chat(22, 29)) ==
             "t:2:1: error: parent_chat_id: no line that is read has the chat_id '29' (did you mean '21'?)");
  BOOST_TEST(bailian(chat(1, 1)) == "t:1:1: error: parent_chat_id: the line waits for itself");
  BOOST_TEST(bailian(chat(9, -1) + chat(1, 3) + chat(2, 1) + chat(3, 2)) ==
             "t:2:1: error: parent_chat_id: the line waits for itself, by way of line 4");
  BOOST_TEST(bailian(chat(1, -1) + chat(1, -1)) == "t:2:1: error: chat_id: '1' is that of line 1, too");

  const std::string lengths = ", \"input_length\": 8, \"output_length\": 2}\n";
  const auto mooncake = [&](const std::string& row) { return r.trace_refusal("mooncake", row); };
  BOOST_TEST(mooncake("{\"session_id\": \"a\"" + lengths) ==
             "t:1:1: error: timestamp: is required on a line that waits for no other");
  BOOST_TEST(mooncake("{\"timestamp\": 1, \"session_id\": [3]" + lengths) ==
             "t:1:32: error: session_id: expected a text or an integer, got '[3]'");
  BOOST_TEST(mooncake("{\"timestamp\": 1, \"delay\": -3, \"session_id\": 3" + lengths) ==
             "t:1:27: error: delay: expected a time, at least 0, got '-3'");
  BOOST_TEST(mooncake("{\"timestamp\": 1, \"wait_for\": \"x\"" + lengths) ==
             "t:1:30: error: wait_for: expected a list of request_ids, got '\"x\"'");

  const auto simulated = [&](const std::string& requests) {
    return r.trace_refusal("llmservingsim", "{\"arrival_time_ns\": 5, \"sub_requests\": " + requests + "}\n");
  };
  const std::string one = "{\"input_toks\": 33, \"output_toks\": 2";
  BOOST_TEST(simulated("[" + one + "}]") == "accepted");
  BOOST_TEST(simulated("[]") == "t:1:40: error: sub_requests: expected a list of requests, at least one, got '[]'");
  BOOST_TEST(simulated("[" + one + "}, {\"input_toks\": 33, \"output_toks\": 0}]") ==
             "t:1:113: error: output_toks: '0' is out of range; accepted: 1 to 16777216");
  BOOST_TEST(simulated("[" + one + ", \"tool_duration_ns\": -1}, " + one + "}]") ==
             "t:1:98: error: sub_requests.0.tool_duration_ns: expected nanoseconds, at least 0, got '-1'");
  BOOST_TEST(simulated("[" + one + ", \"input_tok_ids\": [1]}]")
                 .find("error: sub_requests.0.input_tok_ids: expected 33 ids, as input_toks says, got 1") !=
             std::string::npos);
}
