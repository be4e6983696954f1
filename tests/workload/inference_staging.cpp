// KV that goes through buffers: kernels gather it before the copy and bring it to its blocks after it.
#include "gpu/kernels/memory_bound.h"
#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

const std::string kOne = "workload.requests={list: [{prompt_tokens: 1024, output_tokens: 4}]}";
const std::string kUnequal =
    "workload.instances=[{name: p, role: prefill}, {name: d, role: decode, tp: 2, gpus: [4, 5]}]";
const std::string kEqual = "workload.instances=[{name: p, role: prefill}, {name: d, role: decode, gpus: [4]}]";

/// Time of the kernel that gathers so many bytes in a buffer, and of the one that brings them to their blocks.
Time gathered(const gpu::Gpu& gpu, Bytes bytes) {
  const auto moved = static_cast<double>(bytes);
  return Time::seconds(gpu::memory_bound_time(gpu.datasheet(), moved, moved).seconds);
}
Time scattered(const gpu::Gpu& gpu, Bytes bytes) {
  return Time::seconds(gpu::memory_bound_time(gpu.datasheet(), 0, 2 * static_cast<double>(bytes)).seconds);
}

void check_parts(const Stay& served) {
  Time sum;
  for (const Time part : served.ttft.all()) sum += part;
  BOOST_TEST((sum == served.times.first_token - served.request.arrival));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_lone_transfer_has_a_kernel_before_it_and_one_after_it) {
  for (const std::string mode : {"pull", "push_at_end"}) {
    BOOST_TEST_INFO_SCOPE(mode);
    ServingBench run(tiny_serving({kOne, kEqual, "workload.kv_transfer={staging: all, mode: " + mode + "}"}));
    run.run();
    const gpu::Gpu &from = *run.service().instance(0).grid().rank(0).gpu,
                   &to = *run.service().instance(1).grid().rank(0).gpu;
    const Bytes bytes = 1024 * run.service().instance(1).grid().kv().bytes_per_token(0);
    const Time alone = run.simulation.fabric().uncontended(from.window(), to.window(), number(TrafficClass::kv), bytes,
                                                           transport::Engine::copy_engine);
    const JobRow &gather = run.records.named("KvGather_PP[0]_TP[0]" + std::string(mode == "pull" ? "" : "_Chunk[0]") +
                                             "_Req[0]"),
                 &scatter = run.records.named("KvScatter_PP[0]_TP[0]_FromPP[0]_FromTP[0]" +
                                              std::string(mode == "pull" ? "" : "_Chunk[0]") + "_Req[0]");
    if (mode == "pull") {
      BOOST_TEST((gather.end - gather.start).fs() == gathered(from, bytes).fs());
      BOOST_TEST((run.served[0].kv_landed() - run.served[0].prefilled()).fs() ==
                 (gathered(from, bytes) + alone + scattered(to, bytes)).fs());
    }
    BOOST_TEST((scatter.start - gather.end).fs() == alone.fs());
    BOOST_TEST((scatter.end - scatter.start).fs() == scattered(to, bytes).fs());
    check_parts(run.served[0]);
  }
}

BOOST_AUTO_TEST_CASE(staged_kv_is_one_piece_for_each_pair_of_ranks) {
  // Without staging a piece for each token, layer, and keys or values; staged one, of ranks that divide the heads in other ways.
  for (const std::string staging : {"none", "resharded", "all"})
    for (const bool is_equal : {false, true}) {
      BOOST_TEST_INFO_SCOPE(staging << is_equal);
      ServingBench run(
          tiny_serving({kOne, is_equal ? kEqual : kUnequal,
                        "workload.kv_transfer={descriptor_us: 1, scatters_heads: true, staging: " + staging + "}"}));
      run.run();
      const bool is_staged = staging == "all" || (staging == "resharded" && !is_equal);
      const std::uint64_t pieces = is_staged ? 1 : (is_equal ? 1 : 1024) * 6 * 2;
      BOOST_TEST((run.served[0].ttft[TtftPart::kv_post] == Time::us(pieces)));
      BOOST_TEST((run.served[0].ttft[TtftPart::kv_staging] > Time()) == is_staged);
      check_parts(run.served[0]);
    }
}

BOOST_AUTO_TEST_CASE(staged_kv_of_many_requests_runs_as_simulated) {
  for (const std::string mode : {"pull", "push_per_layer", "push_per_chunk"}) {
    BOOST_TEST_INFO_SCOPE(mode);
    std::vector<std::string> outcomes;
    for (const bool simulates : {false, true}) {
      ServingBench run(
          tiny_serving(
              {"workload.requests={count: 24, arrivals: poisson, rate_per_s: 2000, prompt_tokens: 700, output_tokens: "
               "30}",
               "workload.instances=[{name: p, role: prefill, tp: 2, count: 2}, {name: d, role: decode, tp: 4}]",
               "workload.kv_transfer={connector: mooncake, staging: resharded, mode: " + mode + "}"},
              "dgx_h100"),
          false);
      if (simulates) run.simulation.workload().executor().simulate_every_collective();
      run.run();
      std::string text;
      for (const Stay& served : run.served) {
        check_parts(served);
        for (const Time token : served.times.tokens) text += fmt::format("{} ", token.fs());
      }
      outcomes.push_back(std::move(text));
    }
    BOOST_TEST((outcomes[0] == outcomes[1]));
  }
}
