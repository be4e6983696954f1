// Bodies of OpenAI's API: tokens, answers, and what is refused.
#define BOOST_TEST_MODULE api_request
#include <boost/test/unit_test.hpp>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>

#include "sc_main/serve/api_answer.h"
#include "sc_main/serve/api_request.h"
#include "sc_main/serve/inbox.h"
#include "sc_main/serve/pacer.h"

using namespace railyard;
using namespace railyard::serve;
using nlohmann::json;

namespace {

/// The client waits for its answer.
bool stays() { return false; }

const ApiModel kModel{"m", 1000};

ApiRequest completion(const std::string& keys) {
  return parse_request(ApiCall::completion, R"({"model": "m", )" + keys + "}", kModel);
}
ApiRequest chat(const std::string& keys) {
  return parse_request(ApiCall::chat, R"({"model": "m", )" + keys + "}", kModel);
}

ApiError refused(ApiCall call, const std::string& body) {
  try {
    parse_request(call, body, kModel);
  } catch (const ApiError& error) {
    return error;
  }
  BOOST_ERROR("accepted: " + body);
  return bad_request("");
}
ApiError refused_completion(const std::string& keys) {
  return refused(ApiCall::completion, R"({"model": "m", )" + keys + "}");
}

std::vector<std::uint64_t> prompt_ids(const ApiRequest& request) {
  return {request.content.ids.begin(), request.content.ids.begin() + request.prompt_tokens};
}

bool has(const ApiError& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(four_characters_are_a_token) {
  for (std::uint32_t characters = 1; characters <= 50; ++characters) {
    const std::string text(characters, 'x');
    BOOST_TEST(completion("\"prompt\": \"" + text + "\"").prompt_tokens == (characters + 3) / 4);
  }
  BOOST_TEST(completion(R"("prompt": "\u00e4\u00f6\u00fc\ud83d\ude00")").prompt_tokens == 1u);  // characters, not bytes
  BOOST_TEST(completion(R"("prompt": ["abcdefgh"])").prompt_tokens == 2u);
  BOOST_TEST((completion(R"("prompt": [5, 6, 70000])").content.ids[2] == 70000));
  BOOST_TEST(completion(R"("prompt": [[5, 6]])").prompt_tokens == 2u);
}

BOOST_AUTO_TEST_CASE(equal_beginnings_have_equal_ids) {
  const auto a = prompt_ids(completion(R"("prompt": "the same text, then this")"));
  const auto b = prompt_ids(completion(R"("prompt": "the same text, and that!")"));
  BOOST_TEST(a.size() == 6u);
  BOOST_TEST(std::equal(a.begin(), a.begin() + 3, b.begin()));
  BOOST_TEST(a[4] != b[4]);
}

BOOST_AUTO_TEST_CASE(the_next_turn_begins_with_the_prompt_and_the_answer) {
  const ApiRequest first = chat(R"("messages": [{"role": "user", "content": "Hello you"}], "max_tokens": 5)");
  BOOST_TEST(first.prompt_tokens == 1u + 3u + 1u);
  std::string answer;
  for (int i = 0; i < 5; ++i) answer += kFiller;
  const ApiRequest second =
      chat(R"("messages": [{"role": "user", "content": "Hello you"}, {"role": "assistant", "content": ")" + answer +
           R"("}, {"role": "user", "content": [{"type": "text", "text": "More"}]}])");
  BOOST_TEST(first.content.ids.size() == 10u);
  BOOST_TEST(second.prompt_tokens == 10u + 1u + 1u + 1u);
  BOOST_TEST(std::equal(first.content.ids.begin(), first.content.ids.end(), second.content.ids.begin()));
}

BOOST_AUTO_TEST_CASE(answers_have_as_many_tokens_as_the_rule_says) {
  const std::string prompt = R"("prompt": "abcd")", messages = R"("messages": [{"role": "user", "content": "abcd"}])";
  BOOST_TEST(completion(prompt).answer_tokens == kTokensOfCompletion);
  BOOST_TEST(!completion(prompt).ends_by_itself);
  BOOST_TEST(completion(prompt + R"(, "max_tokens": 7, "ignore_eos": true, "min_tokens": 7)").answer_tokens == 7u);
  BOOST_TEST(completion(prompt + R"(, "max_tokens": null)").answer_tokens == kTokensOfCompletion);
  BOOST_TEST(chat(messages).answer_tokens == kTokensOfChat);
  BOOST_TEST(chat(messages).ends_by_itself);
  BOOST_TEST(chat(messages + R"(, "min_tokens": 300)").answer_tokens == 300u);
  BOOST_TEST(chat(messages + R"(, "max_completion_tokens": 9)").answer_tokens == 9u);
  const ApiRequest whole = chat(messages + R"(, "ignore_eos": true)");
  BOOST_TEST(whole.prompt_tokens + whole.answer_tokens == kModel.most_tokens);
  BOOST_TEST(!whole.ends_by_itself);
}

