// Where the time to first token goes: the parts add up, and each part is what its name says.
#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

using Run = ServingBench;

/// Runs, and checks that the parts of each request add up.
std::vector<Stay> serve(const std::vector<std::string>& sets) {
  Run run(tiny_serving(sets));
  run.run();
  for (const Stay& served : run.served) {
    Time sum;
    for (const Time part : served.ttft.all()) sum += part;
    BOOST_TEST(sum.fs() == (served.times.first_token - served.request.arrival).fs());
  }
  return run.served;
}

Time part(Stay served, TtftPart part) { return served.ttft[part]; }

/// All parts but these are 0.
void check_only(const Stay& served, const std::vector<TtftPart>& parts) {
  for (std::size_t p = 0; p < kTtftParts; ++p)
    if (std::find(parts.begin(), parts.end(), static_cast<TtftPart>(p)) == parts.end())
      BOOST_TEST(served.ttft.all()[p].fs() == 0u, kTtftPartNames[p]);
}

std::string list(const std::string& requests) { return "workload.requests={list: [" + requests + "]}"; }
Time ttft(const Stay& s) { return s.times.first_token - s.request.arrival; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_lone_request_on_one_gpu_has_only_kernels) {
  const Stay one = serve({})[0];
  check_only(one, {TtftPart::prefill_kernels});
  BOOST_TEST(part(one, TtftPart::prefill_kernels).fs() > 0u);
}

BOOST_AUTO_TEST_CASE(host_time_is_the_api_server_and_the_preparation_of_each_chunk) {
  const std::string host = "workload.host=" + host_of("async: false, request_us: 700, token_us: 30, step_us: 100");
  const Stay one = serve({host, "workload.scheduler.max_batched_tokens=256"})[0];
  check_only(one, {TtftPart::host, TtftPart::prefill_kernels});
  BOOST_TEST(part(one, TtftPart::host).fs() == Time::us(700 + 30 + 4 * 100).fs());  // four chunks
  const Stay none = serve({"workload.scheduler.max_batched_tokens=256"})[0];
  BOOST_TEST(part(one, TtftPart::prefill_kernels).fs() == part(none, TtftPart::prefill_kernels).fs());
}

BOOST_AUTO_TEST_CASE(kernels_that_wait_for_their_launch_wait_for_the_host) {
  const std::vector<std::string> eager{"workload.cudagraph.mode=none"};
  const Stay none = serve(eager)[0];
  const Stay slow = serve({eager[0], "workload.host=" + host_of("eager_layer_us: 5000")})[0];
  // Six launches of 5 ms; all kernels but those of the last layer are hidden behind them.
  BOOST_TEST((part(slow, TtftPart::host) + part(slow, TtftPart::prefill_kernels)).fs() == ttft(slow).fs());
  BOOST_TEST(part(slow, TtftPart::prefill_kernels).fs() == ttft(none).fs());
  BOOST_TEST((part(slow, TtftPart::host) > Time::ms(25)));
}

BOOST_AUTO_TEST_CASE(all_of_the_queue_waits_for_a_slot) {
  auto served = serve({list("{prompt_tokens: 512, output_tokens: 3}, {prompt_tokens: 512, output_tokens: 3}, "
                            "{prompt_tokens: 512, output_tokens: 1}"),
                       "workload.scheduler.max_seqs=1"});
  const Time first = served[0].times.last_token, second = served[1].times.last_token;
  check_only(served[1], {TtftPart::queue_slots, TtftPart::prefill_kernels});
  BOOST_TEST(part(served[1], TtftPart::queue_slots).fs() == first.fs());
  check_only(served[2], {TtftPart::queue_slots, TtftPart::prefill_kernels});
  BOOST_TEST(part(served[2], TtftPart::queue_slots).fs() == second.fs());
}

BOOST_AUTO_TEST_CASE(lower_priorities_are_served_first) {
  auto served = serve({list("{prompt_tokens: 512, output_tokens: 3}, {prompt_tokens: 512, output_tokens: 3, "
                            "priority: 2}, {prompt_tokens: 512, output_tokens: 3, priority: 1}"),
                       "workload.scheduler={policy: priority, max_seqs: 1}"});
  BOOST_TEST((served[2].prefill_begun() == served[0].times.last_token));
  BOOST_TEST((served[1].prefill_begun() == served[2].times.last_token));
}

