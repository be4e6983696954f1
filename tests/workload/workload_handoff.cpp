// The KV cache on its way from prefill to decode: every byte where it belongs, in any shape of the two grids, and what
// it meets on the way.
#include "tests/support/prefill_run.h"
#include "tests/support/systemc_main.h"
#include "tests/transformer/transformer_models.h"

using namespace railyard;
using namespace railyard::test;
using workload::inference::Grid;

namespace {

/// KV bytes that landed, by memory window.
struct KvListener : transport::FabricListener {
  void on_send(const transport::Message&, Time) override {}
  void on_delivered(const transport::Message& message, Time) override {
    if (message.traffic_class == number(TrafficClass::kv)) landed[message.destination] += message.bytes;
  }
  void on_start(const transport::Device&, PortId, const transport::Transaction&, Time,
                const transport::Crossing&) override {}
  void on_queue(const transport::Device&, PortId, Bytes, Time) override {}
  void on_credit(const transport::Device&, PortId, std::uint8_t, Bytes, Time, Time) override {}
  std::map<transport::Window, Bytes> landed;
};

std::string shape(std::uint32_t tp, std::uint32_t pp) {
  return "{tp: " + std::to_string(tp) + ", pp: " + std::to_string(pp) + "}";
}

struct Shape {
  std::uint32_t tp, pp;
};

void check_conservation(Shape prefill, Shape decode, const std::string& handoff) {
  constexpr std::uint32_t kPrompt = 700;  // two whole chunks and a part
  PrefillRun run(tiny_scenario({"workload.prefill=" + shape(prefill.tp, prefill.pp),
                                "workload.decode=" + shape(decode.tp, decode.pp), "workload.handoff=" + handoff,
                                "workload.requests={prompt_tokens: 700}", "workload.decode.steps=1"}));
  KvListener listener;
  run.fabric().add_listener(listener);
  run.run();
  Grid& grid = run.service().instance(1).grid();
  Bytes all = 0;
  for (std::uint32_t r = 0; r < grid.ranks(); ++r) {
    const Bytes expected = kPrompt * grid.kv().bytes_per_token(r / grid.tp());
    BOOST_TEST(listener.landed[grid.rank(r).gpu->window()] == expected, handoff << " from " << prefill.tp << "x"
                                                                                << prefill.pp << " to " << decode.tp
                                                                                << "x" << decode.pp << ", rank " << r);
    all += expected;
  }
  Bytes told = 0;
  for (const JobRow& job : run.records.of("Handoff_PP")) told += job.bytes;
  BOOST_TEST(told == all);
  BOOST_TEST(run.fabric().ledger().totals(number(TrafficClass::kv)).bytes == all);
  // A cache that no rank replicates has 2 x 6 layers x 4 heads x 128 x 2 B per token.
  if (decode.tp <= 4) BOOST_TEST(all == kPrompt * 2u * 6 * 4 * 128 * 2);
}

Scenario two_stages(const std::string& handoff, const std::string& cable) {
  return tiny_scenario({"workload.prefill={tp: 2, pp: 2}", "workload.decode={tp: 2, pp: 2, steps: 1}",
                        "workload.handoff=" + handoff, "machine.overrides.ib_cable=" + cable,
                        "workload.requests={prompt_tokens: 2048}"});
}

}  // namespace

BOOST_AUTO_TEST_CASE(equal_grids_keep_their_shards) {
  for (const Shape s : {Shape{1, 1}, {2, 2}, {4, 2}, {2, 3}, {1, 6}})
    for (const std::string handoff : {"per_layer", "per_chunk", "at_end"}) check_conservation(s, s, handoff);
}

// Windowed layers hand over what the first token behind the prompt still sees, and are held for no more than that.
BOOST_AUTO_TEST_CASE(a_window_bounds_the_handoff) {
  const std::string config =
      R"({"model_type": "gemma2", "hidden_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4,
                              "head_dim": 128, "intermediate_size": 4096, "vocab_size": 8192, "sliding_window": 300})";
  constexpr Bytes kToken = 2 * 4 * 128 * 2;
  for (const std::string handoff : {"per_layer", "per_chunk", "at_end"}) {
    const Scratch scratch;
    scratch.write("m.json", config);
    PrefillRun run(tiny_scenario({"model.config=" + scratch.path("m.json"), "workload.prefill={tp: 2, pp: 1}",
                                  "workload.decode={tp: 2, pp: 3, steps: 1}", "workload.handoff=" + handoff,
                                  "workload.requests={prompt_tokens: 700}"}));
    Bytes held = 0;
    const Bytes before = run.decode_gpu(0).hbm().used();
    run.run([&] { held = std::max(held, run.decode_gpu(0).hbm().used() - before); });
    Bytes told = 0;
    for (const JobRow& job : run.records.of("Handoff_PP")) told += job.bytes;
    BOOST_TEST(told == (3 * 700 + 3 * 299) * kToken);
    BOOST_TEST(held == (702 + 300) * kToken / 2);  // a layer of each kind, half of the heads; two tokens of output
  }
}

