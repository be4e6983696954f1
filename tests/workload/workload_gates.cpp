// What waits for what in a whole run, and that each byte of it is counted once: the faults that a simpler model has,
// each with a case that would catch it.
#include "tests/support/prefill_run.h"
#include "tests/support/systemc_main.h"
#include "tests/transformer/transformer_models.h"

using namespace railyard;
using namespace railyard::test;
using workload::inference::Grid;

namespace {

Scenario ideal_scenario(const std::vector<std::string>& sets, const std::string& platform = "plx_box") {
  Scenario scenario = tiny_scenario(sets, platform);
  idealise(scenario.machine);
  return scenario;
}

Time kernel_time(const transformer::Segment& segment) { return Time::seconds(segment.seconds); }

/// Kernels of one layer and around the layers, for a chunk of `tokens` after `start` others.
struct ChunkKernels {
  ChunkKernels(Grid& instance, std::uint64_t tokens, std::uint64_t start)
      : attention(kernel_time(prefill_attention(instance.timer(), tokens, start))),
        mlp(kernel_time(test::mlp(instance.timer(), tokens))),
        embedding(kernel_time(instance.timer().embedding(tokens))),
        head(kernel_time(instance.timer().head(1))) {}
  Time attention, mlp, embedding, head;
};

}  // namespace

/// No handoff reads HBM beside kernels, but for those behind the last attention.
constexpr const char* kQuietMemory = "workload.handoff=at_end";

BOOST_AUTO_TEST_CASE(one_rank_prefills_in_the_time_of_its_kernels) {
  PrefillRun run(ideal_scenario({kQuietMemory}));
  run.run();
  Time expected, behind;
  const std::uint32_t layers = run.service().instance(0).grid().model().layers;
  for (std::uint32_t chunk = 0; chunk < 4; ++chunk) {
    const ChunkKernels k(run.service().instance(0).grid(), 256, 256 * chunk);
    expected += k.embedding + (k.attention + k.mlp) * layers;
    behind = k.mlp + k.head;
    if (chunk < 3)
      BOOST_TEST((run.records.named("P_Rank_PP[0]_TP[0]_Chunk[" + std::to_string(chunk) + "]").end == expected));
    if (chunk == 3) expected = expected - k.mlp;
  }
  const std::vector<JobRow> handoffs = run.records.of("Handoff_PP");
  BOOST_TEST_REQUIRE(handoffs.size() == 1u);
  BOOST_TEST(handoffs[0].start.fs() == expected.fs());
  BOOST_TEST((run.request().times.first_token >= expected + behind));
  BOOST_TEST((run.request().times.first_token - expected).seconds() == behind.seconds(),
             boost::test_tools::tolerance(0.05));
}

BOOST_AUTO_TEST_CASE(two_whole_all_reduces_a_layer_on_the_critical_path_on_peer_links) {
  // Four GPUs below one PCIe switch on ideal links: a ring of 2(n-1) steps of c = S/n, or as many bytes in one shot.
  for (const std::uint32_t tp : {2u, 4u}) {
    for (const std::uint32_t tokens : {64u, 1024u}) {
      PrefillRun run(ideal_scenario({"workload.prefill.tp=" + std::to_string(tp), "workload.chunk_tokens=1024",
                                     "workload.requests={prompt_tokens: " + std::to_string(tokens) + "}",
                                     "workload.decode.tp=1"}));
      run.run();
      const Grid& instance = run.service().instance(0).grid();
      const Bytes hidden = Bytes(tokens) * instance.model().hidden * 2;
      const auto& link = run.prefill_gpu(0).port(run.prefill_gpu(0).pcie()).egress.link();
      // A pair exchanges whole vectors in one shot, between two exchanges of flags: as many bytes as in a ring. Four below a
      // PCIe switch leave it to NCCL, whose protocol for small messages stores a flag with every word.
      const Bytes flags = tp == 2 ? 2 * collective::kFlagBytes : 0;
      const Bytes stored = tp == 4 && tokens == 64 ? 2 : 1;
      const Time all_reduce = link.rate.time_for(stored * 2 * (tp - 1) * hidden / tp + flags);
      const ChunkKernels k(run.service().instance(0).grid(), tokens, 0);
      // Up to the last layer, whose attention lets the handoff go, over the same links.
      const std::uint32_t last = instance.model().layers - 1;
      const Time expected = k.embedding + (k.attention + k.mlp + all_reduce * 2) * last;
      const JobRow& reduce = run.records.named("TP_AR_PP[0]_Layer[" + std::to_string(last - 1) + "]_Chunk[0]_Mlp");
      // Each step is rounded up to a femtosecond on its own.
      BOOST_TEST(reduce.end.seconds() == expected.seconds(), boost::test_tools::tolerance(1e-9));
      const Bytes crossed = Bytes(instance.model().layers) * 2 * (stored * 2 * (tp - 1) * hidden / tp + flags);
      const Bytes kv = Bytes(tokens) * instance.kv().bytes_per_token(0);
      for (std::uint32_t t = 0; t < tp; ++t) {
        BOOST_TEST(PrefillRun::pcie_sent(run.prefill_gpu(t)) == crossed + kv);  // read for the handoff, too
        BOOST_TEST(PrefillRun::pcie_received(run.prefill_gpu(t)) == crossed);  // half-duplex or own-lane-only would not
      }
      BOOST_TEST(run.records.of("TP_AR_PP").size() == 2 * instance.model().layers);
    }
  }
}