BOOST_AUTO_TEST_CASE(all_of_the_queue_waits_for_the_budget) {
  auto served = serve({list("{prompt_tokens: 512, output_tokens: 1}, {prompt_tokens: 512, output_tokens: 1}, "
                            "{prompt_tokens: 512, output_tokens: 1}"),
                       "workload.scheduler.max_batched_tokens=512"});
  for (const std::size_t r : {1, 2}) {
    check_only(served[r], {TtftPart::queue_budget, TtftPart::prefill_kernels});
    BOOST_TEST(part(served[r], TtftPart::queue_budget).fs() == served[r - 1].times.first_token.fs());
  }
}

BOOST_AUTO_TEST_CASE(a_short_prompt_waits_behind_one_that_does_not_fit) {
  // Prompts are not cut: 300 tokens do not fit beside 300, though the next prompt of 100 would.
  auto served = serve({list("{prompt_tokens: 300, output_tokens: 1}, {prompt_tokens: 300, output_tokens: 1}, "
                            "{prompt_tokens: 100, output_tokens: 1}"),
                       "workload.scheduler={max_batched_tokens: 512, max_seqs: 64, chunked_prefill: false}"});
  check_only(served[1], {TtftPart::queue_budget, TtftPart::prefill_kernels});
  check_only(served[2], {TtftPart::queue_behind, TtftPart::prefill_kernels});
  for (const std::size_t r : {1, 2}) BOOST_TEST(served[r].times.first_token.fs() == served[1].times.first_token.fs());
  BOOST_TEST(part(served[2], TtftPart::queue_behind).fs() == served[0].times.first_token.fs());
}

BOOST_AUTO_TEST_CASE(the_head_of_the_queue_waits_for_blocks_and_the_next_one_behind_it) {
  // 33 blocks hold one prompt of 512 tokens and its answer. One block is left, enough for the third request alone.
  auto served = serve({list("{prompt_tokens: 496, output_tokens: 4}, {prompt_tokens: 480, output_tokens: 1}, "
                            "{prompt_tokens: 8, output_tokens: 1}"),
                       "workload.kv_blocks=34", "workload.engine=trtllm-1.0"});
  check_only(served[1], {TtftPart::queue_blocks, TtftPart::prefill_kernels});
  check_only(served[2], {TtftPart::queue_behind, TtftPart::prefill_kernels});
  BOOST_TEST(part(served[1], TtftPart::queue_blocks).fs() == served[0].times.last_token.fs());
  BOOST_TEST(part(served[2], TtftPart::queue_behind).fs() == served[0].times.last_token.fs());
}

BOOST_AUTO_TEST_CASE(an_arrival_waits_for_the_next_step) {
  auto served = serve(
      {list("{prompt_tokens: 1024, output_tokens: 2}, {arrival_s: 0.0001, prompt_tokens: 64, output_tokens: 1}")});
  BOOST_TEST_REQUIRE((served[0].times.first_token > Time::us(100)));
  check_only(served[1], {TtftPart::step_alignment, TtftPart::prefill_kernels});
  BOOST_TEST(part(served[1], TtftPart::step_alignment).fs() == (served[0].times.first_token - Time::us(100)).fs());
}

BOOST_AUTO_TEST_CASE(tensor_parallel_ranks_wait_for_collectives) {
  const Stay one = serve({"workload.instances.0.tp=4"})[0];
  check_only(one, {TtftPart::prefill_kernels, TtftPart::tp});
  BOOST_TEST((part(one, TtftPart::tp) > Time()));
}

BOOST_AUTO_TEST_CASE(stages_send_activations_and_tokens) {
  Run run(tiny_serving({"workload.instances.0.pp=3"}));
  run.run();
  const Stay one = run.served[0];
  check_only(one, {TtftPart::prefill_kernels, TtftPart::pp});
  Time sent;
  for (const JobRow& row : run.records.of("PP_")) {
    if (row.number("It") == 0u) sent += row.end - row.start;  // activations twice, and the tokens
  }
  BOOST_TEST(part(one, TtftPart::pp).fs() == sent.fs());
}

BOOST_AUTO_TEST_CASE(a_batch_waits_for_the_batch_before_it) {
  Run run(tiny_serving({"workload.instances.0.pp=2", "workload.scheduler.max_batched_tokens=512",
                        list("{prompt_tokens: 512, output_tokens: 1}, {prompt_tokens: 512, output_tokens: 1}")}));
  run.run();
  const Stay second = run.served[1];
  check_only(second, {TtftPart::queue_pipeline, TtftPart::queue_budget, TtftPart::prefill_kernels, TtftPart::pp});
  const JobRow& first = run.records.named("It[0]_PP[0]_TP[0]");
  BOOST_TEST((part(second, TtftPart::queue_pipeline) >= first.end));
  // Activations take a little of the HBM bandwidth of kernels.
  BOOST_TEST(
      part(second, TtftPart::prefill_kernels).seconds() == part(run.served[0], TtftPart::prefill_kernels).seconds(),
      boost::test_tools::tolerance(1e-3));
}

