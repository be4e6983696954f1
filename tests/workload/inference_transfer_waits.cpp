// The class of traffic that the KV of a request waited for at the port where it waited longest.
#include <map>

#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

class Moves final : public ServiceSink {
 public:
  std::map<std::uint32_t, KvMoved> of;  ///< by request

 private:
  void on_kv_moved(const KvMoved& moved) override { of[moved.request] = moved; }
};

/// Prompts that arrive at once.
std::string prompts(std::uint32_t count) {
  std::string list;
  for (std::uint32_t i = 0; i < count; ++i) list += "{prompt_tokens: 1024, output_tokens: 2}, ";
  return "workload.requests={list: [" + list + "]}";
}

/// What transfers have waited for, with trains and with fluid links.
std::array<std::map<std::uint32_t, KvMoved>, 2> moved(const std::string& requests, const std::string& instances) {
  std::array<std::map<std::uint32_t, KvMoved>, 2> all;
  for (const bool fluid : {false, true}) {
    ServingBench run(tiny_serving({requests, "workload.instances=" + instances, "workload.router={policy: round_robin}",
                                   "workload.scheduler.max_batched_tokens=1024",
                                   std::string("fabric.fidelity=") + (fluid ? "fluid" : "train")}));
    Moves moves;
    run.service().add_sink(moves);
    run.run();
    all[fluid] = moves.of;
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_transfer_alone_waits_for_no_class) {
  for (const auto& moves : moved(prompts(1), "[{name: p, role: prefill}, {name: d, role: decode, gpus: [4]}]")) {
    BOOST_TEST(moves.at(0).waited_at == nullptr);
    BOOST_TEST(!moves.at(0).waited_for.has_value());
  }
}

BOOST_AUTO_TEST_CASE(transfers_into_one_gpu_wait_for_each_other) {
  for (const auto& moves : moved(prompts(3),
                                 "[{name: p, role: prefill, count: 3, gpus: [0, 1, 2]}, {name: d, role: "
                                 "decode, gpus: [4]}]")) {
    std::uint32_t waited = 0;
    for (const auto& [request, move] : moves) {
      if (move.waited == Time()) continue;
      ++waited;
      BOOST_TEST_REQUIRE(move.waited_for.has_value());
      BOOST_TEST((move.waited_for == TrafficClass::kv));
    }
    BOOST_TEST(waited >= 2u);
  }
}

BOOST_AUTO_TEST_CASE(a_transfer_beside_all_reduces_waits_for_them) {
  // Two ranks below different switches: the second prompt's all-reduces and the first one's KV share the links between
  // the switches. Nothing is computed while the second one's KV moves.
  for (const auto& moves : moved(prompts(2),
                                 "[{name: p, role: prefill, tp: 2, gpus: [0, 4]}, {name: d, role: decode, "
                                 "tp: 2, gpus: [5, 1]}]")) {
    const KvMoved& first = moves.at(0);
    BOOST_TEST(first.waited.fs() > 0);
    BOOST_TEST_REQUIRE(first.waited_for.has_value());
    BOOST_TEST((first.waited_for == TrafficClass::tp));
  }
}