BOOST_AUTO_TEST_CASE(all_reduces_on_nvswitch_move_the_same_bytes_over_all_planes) {
  constexpr std::uint32_t kTp = 4, kTokens = 512;
  PrefillRun run(tiny_scenario(
      {"workload.prefill.tp=4", "workload.requests={prompt_tokens: 512}", "workload.decode.tp=1"}, "dgx_h100"));
  run.run();
  const Bytes hidden = Bytes(kTokens) * 1024 * 2;
  const Bytes chunk_hidden = hidden / 2;  // two chunks of 256
  for (std::uint32_t t = 0; t < kTp; ++t) {
    const gpu::Gpu& gpu = run.prefill_gpu(t);
    Bytes sent = 0, received = 0;
    for (std::uint32_t plane = 0; plane < 4; ++plane) {
      const transport::Device::Port& port = gpu.port(gpu.nvlink(plane));
      sent += port.counters.payload_bytes;
      received += port.peer->port(port.peer_port).counters.payload_bytes;
    }
    const Bytes expected = Bytes(2) * 6 * 2 * 2 * (kTp - 1) * chunk_hidden / kTp;
    BOOST_TEST(sent == expected);
    BOOST_TEST(received == expected);
    BOOST_TEST(PrefillRun::pcie_received(gpu) == 0u);
  }
}

BOOST_AUTO_TEST_CASE(later_chunks_attend_to_all_earlier_ones) {
  Scenario scenario =
      ideal_scenario({"workload.requests={prompt_tokens: 4096}", "workload.chunk_tokens=512", kQuietMemory});
  scenario.model.heads = 32;  // enough blocks to fill the GPU, so that context cannot be split over idle SMs
  PrefillRun run(scenario);
  run.run();
  const std::uint32_t layers = run.service().instance(0).grid().model().layers;
  Time before;
  for (std::uint32_t chunk = 0; chunk < 7; ++chunk) {  // the last one has the head, too
    const JobRow& job = run.records.named("P_Rank_PP[0]_TP[0]_Chunk[" + std::to_string(chunk) + "]");
    const ChunkKernels k(run.service().instance(0).grid(), 512, 512 * chunk);
    BOOST_TEST((job.end - job.start).fs() == (k.embedding + (k.attention + k.mlp) * layers).fs());
    BOOST_TEST((job.end - job.start > before));
    before = job.end - job.start;
  }
}

BOOST_AUTO_TEST_CASE(chunks_are_pipelined_and_gated_by_their_activations) {
  PrefillRun run(tiny_scenario({"workload.prefill={tp: 2, pp: 2}", "workload.decode={tp: 2, pp: 2, steps: 2}"}));
  run.run();
  for (std::uint32_t c = 0; c < 4; ++c) {
    const std::string chunk = "Chunk[" + std::to_string(c) + "]";
    for (const std::string t : {"0", "1"}) {
      const JobRow& send = run.records.named("PP_Act_FromP[0]_ToP[1]_TP[" + t + "]_" + chunk);
      const JobRow& before = run.records.named("P_Rank_PP[0]_TP[" + t + "]_" + chunk);
      const JobRow& after = run.records.named("P_Rank_PP[1]_TP[" + t + "]_" + chunk);
      BOOST_TEST((send.start >= before.end));
      BOOST_TEST((after.start > send.end));   // the gather of the shards lies between
      BOOST_TEST(send.bytes == 256u * 1024);  // half of the activations each
    }
    // A rank goes on when its own part of the gather is done; the gather is over with the last.
    const JobRow& gather = run.records.named("TP_AG_PP[1]_" + chunk);
    const Time first = run.records.named("P_Rank_PP[1]_TP[0]_" + chunk).start,
               second = run.records.named("P_Rank_PP[1]_TP[1]_" + chunk).start;
    BOOST_TEST((later(first, second) >= gather.end));
    BOOST_TEST((sooner(first, second) > gather.start));
  }
  // Stage 0 works on chunk 1 while stage 1 works on chunk 0.
  BOOST_TEST(
      (run.records.named("P_Rank_PP[0]_TP[0]_Chunk[1]").start < run.records.named("P_Rank_PP[1]_TP[0]_Chunk[0]").end));
}