BOOST_AUTO_TEST_CASE(more_tokens_than_the_model_takes_are_refused_as_vllm_does) {
  const std::string long_prompt(4 * 990, 'x');
  BOOST_TEST(completion("\"prompt\": \"" + long_prompt + "\", \"max_tokens\": 10").answer_tokens == 10u);
  const ApiError answer = refused_completion("\"prompt\": \"" + long_prompt + "\", \"max_tokens\": 11");
  BOOST_TEST(answer.status == 400);
  BOOST_TEST(has(answer,
                 "'max_tokens' or 'max_completion_tokens' is too large: 11. This model's maximum context length is "
                 "1000 tokens and your request has 990 input tokens (11 > 1000 - 990)."));
  const ApiError prompt = refused_completion("\"prompt\": \"" + std::string(4 * 1000, 'x') + "\"");
  BOOST_TEST(
      has(prompt, "This model's maximum context length is 1000 tokens. However, your request has 1000 input tokens."));
  BOOST_TEST(has(refused_completion(R"("prompt": "a", "max_tokens": 3, "min_tokens": 4)"),
                 "min_tokens must be less than or equal to max_tokens=3, got 4."));
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_refused_with_its_key) {
  const ApiError unknown = refused(ApiCall::completion, R"({"model": "other", "prompt": "a"})");
  BOOST_TEST(unknown.status == 404);
  BOOST_TEST(has(unknown, "The model `other` does not exist."));
  const ApiError malformed = refused(ApiCall::completion, "{\"model\": \"m\",\n \"prompt\" \"a\"}");
  BOOST_TEST(malformed.status == 400);
  BOOST_TEST(has(malformed, "the body is not JSON, at line 2, column 13"));
  BOOST_TEST(has(refused(ApiCall::completion, std::string(100, '[')), "deeper than 64"));
  for (const auto& [keys, param] :
       {std::pair{R"("prompt": "")", "prompt"},
        {R"("prompt": [])", "prompt"},
        {R"("prompt": ["a", "b"])", "prompt"},
        {R"("prompt": [1, -2])", "prompt.1"},
        {R"("prompt": [1, "a"])", "prompt.1"},
        {R"("prompt": {})", "prompt"},
        {R"("messages": [])", "prompt"},
        {R"("prompt": "a", "max_tokens": 0)", "max_tokens"},
        {R"("prompt": "a", "max_tokens": 1.5)", "max_tokens"},
        {R"("prompt": "a", "max_tokens": -1)", "max_tokens"},
        {R"("prompt": "a", "max_tokens": 1e300)", "max_tokens"},
        {R"("prompt": "a", "stream": 1)", "stream"},
        {R"("prompt": "a", "n": 2)", "n"},
        {R"("prompt": "a", "logprobs": 5)", "logprobs"},
        {R"("prompt": "a", "echo": true)", "echo"},
        {R"("prompt": "a", "stream_options": {"include_usage": true})", "stream_options"}}) {
    const ApiError error = refused_completion(keys);
    BOOST_TEST(error.status == 400);
    BOOST_TEST(error.param == param);
    const json form = json::parse(error_text(error));
    BOOST_TEST(form["error"]["code"] == 400);
    BOOST_TEST(form["error"]["message"].get<std::string>().find('\n') == std::string::npos);
  }
  BOOST_TEST(refused(ApiCall::chat, R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})").param ==
             "messages.0.content.0.type");
}