BOOST_AUTO_TEST_CASE(chunks_that_overlap_count_once) {
  // Four chunks in a pipeline of two stages: stage 0 for all chunks, and stage 1 for the last one.
  Run run(tiny_serving({"workload.instances.0.pp=2", "workload.scheduler.max_batched_tokens=256"}));
  run.run();
  const Stay one = run.served[0];
  Time sum;
  for (const Time part : one.ttft.all()) sum += part;
  BOOST_TEST(sum.fs() == ttft(one).fs());
  Time kernels;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const JobRow& row = run.records.named("It[" + std::to_string(i) + "]_PP[0]_TP[0]");
    kernels += row.end - row.start;
  }
  const JobRow& last = run.records.named("It[3]_PP[1]_TP[0]");
  BOOST_TEST(part(one, TtftPart::prefill_kernels).fs() == (kernels + (last.end - last.start)).fs());
}

BOOST_AUTO_TEST_CASE(parts_add_up_under_all_settings) {
  const std::string load =
      "workload.requests={count: 60, arrivals: poisson, rate_per_s: 5000, prompt_tokens: {lognormal: {mean: 400, "
      "cv_ratio: 0.8}}, output_tokens: {lognormal: {mean: 30, cv_ratio: 0.8}}}";
  const std::string few_blocks = "workload.kv_blocks=180", few_tokens = "workload.scheduler.max_batched_tokens=384";
  std::uint32_t preemptions = 0;
  for (const std::string engine : {"vllm-0.19", "sglang-0.5", "trtllm-1.0"})
    for (const std::string shape : {"{name: a}", "{name: a, tp: 2, pp: 2}", "{name: a, pp: 3}",
                                    "{name: p, role: prefill, tp: 2}, {name: d, role: decode, pp: 2, gpus: [4, 5]}"})
      for (const std::string& host :
           {std::string("none"), host_of("async: true, step_us: 300, request_us: 50, token_us: 7"),
            host_of("async: false, step_us: 50, sequence_us: 5")}) {
        const auto served = serve({load, few_blocks, few_tokens, "workload.engine=" + engine,
                                   "workload.instances=[" + shape + "]", "workload.host=" + host});
        BOOST_TEST(served.size() == 60u);
        for (const Stay& one : served) preemptions += one.counts.preemptions;
      }
  BOOST_TEST(preemptions > 0u);  // also of prompts in several batches
}

BOOST_AUTO_TEST_CASE(of_two_instances_the_parts_are_prompt_queue_transfer_and_step) {
  // The second instance holds one request of 1000 + 20 tokens at a time.
  const std::vector<std::string> pair{
      "workload.requests={count: 3, prompt_tokens: 1000, output_tokens: 20}",
      "workload.instances=[{name: p, role: prefill}, {name: d, role: decode, gpus: [4], kv_blocks: 66}]",
      "workload.host=" + host_of("async: false, request_us: 700, token_us: 30, step_us: 100")};
  for (const std::string engine : {"vllm-0.19", "sglang-0.5", "trtllm-1.0"}) {
    for (const std::string handoff : {"pull", "push_per_chunk"}) {
      BOOST_TEST_INFO_SCOPE(engine << ", " << handoff);
      std::vector<std::string> sets = pair;
      sets.push_back("workload.kv_transfer.mode=" + handoff);
      sets.push_back("workload.scheduler={max_seqs: 64, max_batched_tokens: 256}");
      sets.push_back("workload.engine=" + engine);
      const std::vector<Stay> served = serve(sets);
      for (std::size_t i = 0; i < served.size(); ++i) {
        BOOST_TEST(part(served[i], TtftPart::prefill_kernels).fs() > 0u);
        BOOST_TEST(part(served[i], TtftPart::kv).fs() > 0u);
        BOOST_TEST((part(served[i], TtftPart::decode_kernels) > Time()) == (engine == "vllm-0.19"));
        if (i > 0) BOOST_TEST((part(served[i], TtftPart::decode_queue) > Time()));
      }
    }
  }
}