BOOST_AUTO_TEST_CASE(whole_activations_need_no_gather_and_twice_the_bytes) {
  PrefillRun run(tiny_scenario(
      {"workload.prefill={tp: 2, pp: 2}", "workload.decode={tp: 2, pp: 2, steps: 2}", "workload.pp_send=full"}));
  run.run();
  for (const JobRow& send : run.records.of("PP_Act_FromP")) BOOST_TEST(send.bytes == 256u * 1024 * 2);
  BOOST_TEST(run.records.of("TP_AG_PP").empty());
  const JobRow& send = run.records.named("PP_Act_FromP[0]_ToP[1]_TP[0]_Chunk[0]");
  BOOST_TEST((run.records.named("P_Rank_PP[1]_TP[0]_Chunk[0]").start == send.end));
}

BOOST_AUTO_TEST_CASE(the_gate_waits_for_the_last_peer_and_says_so) {
  // Stage 1 on GPUs 2 and 4: the second one's activations cross a slow link between the sockets and come later.
  PrefillRun run(
      tiny_scenario({"workload.prefill={tp: 2, pp: 2}", "workload.decode={tp: 1, pp: 1, steps: 1}",
                     "workload.pp_send=full", "workload.placement=[0,1,2,4]", "workload.requests={prompt_tokens: 256}",
                     "machine.overrides={socket_link: {gb_per_s: 10}}"}));
  run.run();
  const JobRow& near = run.records.named("P_Rank_PP[1]_TP[0]_Chunk[0]");
  const JobRow& far = run.records.named("P_Rank_PP[1]_TP[1]_Chunk[0]");
  BOOST_TEST_REQUIRE((far.start > near.start));
  const JobRow& reduce = run.records.named("TP_AR_PP[1]_Layer[3]_Chunk[0]_Attn");
  BOOST_TEST((reduce.queued == far.start - near.start));
  BOOST_TEST((reduce.start == near.start + ChunkKernels(run.service().instance(0).grid(), 256, 0).attention));
  const auto& times = run.service().instance(0).engine().pipeline();
  BOOST_TEST(times.times(2).tp_sync_s >= reduce.queued.seconds());
  BOOST_TEST(times.times(3).tp_sync_s < reduce.queued.seconds());
}

BOOST_AUTO_TEST_CASE(no_all_reduce_starts_before_its_kernels_and_no_kernel_before_its_all_reduce) {
  PrefillRun run(tiny_scenario({"workload.prefill.tp=4", "workload.decode.tp=1"}));
  run.run();
  for (std::uint32_t c = 0; c < 4; ++c) {
    const ChunkKernels k(run.service().instance(0).grid(), 256, 256 * c);
    const std::string chunk = "Chunk[" + std::to_string(c) + "]";
    Time ready = Time::max();
    for (const std::string t : {"0", "1", "2", "3"})
      ready = sooner(ready, run.records.named("P_Rank_PP[0]_TP[" + t + "]_" + chunk).start);
    ready += k.embedding;
    for (std::uint32_t layer = 0; layer < 6; ++layer) {
      const std::string name = "TP_AR_PP[0]_Layer[" + std::to_string(layer) + "]_" + chunk;
      const JobRow& attention = run.records.named(name + "_Attn");
      BOOST_TEST((attention.start >= ready + k.attention));
      BOOST_TEST((attention.end > attention.start + attention.queued));
      const JobRow& mlp = run.records.named(name + "_Mlp");
      BOOST_TEST(
          (mlp.start >= attention.start + attention.queued + k.mlp));  // nobody is through before the last has entered
      BOOST_TEST(mlp.bytes == 256u * 1024 * 2);
      ready = mlp.start + mlp.queued;
    }
  }
}

