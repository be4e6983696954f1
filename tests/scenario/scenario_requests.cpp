// workload.requests of the kind `serving`: the forms, what they accept, and the sources they make.
#define BOOST_TEST_MODULE scenario_requests
#include <boost/test/unit_test.hpp>

#include "tests/scenario/request_forms.h"

using namespace railyard;
using namespace railyard::scenario;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

const std::string kLengths = "prompt_tokens: 100, output_tokens: 20";

}  // namespace

BOOST_AUTO_TEST_CASE(generated_requests) {
  const Requests r;
  const ServingRequests one = r.load("{" + kLengths + "}");
  BOOST_REQUIRE(taken(one).size() == 1u);
  BOOST_TEST(taken(one)[0].request.prompt_tokens == 100u);
  BOOST_TEST(taken(one)[0].request.output_tokens == 20u);
  BOOST_TEST(one.prompt->tokens == 100u);
  BOOST_TEST(one.prompt_and_output->tokens == 120u);
  BOOST_TEST(one.prompt->where.str() == "s.yaml:2:29");

  const auto constant = taken(r.load("{count: 3, arrivals: constant, rate_per_s: 4, " + kLengths + "}"));
  BOOST_TEST((constant.back().request.arrival == Time::ms(750)));
  const auto loop = taken(r.load("{count: 9, arrivals: closed_loop, concurrency: 2, " + kLengths + "}"));
  BOOST_TEST(loop.size() == 9u);
  const auto stages =
      taken(r.load("{arrivals: constant, stages: [{rate_per_s: 2, duration_s: 3}, {rate_per_s: 1, duration_s: 4}], " +
                   kLengths + "}"));
  BOOST_TEST(stages.size() == 10u);
  BOOST_TEST((stages.back().request.arrival == Time::ms(7000)));
}

BOOST_AUTO_TEST_CASE(distributions_of_lengths) {
  const Requests r;
  const ServingRequests uniform = r.load(
      "{count: 500, prompt_tokens: {uniform: {min: 5, max: 8}}, output_tokens: {lognormal: {mean: 30, cv_ratio: 1}}}");
  for (const RequestSource::Arrival& arrival : taken(uniform)) {
    BOOST_TEST(arrival.request.prompt_tokens >= 5u);
    BOOST_TEST(arrival.request.prompt_tokens <= 8u);
    BOOST_TEST(arrival.content.block_tokens == 0u);
  }
  BOOST_TEST(uniform.prompt->tokens == 8u);
  BOOST_TEST(!uniform.prompt_and_output);
  const auto longest =
      taken(r.load("{count: 500, prompt_tokens: {lognormal: {mean: 30, cv_ratio: 1}}, output_tokens: 1, "
                   "prefix: {groups: 2, users_per_group: 3, shared_tokens: 20}}"));
  for (const RequestSource::Arrival& arrival : longest) {
    BOOST_TEST(arrival.request.prompt_tokens >= 20u);
    BOOST_TEST(arrival.content.block_tokens == 20u);
  }
}

BOOST_AUTO_TEST_CASE(the_seed_selects_the_requests) {
  const Requests r;
  const std::string text = "{count: 20, arrivals: poisson, rate_per_s: 4, " + kLengths + "}";
  const auto arrivals = [&](std::uint64_t seed) {
    std::vector<std::uint64_t> result;
    for (const auto& one : taken(r.load(text, seed))) result.push_back(one.request.arrival.fs());
    return result;
  };
  BOOST_TEST((arrivals(1) == arrivals(1)));
  BOOST_TEST((arrivals(1) != arrivals(2)));
  BOOST_TEST((arrivals(1) != arrivals(1ull + (1ull << 32))));
}

BOOST_AUTO_TEST_CASE(a_list_by_arrival) {
  const Requests r;
  const ServingRequests list =
      r.load("{list: [{arrival_s: 2, prompt_tokens: 7, output_tokens: 9}, {prompt_tokens: 8, output_tokens: 1}]}");
  const auto all = taken(list);
  BOOST_REQUIRE(all.size() == 2u);
  BOOST_TEST(all[0].request.prompt_tokens == 8u);
  BOOST_TEST((all[1].request.arrival == Time::ms(2000)));
  BOOST_TEST(list.prompt->tokens == 8u);
  BOOST_TEST(list.prompt->where.str() == "s.yaml:2:73");
  BOOST_TEST(list.prompt_and_output->tokens == 16u);
  BOOST_TEST(list.prompt_and_output->where.str() == "s.yaml:2:21");
}