BOOST_AUTO_TEST_CASE(different_grids_are_resharded) {
  for (const auto& [from, to] : {std::pair{Shape{4, 2}, Shape{2, 1}},
                                 {Shape{2, 1}, Shape{4, 2}},
                                 {Shape{4, 1}, Shape{1, 4}},
                                 {Shape{1, 4}, Shape{4, 1}},
                                 {Shape{2, 3}, Shape{4, 2}},
                                 {Shape{1, 2}, Shape{2, 3}}})
    for (const std::string handoff : {"per_layer", "per_chunk", "at_end"}) check_conservation(from, to, handoff);
}

BOOST_AUTO_TEST_CASE(uneven_stages_are_resharded) {
  for (const auto& [from, to] :
       {std::pair{Shape{1, 4}, Shape{1, 5}}, {Shape{2, 4}, Shape{1, 5}}, {Shape{1, 5}, Shape{2, 4}}})
    check_conservation(from, to, "per_chunk");  // 6 layers as 2+2+1+1 and 2+1+1+1+1
}

BOOST_AUTO_TEST_CASE(heads_are_replicated_where_ranks_outnumber_them) {
  // Four KV heads on eight ranks: each head is there twice; prefill's replicas share the sending.
  for (const std::string handoff : {"per_layer", "per_chunk"}) {
    check_conservation({8, 1}, {8, 1}, handoff);
    check_conservation({4, 1}, {8, 1}, handoff);
    check_conservation({8, 1}, {4, 1}, handoff);
    check_conservation({8, 1}, {2, 2}, handoff);
    check_conservation({2, 2}, {8, 1}, handoff);
  }
}

BOOST_AUTO_TEST_CASE(a_handoff_begins_when_what_it_carries_is_computed) {
  // A stage's KV is complete with its last attention kernels, at which its ranks enter the all-reduce behind them: the MLP,
  // and the LM head of a prompt's last chunk, come later.
  const std::string fast = "{gb_per_s: 50}";
  for (const std::string handoff : {"per_layer", "per_chunk", "at_end"}) {
    PrefillRun run(two_stages(handoff, fast));
    run.run();
    const std::vector<JobRow> handoffs = run.records.of("Handoff_PP");
    BOOST_TEST(handoffs.size() == (handoff == "at_end" ? 4u : handoff == "per_chunk" ? 8u * 4 : 8u * 6 * 2));
    for (const JobRow& job : handoffs) {
      const std::uint32_t stage = job.number("PP").value(), layer = job.number("Layer").value_or(3 * stage + 2);
      const JobRow& reduce =
          run.records.named("TP_AR_PP[" + std::to_string(stage) + "]_Layer[" + std::to_string(layer) + "]_Chunk[" +
                            std::to_string(job.number("Chunk").value()) + "]_Attn");
      BOOST_TEST((job.start >= reduce.start));  // its own rank enters at that moment; the last peer a little later
      BOOST_TEST((job.start <= reduce.start + reduce.queued));
      if (handoff == "at_end") BOOST_TEST(job.number("Chunk").value() == 7u);
    }
  }
}

BOOST_AUTO_TEST_CASE(no_handoff_waits_for_the_mlp_or_the_head) {
  // One rank has no gate: the last handoff is posted one MLP and the LM head before the first token. Its own bytes share HBM with
  // those kernels, which take up to a twentieth longer than alone.
  for (const std::string handoff : {"per_layer", "per_chunk", "at_end"}) {
    PrefillRun run(tiny_scenario({"workload.handoff=" + handoff, "workload.decode.steps=1"}));
    run.run();
    Time posted;
    for (const JobRow& job : run.records.of("Handoff_PP")) posted = later(posted, job.start);
    transformer::LayerTimer& timer = run.service().instance(0).grid().timer();
    const double behind = mlp(timer, 256).seconds + timer.head(1).seconds;
    const double left = (run.request().times.first_token - posted).seconds();
    BOOST_TEST(left >= behind * (1 - 1e-6));
    BOOST_TEST(left <= behind * 1.05);
  }
}

