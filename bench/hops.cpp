// Speed of the fabric: hop-transactions per second (user time) with 1, 100 and 10 000 messages in flight, on 8 GPUs
// around one switch and on 1024 endpoints of a leaf-spine; and how the stock PEQ of TLM-2.0 takes the same number of
// pending events. Each figure is the best of three, each in a process of its own, because the kernel elaborates once;
// on a shared machine ratios mean more than figures. With thousands of messages on a thousand endpoints a hop costs
// cache misses: every port, queue and transaction it meets has left the cache since it was met last.
#include <tlm_utils/peq_with_cb_and_phase.h>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <deque>
#include <string>
#include <systemc>

#include "bench/star.h"

using namespace railyard;
using namespace railyard::transport;
using namespace railyard::bench;

namespace {

double user_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// A machine that keeps a number of messages in flight: each that lands starts another, to a destination that moves on.
struct Load : MessageClient, CalendarClient {
  explicit Load(Bytes transaction_bytes) : fabric(VcPlan(), transaction_bytes) {}

  void build_one_switch() {
    Switch& sw = switches.emplace_back("switch", fabric.context(), Switch::DecodeBy::window);
    fabric.add_device(sw);
    for (Window w = 0; w < 8; ++w) attach(gpus.emplace_back("gpu" + std::to_string(w), fabric, w), sw, nvlink());
  }
  void build_leaf_spine() {
    constexpr std::uint32_t kLeaves = 32, kSpines = 32, kPerLeaf = 32;
    const LinkDirection ib = link(50, 300, 1 << 18, 4096, 26, 0);
    for (std::uint32_t s = 0; s < kLeaves + kSpines; ++s) {
      switches.emplace_back(("switch" + std::to_string(s)).c_str(), fabric.context(), Switch::DecodeBy::window);
      fabric.add_device(switches.back());
    }
    for (Window w = 0; w < kLeaves * kPerLeaf; ++w)
      attach(gpus.emplace_back("gpu" + std::to_string(w), fabric, w), switches[w / kPerLeaf], ib);
    for (std::uint32_t l = 0; l < kLeaves; ++l) {
      for (std::uint32_t s = 0; s < kSpines; ++s) {
        Switch& leaf = switches[l];
        Switch& spine = switches[kLeaves + s];
        const PortId up = leaf.add_port("up" + std::to_string(s), ib);
        const PortId down = spine.add_port("port" + std::to_string(l), ib);
        Device::connect(leaf, up, spine, down);
        for (const Memory& gpu : gpus) {
          if (gpu.window() / kPerLeaf == l) spine.decoder().map(gpu.window(), down);
          if (gpu.window() / kPerLeaf != l && gpu.window() % kSpines == s) leaf.decoder().map(gpu.window(), up);
        }
      }
    }
  }

  void start_message(std::uint32_t number) {
    Message m;
    const auto n = static_cast<std::uint32_t>(gpus.size());
    m.source = number % n;
    m.destination = (m.source + 1 + (number / n * 7 + started++) % (n - 1)) % n;
    m.bytes = kMessageBytes;
    m.queue_pair = number / n % 4;
    m.client = this;
    m.cookie = number;
    fabric.send(m);
  }
  void on_delivered(Message& m) override {
    if (started < limit) start_message(static_cast<std::uint32_t>(m.cookie));
  }
  void on_event(std::uint32_t, std::uint64_t number) override { start_message(static_cast<std::uint32_t>(number)); }

  static constexpr Bytes kMessageBytes = 1 << 20;
  Assembly fabric;
  std::deque<Memory> gpus;
  std::deque<Switch> switches;
  std::uint64_t started = 0, limit = 0;
};

double hops_per_second(bool leaf_spine, std::uint32_t in_flight) {
  Load load(16'384);
  leaf_spine ? load.build_leaf_spine() : load.build_one_switch();
  load.limit = std::max<std::uint64_t>(in_flight * 2, 20'000);
  for (std::uint32_t n = 0; n < in_flight; ++n) load.fabric.calendar().at(Time::ns(n % 1000), load, 0, n);
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  const double before = user_seconds();
  sc_core::sc_start();
  return static_cast<double>(load.fabric.hop_transactions()) / (user_seconds() - before);
}

/// Events through the stock PEQ with `pending` of them in it, each one put back when it comes out.
struct StockPeq : sc_core::sc_module {
  tlm_utils::peq_with_cb_and_phase<StockPeq> peq{this, &StockPeq::on_event};
  std::deque<tlm::tlm_generic_payload> payloads;
  std::uint64_t events = 0, limit = 0, random = 1;

  StockPeq(sc_core::sc_module_name name, std::size_t pending) : sc_module(name), payloads(pending) {}
  void put(tlm::tlm_generic_payload& payload) {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    peq.notify(payload, tlm::BEGIN_REQ, sc_core::sc_time::from_value(1'000'000 + (random >> 40)));
  }
  void on_event(tlm::tlm_generic_payload& payload, const tlm::tlm_phase&) {
    if (++events < limit) put(payload);
  }
};

double peq_events_per_second(std::uint32_t pending) {
  StockPeq peq("peq", pending);
  peq.limit = pending >= 10'000 ? 60'000 : 1'000'000;
  for (auto& payload : peq.payloads) peq.put(payload);
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  const double before = user_seconds();
  sc_core::sc_start();
  return static_cast<double>(peq.events) / (user_seconds() - before);
}

}  // namespace

int sc_main(int, char**) {
  sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
  constexpr std::uint32_t kInFlight[]{1, 100, 10'000};
  std::printf("%-44s %10s %10s %10s %12s\n", "million per second, with this many in flight", "1", "100", "10000",
              "1 : 10000");
  const auto row = [&](const char* name, auto measure) {
    double result[3];
    for (int i = 0; i < 3; ++i) {
      result[i] = 0;
      for (int repeat = 0; repeat < 3; ++repeat)
        result[i] = std::max(result[i], apart<double>([&] { return measure(kInFlight[i]); }));
    }
    std::printf("%-44s %10.3f %10.3f %10.3f %12.1f\n", name, result[0] * 1e-6, result[1] * 1e-6, result[2] * 1e-6,
                result[0] / result[2]);
    std::fflush(stdout);
  };
  row("hops, 8 GPUs on one switch", [](std::uint32_t n) { return hops_per_second(false, n); });
  row("hops, leaf-spine of 1024 endpoints", [](std::uint32_t n) { return hops_per_second(true, n); });
  row("events, stock peq_with_cb_and_phase", [](std::uint32_t n) { return peq_events_per_second(n); });
  return 0;
}