BOOST_AUTO_TEST_CASE(random_changes_of_a_body_are_accepted_or_refused) {
  const std::string body =
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a\u00e4"}]}],"max_tokens":4,"stream":true,)"
      R"("stream_options":{"include_usage":true},"prompt":[1,2]})";
  std::mt19937 random(1);
  std::size_t accepted = 0, refused_ones = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string changed = body;
    for (std::uint32_t change = random() % 4 + 1; change > 0; --change) {
      const std::size_t at = random() % changed.size();
      switch (random() % 4) {
        case 0: changed[at] = static_cast<char>(random()); break;
        case 1: changed.erase(at, random() % 20); break;
        case 2: changed.insert(at, body, random() % body.size(), random() % 30); break;
        default: changed[at] = "{}[]\",:0-e\\"[random() % 11]; break;
      }
      if (changed.empty()) changed = "{";
    }
    try {
      const ApiRequest request = parse_request(random() % 2 ? ApiCall::chat : ApiCall::completion, changed, kModel);
      BOOST_REQUIRE(request.prompt_tokens + request.answer_tokens <= kModel.most_tokens);
      BOOST_REQUIRE(request.content.ids.size() == request.prompt_tokens + request.answer_tokens);
      ++accepted;
    } catch (const ApiError& error) {
      BOOST_REQUIRE(error.status >= 400 && error.status < 500);
      BOOST_REQUIRE(json::accept(error_text(error)));
      ++refused_ones;
    }
  }
  BOOST_TEST(accepted > 100u);
  BOOST_TEST(refused_ones > 10000u);
}

BOOST_AUTO_TEST_CASE(an_answer_waits_for_its_tokens) {
  Answer answer(completion(R"("prompt": "abcd", "max_tokens": 100)"));
  std::thread simulation([&] {
    answer.arrived(7, Time::ms(1), 0);
    for (std::uint32_t i = 0; i < 100; ++i) answer.add_token(Time::ms(2 + i), 0.5);
    answer.end(1);
  });
  BOOST_TEST(answer.wait_arrival(stays).number == 7u);
  for (std::uint32_t i = 0; i < 100; ++i) BOOST_TEST((answer.wait_token(i, stays) == Time::ms(2 + i)));
  const AnswerFacts facts = answer.wait_end(stays);
  simulation.join();
  const json text = json::parse(completion_text(answer, facts, kModel));
  BOOST_TEST(text["usage"]["completion_tokens"] == 100);
  BOOST_TEST(text["railyard"]["ttft_s"] == 0.001);
  BOOST_TEST(text["railyard"]["end_s"] == 0.101);
  BOOST_TEST(text["choices"][0]["text"].get<std::string>().size() == 400u);
  BOOST_TEST(text["choices"][0]["finish_reason"] == "length");
}

BOOST_AUTO_TEST_CASE(a_failed_answer_keeps_the_tokens_that_it_has) {
  Answer answer(completion(R"("prompt": "abcd")"));
  answer.arrived(0, Time(), 0);
  answer.add_token(Time::ms(1), 0);
  answer.fail(ApiError(500, "InternalServerError", "over"));
  BOOST_TEST((answer.wait_token(0, stays) == Time::ms(1)));
  BOOST_CHECK_THROW(answer.wait_token(1, stays), ApiError);
  BOOST_CHECK_THROW(answer.wait_end(stays), ApiError);
}

BOOST_AUTO_TEST_CASE(an_inbox_keeps_the_order_and_its_bound) {
  Inbox<int> inbox(3);
  for (int i = 0; i < 3; ++i) BOOST_TEST((inbox.put(i) == Inbox<int>::Put::taken));
  BOOST_TEST((inbox.put(3) == Inbox<int>::Put::full));
  BOOST_TEST(inbox.has_items());
  const std::deque<int> items = inbox.take();
  BOOST_TEST(items == std::deque<int>({0, 1, 2}), boost::test_tools::per_element());
  BOOST_TEST(!inbox.has_items());
  inbox.close();
  BOOST_TEST((inbox.put(4) == Inbox<int>::Put::closed));
}

BOOST_AUTO_TEST_CASE(the_pacer_maps_both_ways) {
  const WallClock::time_point start = WallClock::now();
  for (const double pace : {0.01, 1.0, 50.0}) {
    const Pacer pacer(pace, start);
    BOOST_TEST((pacer.simulated(start - std::chrono::seconds(1)) == Time()));
    BOOST_TEST(pacer.simulated(start + std::chrono::seconds(2)).seconds() == 2 * pace,
               boost::test_tools::tolerance(1e-12));
    const Time at = Time::ms(1234);
    BOOST_TEST(pacer.simulated(pacer.due(at)).seconds() == at.seconds(), boost::test_tools::tolerance(1e-6));
  }
}

BOOST_AUTO_TEST_CASE(a_client_that_has_left_waits_for_nothing) {
  Answer answer{ApiRequest()};
  const auto has_left = [] { return true; };
  BOOST_CHECK_THROW(answer.wait_token(0, has_left), ClientLeft);
  answer.add_token(Time::us(3), 0);
  BOOST_TEST(answer.wait_token(0, has_left).fs() == Time::us(3).fs());  // what is there, it gets
  BOOST_CHECK_THROW(answer.wait_end(has_left), ClientLeft);
}