BOOST_AUTO_TEST_CASE(decode_waits_for_the_last_byte_of_the_cache) {
  // A cable of 1 GB/s: the cache lands long after the first token.
  for (const std::string handoff : {"per_layer", "per_chunk", "at_end"}) {
    PrefillRun run(tiny_scenario({"workload.prefill={tp: 2, pp: 2}", "workload.decode={tp: 2, pp: 2, steps: 2}",
                                  "workload.handoff=" + handoff, "machine.overrides.ib_cable={gb_per_s: 1}"}));
    run.run();
    Time last;
    for (const JobRow& job : run.records.of("Handoff_PP")) last = later(last, job.end);
    BOOST_TEST_REQUIRE((last > run.request().times.first_token));
    BOOST_TEST((run.request().kv_landed() == last));
    BOOST_TEST((run.request().decode_begun() == last));
    for (const JobRow& job : run.records.of("D_Rank_")) BOOST_TEST((job.start >= last));
  }
}

BOOST_AUTO_TEST_CASE(decode_of_the_last_token_waits_for_prefill_when_the_cache_is_early) {
  // On ideal links a layer's cache lands while the next layer computes; the last one's before the head is done.
  Scenario scenario = ideal_scenario({"workload.handoff=per_layer"});
  for (platforms::LinkDatasheet* link :
       {&scenario.machine.gpu_pcie, &scenario.machine.nic_pcie, &scenario.machine.ib_cable})
    link->gb_per_s = 1e4;
  for (platforms::GroupSpec& group : scenario.machine.groups) group.gpu_pcie.gb_per_s = 1e4;
  scenario.machine.nic.gb_per_s = 1e4;
  PrefillRun run(scenario);
  run.run();
  BOOST_TEST((run.request().kv_landed() == run.request().times.first_token));
  BOOST_TEST((run.request().decode_begun() == run.request().times.first_token));
}

BOOST_AUTO_TEST_CASE(decode_steps_follow_each_other_through_every_stage) {
  PrefillRun run(tiny_scenario({"workload.decode={tp: 2, pp: 2, steps: 5}", "workload.prefill={tp: 2, pp: 2}"}));
  run.run();
  BOOST_TEST(run.request().times.tokens.size() == 6u);
  BOOST_TEST(run.records.of("D_Rank_").size() == 5u * 4);
  for (std::uint32_t s = 0; s < 5; ++s) {
    const std::string step = "_Step_[" + std::to_string(s) + "]";
    const JobRow& second = run.records.named("D_Rank_[2]" + step);
    BOOST_TEST((second.start >= run.records.named("D_Rank_[0]" + step).end));
    BOOST_TEST((run.request().times.tokens[s + 1] >= second.end));
    if (s == 4) continue;
    const JobRow& token = run.records.named("D_Token_FromP[1]_ToP[0]_TP[0]" + step);
    BOOST_TEST((token.start >= second.end));
    BOOST_TEST((run.records.named("D_Rank_[0]_Step_[" + std::to_string(s + 1) + "]").start >= token.end));
  }
}

BOOST_AUTO_TEST_CASE(activations_alone_on_nvlink_take_what_they_take_alone) {
  // The copy engine's packets, not an SM's stores, on both sides of the comparison.
  PrefillRun run(
      tiny_scenario({"workload.prefill={tp: 1, pp: 2}", "workload.decode={tp: 1, pp: 1, steps: 1}"}, "dgx_h100"));
  run.run();
  const transport::ClassTotals& pp = run.fabric().ledger().totals(number(TrafficClass::pp));
  BOOST_TEST(pp.messages > 0u);
  BOOST_TEST(pp.actual.seconds() == pp.uncontended.seconds(), boost::test_tools::tolerance(0.005));
}

BOOST_AUTO_TEST_CASE(a_run_that_stands_still_says_which_job_waits_for_what) {
  // Cut short where a late chunk of stage 0 keeps its peers and stage 1 waiting.
  PrefillRun run(tiny_scenario({"workload.prefill={tp: 2, pp: 2}", "workload.decode={tp: 2, pp: 2, steps: 1}"}));
  bool gate = false, stage = false;
  run.simulation.run([&](Time) {
    for (const std::string& line : run.simulation.workload().blocked()) {
      gate = gate || line.find("AR attn L0 of Chunk[0] waits for member 1 to enter") != std::string::npos ||
             line.find("AR attn L0 of Chunk[0] waits for bytes of its peers") != std::string::npos;
      stage =
          stage ||
          line.find("prefill rank 2 (prefill0.gpu2), stream compute: AG of Chunk[0] waits for jobs of other streams") !=
              std::string::npos;
    }
    return !(gate && stage);
  });
  BOOST_TEST(gate);
  BOOST_TEST(stage);
  BOOST_TEST(!run.service().api_server().done());
}