BOOST_AUTO_TEST_CASE(the_earlier_the_handoff_the_earlier_decode_where_the_network_is_slow) {
  const std::string slow = "{gb_per_s: 2}";
  std::vector<Time> landed, first_token;
  for (const std::string handoff : {"per_layer", "per_chunk", "at_end"}) {
    PrefillRun run(two_stages(handoff, slow));
    run.run();
    landed.push_back(run.request().kv_landed());
    first_token.push_back(run.request().times.first_token);
  }
  BOOST_TEST((landed[0] < landed[1]));
  BOOST_TEST((landed[1] < landed[2]));
  // At the end: the whole cache, 2 x 6 x 4 x 128 x 2 x 2048 B, over two NICs of 2 GB/s after prefill's stages are done.
  const double bytes = 2.0 * 6 * 4 * 128 * 2 * 2048;
  BOOST_TEST((landed[2] - first_token[2]).seconds() <= bytes / 2 / 2e9 * 1.05);
  BOOST_TEST((landed[2] - first_token[2]).seconds() >= bytes / 2 / 2 / 2e9);  // stage 0's half may have left before
}

BOOST_AUTO_TEST_CASE(two_caches_through_one_uplink_get_half_each) {
  // Ranks 0..3 on the GPUs of PLX 1; ranks 0 and 2 use NIC 0, below PLX 0: through one uplink of 10 GB/s.
  const auto handoff_times = [](std::uint32_t tp) {
    PrefillRun run(
        tiny_scenario({"workload.prefill.tp=" + std::to_string(tp), "workload.decode={tp: 1, steps: 1}",
                       "workload.handoff=at_end", "workload.placement=" + std::string(tp == 1 ? "[4]" : "[4,5,6,7]"),
                       "workload.requests={prompt_tokens: 4096}", "machine.overrides.plx_uplink={gb_per_s: 10}"}));
    run.run();
    std::vector<double> times;
    for (const JobRow& job : run.records.of("Handoff_PP")) {
      const std::uint32_t tp = job.number("TP").value();
      if (times.size() <= tp) times.resize(tp + 1);
      times[tp] = (job.end - job.start).seconds() / static_cast<double>(job.bytes);
    }
    return times;
  };
  const double alone = handoff_times(1)[0];
  const std::vector<double> shared = handoff_times(4);
  BOOST_TEST_REQUIRE(shared.size() == 4u);
  for (const std::size_t t : {0, 2}) BOOST_TEST(shared[t] == 2 * alone, boost::test_tools::tolerance(0.03));
  for (const std::size_t t : {1, 3}) BOOST_TEST(shared[t] < alone);  // these do not cross it
}

BOOST_AUTO_TEST_CASE(the_nearest_nic_beats_modulo_where_modulo_crosses_the_root_complex) {
  std::map<std::string, Time> landed;
  std::map<std::string, Bytes> crossed;
  for (const std::string rule : {"modulo", "nearest"}) {
    PrefillRun run(
        tiny_scenario({"workload.prefill={tp: 4, pp: 2}", "workload.decode={tp: 4, pp: 2, steps: 1}",
                       "workload.handoff=at_end", "workload.nic_rule=" + rule,
                       "workload.requests={prompt_tokens: 4096}", "machine.overrides.plx_uplink={gb_per_s: 16}"}));
    run.run();
    landed[rule] = run.request().kv_landed();
    const auto& server = *run.simulation.machine().servers().front();
    for (std::uint32_t p = 0; p < server.roots[0]->ports(); ++p)
      if (server.roots[0]->port(PortId(p)).name == "socket")
        crossed[rule] += server.roots[0]->port(PortId(p)).counters.payload_bytes;
  }
  BOOST_TEST((landed["nearest"] < landed["modulo"]));
  BOOST_TEST(crossed["modulo"] > crossed["nearest"]);  // what is left are the activations between the stages
}

BOOST_AUTO_TEST_CASE(every_box_and_network_delivers) {
  for (const std::string platform : {"dgx_b200", "dgx_h100", "dgx_a100", "plx_box"}) {
    for (const std::string network :
         {"{kind: single_switch}", "{kind: leaf_spine}", "{kind: rail_optimized, spines: 2}"}) {
      PrefillRun run(tiny_scenario(
          {"workload.prefill={tp: 4, pp: 2}", "workload.decode={tp: 8, pp: 1, steps: 1}", "machine.network=" + network},
          platform));
      KvListener listener;
      run.fabric().add_listener(listener);
      run.run();
      Grid& grid = run.service().instance(1).grid();
      for (std::uint32_t r = 0; r < grid.ranks(); ++r)
        BOOST_TEST(listener.landed[grid.rank(r).gpu->window()] == 1024 * grid.kv().bytes_per_token(0),
                   platform << " " << network);
    }
  }
}
