// Host software beside the GPUs: what it adds to a run without it, to the femtosecond.
#include "tests/support/prefill_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;

namespace {

constexpr std::uint32_t kChunks = 4, kSteps = 5;

/// What a test looks at of a run of four chunks and five decode steps on one rank each.
struct Seen {
  Time ttft, prefilled, landed;
  std::vector<Time> tokens;
  Records records;
  double host_s = 0, window_s = 0;
};

Seen run_with(const std::string& host, const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets{"workload.host=" + host, "workload.handoff=at_end",
                                "workload.decode.steps=" + std::to_string(kSteps)};
  sets.insert(sets.end(), more.begin(), more.end());
  PrefillRun run(tiny_scenario(sets));
  run.run();
  const workload::inference::Stay& served = run.request();
  return {served.times.first_token,
          served.prefilled(),
          served.kv_landed(),
          served.times.tokens,
          std::move(run.records),
          run.service().instance(0).engine().pipeline().times(0).host_s,
          run.service().prefill_window().seconds()};
}

Time us(double microseconds) { return Time::seconds(microseconds * 1e-6); }

const std::string kNone = "none";

}  // namespace

BOOST_AUTO_TEST_CASE(a_request_and_its_tokens_pass_through_the_api_server) {
  const Seen none = run_with(kNone), served = run_with(host_of("request_us: 700, token_us: 30"));
  BOOST_TEST((served.ttft == none.ttft + us(730)));
  BOOST_TEST((served.prefilled == none.prefilled + us(700)));
  BOOST_TEST_REQUIRE(served.tokens.size() == none.tokens.size());
  for (std::size_t i = 0; i < none.tokens.size(); ++i) BOOST_TEST((served.tokens[i] == none.tokens[i] + us(730)));
  BOOST_TEST((served.records.named("Host_Request").end == us(700)));
  BOOST_TEST(served.records.of("Host_Token").size() == kSteps + 1u);
  BOOST_TEST((served.records.named("Host_Token[0]").start == served.prefilled));
}

BOOST_AUTO_TEST_CASE(a_synchronous_host_takes_its_time_before_every_step) {
  const Seen none = run_with(kNone), sync = run_with(host_of("async: false, step_us: 100, sequence_us: 50"));
  BOOST_TEST((sync.ttft == none.ttft + us(150) * kChunks));
  BOOST_TEST((sync.tokens.back() == none.tokens.back() + us(150) * (kChunks + kSteps)));
  BOOST_TEST(sync.host_s == kChunks * 150e-6, boost::test_tools::tolerance(1e-9));
  for (std::uint32_t c = 0; c < kChunks; ++c) {
    const JobRow& prepared = sync.records.named("Host_P_Chunk[" + std::to_string(c) + "]");
    BOOST_TEST((prepared.end == prepared.start + us(150)));
    BOOST_TEST((sync.records.named("P_Rank_PP[0]_TP[0]_Chunk[" + std::to_string(c) + "]").start == prepared.end));
  }
}

BOOST_AUTO_TEST_CASE(an_asynchronous_host_shows_where_it_exceeds_the_gpu) {
  const Seen none = run_with(kNone);
  // Much faster than any step: only the first chunk's and the first decode step's preparation show.
  const Seen fast = run_with(host_of("async: true, step_us: 1"));
  BOOST_TEST((fast.ttft == none.ttft + us(1)));
  BOOST_TEST((fast.tokens.back() == none.tokens.back() + us(2)));
  // Much slower: steps follow each other as the host prepares them.
  const Seen slow = run_with(host_of("async: true, step_us: 20000"));
  const JobRow& last_chunk = none.records.named("P_Rank_PP[0]_TP[0]_Chunk[3]");
  BOOST_TEST((slow.prefilled == us(20000) * kChunks + (none.prefilled - last_chunk.start)));
  const Time last_step = none.tokens[kSteps] - none.tokens[kSteps - 1];
  BOOST_TEST((slow.tokens.back() == later(slow.landed, slow.prefilled) + us(20000) * kSteps + last_step));
}

BOOST_AUTO_TEST_CASE(kernels_wait_for_their_launch_one_by_one_but_not_in_a_graph) {
  const Seen none = run_with(kNone);
  const Seen slow = run_with(host_of("async: true, layer_us: 5000"));
  // Six layers a chunk, and each chunk's launches behind those of the chunk before: the last layer's kernels come behind all.
  const JobRow& last = slow.records.named("Host_P_Launch_PP[0]_Layer[5]_Chunk[3]");
  BOOST_TEST((last.end == us(5000) * (6 * kChunks)));
  BOOST_TEST((slow.prefilled > last.end));
  BOOST_TEST((slow.prefilled - last.end < none.prefilled));
  // Decode is one graph.
  BOOST_TEST(slow.records.of("Host_D_Launch").empty());
  BOOST_TEST((slow.tokens.back() - slow.landed == none.tokens.back() - none.landed));
  // Launches that are faster than kernels show before the first one only.
  const Seen fast = run_with(host_of("async: true, layer_us: 1"));
  BOOST_TEST((fast.ttft >= none.ttft));
  BOOST_TEST((fast.ttft <= none.ttft + us(1)));
}

BOOST_AUTO_TEST_CASE(waits_for_the_host_are_counted_once) {
  // With nothing but kernels on one rank, the window is kernels, waits for the host, and nothing else.
  for (const std::string& host :
       {host_of("async: false, step_us: 400, layer_us: 300"), host_of("async: true, step_us: 2000, layer_us: 10")}) {
    PrefillRun run(tiny_scenario({"workload.host=" + host, "workload.handoff=at_end"}));
    run.run();
    const auto& times = run.service().instance(0).engine().pipeline().times(0);
    BOOST_TEST(times.host_s > 0.0);
    BOOST_TEST(times.kernels_s + times.host_s == run.service().prefill_window().seconds(),
               boost::test_tools::tolerance(1e-9));
    BOOST_TEST(times.occupied_s == times.kernels_s, boost::test_tools::tolerance(1e-9));
  }
}

BOOST_AUTO_TEST_CASE(stages_and_ranks_share_one_pass_of_the_host) {
  // Launches of both stages begin when the pass is prepared; all ranks of a stage wait for the same ones.
  PrefillRun run(tiny_scenario({"workload.prefill={tp: 2, pp: 2}", "workload.decode={tp: 2, pp: 2, steps: 3}",
                                "workload.requests={count: 3, prompt_tokens: 512}", "workload.host={}",
                                "workload.engine=vllm-0.19"}));
  run.run();
  BOOST_TEST(run.records.of("Host_Request").size() == 3u);
  BOOST_TEST(run.records.of("Host_P_Chunk").size() == 3u * 2);
  BOOST_TEST(run.records.of("Host_P_Launch").size() == 3u * 2 * 6);
  BOOST_TEST(run.records.of("Host_Token").size() == 3u * 4);
  for (const JobRow& prepared : run.records.of("Host_P_Chunk")) {
    const std::string chunk = "_Chunk[" + std::to_string(*prepared.number("Chunk")) + "]_Req[" +
                              std::to_string(*prepared.number("Req")) + "]";
    for (const std::string t : {"0", "1"})
      BOOST_TEST((run.records.named("P_Rank_PP[0]_TP[" + t + "]" + chunk).start >= prepared.end));
    for (const std::string first : {"PP[0]_Layer[0]", "PP[1]_Layer[3]"})
      BOOST_TEST((run.records.named("Host_P_Launch_" + first + chunk).start >= prepared.end));
  }
}