BOOST_AUTO_TEST_CASE(keys_that_do_not_fit_together) {
  const Requests r;
  const auto refusal = [&](const std::string& keys) {
    const std::string what = r.refusal("{" + keys + ", " + kLengths + "}");
    const std::string start = "s.yaml:2:";
    BOOST_REQUIRE(what.compare(0, start.size(), start) == 0);
    return what.substr(start.size());
  };
  BOOST_TEST(refusal("arrivals: poisson") ==
             "24: error: workload.requests.arrivals: poisson needs rate_per_s or stages");
  BOOST_TEST(refusal("arrivals: gamma, burstiness_ratio: 2") ==
             "24: error: workload.requests.arrivals: gamma needs rate_per_s or stages");
  BOOST_TEST(refusal("arrivals: closed_loop") ==
             "24: error: workload.requests.arrivals: closed_loop needs concurrency");
  BOOST_TEST(
      refusal("arrivals: closed_loop, concurrency: 4, rate_per_s: 6") ==
      "65: error: workload.requests.rate_per_s: does not apply to arrivals: closed_loop; accepted with arrivals: "
      "poisson, gamma, constant");
  BOOST_TEST(refusal("rate_per_s: 6") ==
             "26: error: workload.requests.rate_per_s: does not apply to arrivals: at_once; accepted with arrivals: "
             "poisson, gamma, constant");
  BOOST_TEST(
      refusal("stages: []") ==
      "22: error: workload.requests.stages: does not apply to arrivals: at_once; accepted with arrivals: poisson, "
      "gamma, constant");
  BOOST_TEST(refusal("arrivals: poisson, rate_per_s: 6, burstiness_ratio: 2") ==
             "66: error: workload.requests.burstiness_ratio: does not apply to arrivals: poisson; accepted with "
             "arrivals: gamma");
  BOOST_TEST(refusal("arrivals: poisson, rate_per_s: 6, concurrency: 2") ==
             "61: error: workload.requests.concurrency: does not apply to arrivals: poisson; accepted with arrivals: "
             "closed_loop");
  const std::string stages = "arrivals: poisson, stages: [{rate_per_s: 1, duration_s: 1}]";
  BOOST_TEST(refusal(stages + ", count: 5") ==
             "82: error: workload.requests.count: does not apply to stages; the requests end with the last stage");
  BOOST_TEST(refusal(stages + ", rate_per_s: 5") ==
             "87: error: workload.requests.rate_per_s: does not apply to stages; each stage has its rate_per_s");
  BOOST_TEST(refusal("arrivals: poisson, stages: []") ==
             "41: error: workload.requests.stages: is empty; accepted: at least one stage");
  BOOST_TEST(
      refusal("arrivals: poisson, stages: [{rate_per_s: 1, duration_s: 9000}, {rate_per_s: 1, duration_s: 9001}]") ==
      "41: error: workload.requests.stages: take 18001 s; accepted: up to 18000 s, the limit of a run");
  BOOST_TEST(refusal("arrivals: poisson, stages: [{rate_per_s: 1000, duration_s: 2000}]") ==
             "41: error: workload.requests.stages: give about 2000000 requests; accepted: up to 1000000");
  BOOST_TEST(
      refusal("arrivals: poisson, rate_per_s: 0.1, count: 1801") ==
      "45: error: workload.requests.rate_per_s: 1801 requests at this rate take more than 18000 s, the limit of a "
      "run");
  BOOST_TEST(refusal("arrivals: gamma, rate_per_s: 6, burstiness_ratio: 0")
                 .find("64: error: workload.requests.burstiness_ratio: '0' is out of range; accepted: ") == 0u);
  BOOST_TEST(refusal("arrivals: gamma, rate_per_s: 6, burstiness_ratio: -1").find("'-1' is out of range") !=
             std::string::npos);
  BOOST_TEST(refusal("arrivals: poison, rate_per_s: 6").find("(did you mean 'poisson'?)") != std::string::npos);
  BOOST_TEST(refusal("format: azure").find("is not accepted with the other keys here") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(lengths_and_prefixes_that_cannot_be) {
  const Requests r;
  const auto refusal = [&](const std::string& prompt, const std::string& more = "") {
    return r.refusal("{output_tokens: 5, prompt_tokens: " + prompt + more + "}");
  };
  BOOST_TEST(refusal("0") ==
             "s.yaml:2:47: error: workload.requests.prompt_tokens: '0' is out of range; accepted: 1 to 16777216");
  BOOST_TEST(refusal("{uniform: {min: 9, max: 8}}") ==
             "s.yaml:2:71: error: workload.requests.prompt_tokens.uniform.max: 8 is less than min, 9");
  BOOST_TEST(refusal("{lognormal: {mean: 9, cv_ratio: 0}}")
                 .find("s.yaml:2:79: error: "
                       "workload.requests.prompt_tokens.lognormal.cv_ratio: "
                       "'0' is out of range") == 0u);
  BOOST_TEST(refusal("{lognormal: {mean: 9}}").find("lognormal.cv_ratio: is required") != std::string::npos);
  BOOST_TEST(refusal("{normal: {mean: 9}}").find("prompt_tokens.normal: unknown key (did you mean 'lognormal'?)") !=
             std::string::npos);
  BOOST_TEST(refusal("[9]").find("prompt_tokens: expected a mapping, got a list") != std::string::npos);
  BOOST_TEST(r.refusal("{prompt_tokens: 5}").find("workload.requests.output_tokens: is required") != std::string::npos);

  const std::string prefix = ", prefix: {groups: 2, users_per_group: 3, shared_tokens: 101}";
  BOOST_TEST(refusal("100", prefix) ==
             "s.yaml:2:107: error: workload.requests.prefix.shared_tokens: 101 is more than the shortest prompt, 100 "
             "tokens");
  BOOST_TEST(refusal("101", prefix) == "accepted");
  BOOST_TEST(refusal("{uniform: {min: 100, max: 200}}", prefix).find("the shortest prompt, 100") != std::string::npos);
  BOOST_TEST(refusal("{lognormal: {mean: 100, cv_ratio: 1}}", prefix).find("the mean prompt, 100") !=
             std::string::npos);
  BOOST_TEST(refusal("100", ", prefix: {groups: 2000, users_per_group: 501, shared_tokens: 1}")
                 .find("workload.requests.prefix: 1002000 users; accepted: up to 1000000") != std::string::npos);
  BOOST_TEST(refusal("100", ", prefix: {groups: 2}").find("prefix.users_per_group: is required") != std::string::npos);
  BOOST_TEST(r.refusal("{list: []}") ==
             "s.yaml:2:20: error: workload.requests.list: is empty; accepted: at least one request");
  BOOST_TEST(r.refusal("{list: [{prompt_tokens: 5}]}").find("list.0.output_tokens: is required") != std::string::npos);
}

// Rows out of order, a byte-order mark, blank lines and CRLF: each request gets the ids of its own row.
BOOST_AUTO_TEST_CASE(llmservingsim_hash_ids) {
  const Requests r;
  const ServingRequests trace = r.trace(
      "llmservingsim",
      "\xef\xbb\xbf{\"input_toks\": 35, \"output_toks\": 5, \"arrival_time_ns\": 3000, \"hash_block_tokens\": 16, "
      "\"hash_ids\": [11, 12, 13]}\r\n\n"
      "{\"input_toks\": 33, \"output_toks\": 90, \"arrival_time_ns\": 1000, \"hash_block_tokens\": 16, \"hash_ids\": "
      "[11, 14], "
      "\"note\": \"\"}\n"
      "{\"input_toks\": 9, \"output_toks\": 6, \"arrival_time_ns\": 2000}\n"
      "{\"input_toks\": 8, \"output_toks\": 7, \"arrival_time_ns\": 1000, \"hash_block_tokens\": 4, \"hash_ids\": [1, "
      "2]}");
  const auto all = taken(trace);
  BOOST_REQUIRE(all.size() == 4u);
  const std::vector<std::uint32_t> prompts{33, 8, 9, 35}, blocks{16, 4, 0, 16};
  const std::vector<Ids> ids{{11, 14}, {1, 2}, {}, {11, 12}};  // only of blocks that the prompt fills
  for (std::size_t i = 0; i < all.size(); ++i) {
    BOOST_TEST(all[i].request.prompt_tokens == prompts[i]);
    BOOST_TEST(all[i].content.block_tokens == blocks[i]);
    BOOST_TEST(all[i].content.ids == ids[i], boost::test_tools::per_element());
  }
  BOOST_TEST((all[0].request.arrival == Time::us(1)));  // arrivals count from the start of the run
  BOOST_TEST(trace.prompt->tokens == 35u);
  BOOST_TEST(trace.prompt->where.str() == "t:1:1");
  BOOST_TEST(trace.prompt_and_output->tokens == 123u);
  BOOST_TEST(trace.prompt_and_output->where.str() == "t:3:1");
}

BOOST_AUTO_TEST_CASE(llmservingsim_token_ids) {
  const Requests r;
  const auto all =
      taken(r.trace("llmservingsim",
                    "{\"input_toks\": 3, \"output_toks\": 2, \"arrival_time_ns\": 5, \"input_tok_ids\": [7, 8, 9], "
                    "\"output_tok_ids\": [1, 2]}\n"));
  BOOST_TEST(all[0].content.block_tokens == 1u);
  BOOST_TEST(all[0].content.ids == (Ids{7, 8, 9, 1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(mooncake_hash_ids) {
  const Requests r;
  const auto all =
      taken(r.trace("mooncake",
                    "{\"timestamp\": 500, \"input_length\": 1024, \"output_length\": 2, \"hash_ids\": [0, 5]}\n"
                    "{\"timestamp\": 600, \"input_length\": 1025, \"output_length\": 2, \"hash_ids\": [0, 5, 6]}\n"
                    "{\"timestamp\": 700, \"input_length\": 1025, \"output_length\": 2}\n",
                    ", rate_scale: 2"));
  BOOST_TEST((all[0].request.arrival == Time()));  // the earliest arrives at zero
  BOOST_TEST((all[1].request.arrival == Time::ms(50)));
  for (const std::size_t i : {0u, 1u}) {
    BOOST_TEST(all[i].content.block_tokens == 512u);
    BOOST_TEST(all[i].content.ids == (Ids{0, 5}), boost::test_tools::per_element());
  }
  BOOST_TEST(all[2].content.ids.empty());
}

BOOST_AUTO_TEST_CASE(vidur_and_azure) {
  const Requests r;
  const auto vidur = taken(r.trace("vidur",
                                   "session,num_prefill_tokens,arrived_at,num_decode_tokens\n"
                                   "1,374,4.314579,44\n2,396,0.5,109\n3,1,1e2,1\n",
                                   ", max_count: 2"));
  BOOST_REQUIRE(vidur.size() == 2u);
  BOOST_TEST(vidur[0].request.prompt_tokens == 396u);
  BOOST_TEST((vidur[0].request.arrival == Time::ms(500)));
  BOOST_TEST((vidur[1].request.arrival == Time::us(4'314'579)));
  BOOST_TEST(vidur[1].request.output_tokens == 44u);
  const auto azure = taken(r.trace(
      "azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n2023-11-16 18:15:47,1,2\n"));
  BOOST_TEST(azure.size() == 2u);
  BOOST_TEST((azure[1].request.arrival == Time::ms(320)));
}

BOOST_AUTO_TEST_CASE(sources_of_a_trace_are_independent) {
  const Requests r;
  std::string rows;
  for (int i = 0; i < 20; ++i) {
    rows += "{\"input_toks\": 1, \"output_toks\": 2, \"arrival_time_ns\": " + std::to_string(1000 - i) +
            ", \"input_tok_ids\": [" + std::to_string(i) + "]}\n";
  }
  const ServingRequests trace = r.trace("llmservingsim", rows);
  const auto first = trace.make_source(), second = trace.make_source();
  for (std::uint64_t i = 0; i < 20; ++i) {
    BOOST_TEST(first->take().content.ids[0] == 19 - i);
    if (i >= 5) BOOST_TEST(second->take().content.ids[0] == 24 - i);
  }
}

BOOST_AUTO_TEST_CASE(a_trace_that_changes_during_the_run) {
  const Requests r;
  const ServingRequests trace = r.trace(
      "llmservingsim", "{\"input_toks\": 2, \"output_toks\": 2, \"arrival_time_ns\": 5, \"input_tok_ids\": [7, 8]}\n");
  const auto source = trace.make_source();
  r.scratch.write("t", "{\"input_toks\": 1, \"output_toks\": 2, \"arrival_time_ns\": 5, \"input_tok_ids\": [7]}\n   ");
  BOOST_CHECK_EXCEPTION(source->take(), InputError, [](const InputError& error) {
    return std::string(error.what()) == "t:1:1: error: the trace has changed since the start of the run";
  });
}

BOOST_AUTO_TEST_CASE(trace_errors_have_line_and_column) {
  const Requests r;
  const std::string good = "{\"input_toks\": 33, \"output_toks\": 2, \"arrival_time_ns\": 5}\n\n";
  const auto refusal = [&](const std::string& row) { return r.trace_refusal("llmservingsim", good + row + "\n"); };
  BOOST_TEST(refusal("") == "accepted");
  BOOST_TEST(refusal("{\"output_toks\": 2, \"arrival_time_ns\": 5}") ==
             "t:3:1: error: input_toks: is required on each line");
  BOOST_TEST(refusal("{\"input_toks\": 33, \"output_toks\": 0, \"arrival_time_ns\": 5}") ==
             "t:3:35: error: output_toks: '0' is out of range; accepted: 1 to 16777216");
  BOOST_TEST(refusal("{\"input_toks\": \"33\", \"output_toks\": 1, \"arrival_time_ns\": 5}") ==
             "t:3:16: error: input_toks: expected an integer, got '\"33\"'");
  BOOST_TEST(refusal("{\"input_toks\": 33, \"output_toks\": 2, \"arrival_time_ns\": -5}") ==
             "t:3:57: error: arrival_time_ns: expected nanoseconds, at least 0, got '-5'");
  BOOST_TEST(refusal("{\"input_toks\": 33, \"output_toks\": 2, \"arrival_time_ns\": x}")
                 .find("t:3:57: error: not valid JSON: ") == 0u);
  BOOST_TEST(refusal("{\"input_toks\": 33, \"output_toks\": 2, \"arrival_time_ns\": NaN}")
                 .find("t:3:1: error: expected a JSON object on each line, got ") == 0u);
  BOOST_TEST(refusal("[1]") == "t:3:1: error: expected a JSON object on each line, got '[1]'");
  const std::string row = "{\"input_toks\": 33, \"output_toks\": 2, \"arrival_time_ns\": 5, ";
  BOOST_TEST(refusal(row + "\"input_tok_ids\": [1, 2]}") ==
             "t:3:77: error: input_tok_ids: expected 33 ids, as input_toks says, got 2");
  BOOST_TEST(refusal(row + "\"output_tok_ids\": [1, 2, 3]}") ==
             "t:3:78: error: output_tok_ids: expected 2 ids, as output_toks says, got 3");
  BOOST_TEST(refusal(row + "\"hash_block_tokens\": 16, \"hash_ids\": [1]}") ==
             "t:3:97: error: hash_ids: a prompt of 33 tokens needs at least 2 ids of 16 tokens, got 1");
  BOOST_TEST(refusal(row + "\"hash_block_tokens\": 16, \"hash_ids\": [1, -2]}") ==
             "t:3:101: error: hash_ids.1: expected an integer, at least 0, got '-2'");
  BOOST_TEST(refusal(row + "\"hash_block_tokens\": 16, \"hash_ids\": 7}") ==
             "t:3:97: error: hash_ids: expected a list of integers, got '7'");
  BOOST_TEST(refusal(row + "\"hash_ids\": [1, 2]}") == "t:3:72: error: hash_ids: needs hash_block_tokens beside it");
  BOOST_TEST(refusal(row + "\"hash_block_tokens\": 0, \"hash_ids\": [1, 2]}") ==
             "t:3:81: error: hash_block_tokens: '0' is out of range; accepted: 1 to 16777216");

  BOOST_TEST(r.trace_refusal("mooncake",
                             "{\"timestamp\": 0, \"input_length\": 1024, \"output_length\": 2, \"hash_ids\": [0]}\n") ==
             "t:1:72: error: hash_ids: a prompt of 1024 tokens needs at least 2 ids of 512 tokens, got 1");
  const std::string header = "arrived_at,num_prefill_tokens,num_decode_tokens\n";
  for (const std::string time : {"nan", "-1", "", "1e10", "1s", "inf"}) {
    BOOST_TEST(r.trace_refusal("vidur", header + time + ",5,5\n") ==
               "t:2:1: error: arrived_at: expected seconds, at least 0, got '" + time + "'");
  }
  BOOST_TEST(r.trace_refusal("vidur", header + "1,5,0\n") ==
             "t:2:1: error: num_decode_tokens: '0' is out of range; accepted: 1 to 16777216");
  BOOST_TEST(r.trace_refusal("vidur", "num_prefill_tokens,num_decode_tokens\n1,5\n") ==
             "t:1:1: error: no column arrived_at; the header is 'num_prefill_tokens,num_decode_tokens'");
  BOOST_TEST(
      r.trace_refusal("vidur", header + "1,5,1\n18001,5,1\n") ==
      "t:3:1: error: the arrivals span more than 5 hours, the limit of a run; set a smaller max_count or a larger "
      "rate_scale");
  BOOST_TEST(
      r.refusal("{format: azure, file: none}").find("s.yaml:2:35: error: workload.requests.file: cannot read 'none'") ==
      0u);
}
