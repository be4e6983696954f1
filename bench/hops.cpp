// Speed of the fabric: hop-transactions per second (user time) with 1, 100 and 10 000 messages in flight, on 8 GPUs around one
// switch and on 1024 endpoints of a leaf-spine; and how the stock PEQ of TLM-2.0 takes the same number of pending events.
// Each figure is the best of three, each in a process of its own, because the kernel elaborates once; on a shared machine
// ratios mean more than figures. With thousands of messages on a thousand endpoints a hop costs cache misses: every port,
// queue and transaction it meets has left the cache since it was met last.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <string>
#include <sys/wait.h>
#include <systemc>
#include <tlm_utils/peq_with_cb_and_phase.h>
#include <unistd.h>

#include "transport/endpoint.h"
#include "transport/fabric.h"
#include "transport/switch.h"

using namespace railyard;
using namespace railyard::transport;

namespace {

double user_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

class Gpu : public Endpoint, public Sender {
 public:
  Gpu(const std::string& name, Fabric& fabric, Window window) : Endpoint(name.c_str(), fabric.context(), window) {
    fabric.add_device(*this);
    fabric.add_sender(window, *this);
  }
  void send(Message& message) override {
    Part part;
    part.message = &message;
    part.bytes = message.bytes;
    part.address = window_base(message.destination);
    inject(PortId(0), part);
  }
  Path path_to(Window destination, std::uint8_t, Engine) const override {
    Path path;
    path.lanes.push_back({walk(*this, PortId(0), window_base(destination), 0), 1});
    return path;
  }
};

LinkDirection link(double gb_per_s, double latency_ns, Bytes buffer, Bytes payload, Bytes overhead, Bytes ack) {
  LinkDirection l;
  l.rate = Rate::gb_per_s(gb_per_s);
  l.latency = l.credit_latency = Time::nanoseconds(latency_ns);
  l.buffer_bytes = buffer;
  l.packet.max_payload_bytes = payload;
  l.packet.overhead_bytes = overhead;
  l.packet.reverse_bytes_per_packet = ack;
  return l;
}

/// A machine that keeps a number of messages in flight: each that lands starts another, to a destination that moves on.
struct Load : MessageClient, CalendarClient {
  explicit Load(Bytes transaction_bytes) : fabric(ChannelPlan(), transaction_bytes) {}

  static void attach(Gpu& gpu, Switch& sw, const LinkDirection& l) {
    const PortId up = gpu.add_port("up", l);
    const PortId down = sw.add_port("port" + std::to_string(sw.ports()), l);
    Device::connect(gpu, up, sw, down);
    sw.decoder().map(gpu.window(), down);
  }
  void build_one_switch() {
    const LinkDirection nvlink = link(450, 250, 1 << 20, 128, 16, 16);
    Switch& sw = switches.emplace_back("switch", fabric.context(), Switch::DecodeBy::window);
    fabric.add_device(sw);
    for (Window w = 0; w < 8; ++w) attach(gpus.emplace_back("gpu" + std::to_string(w), fabric, w), sw, nvlink);
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
        for (const Gpu& gpu : gpus) {
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
    m.channel = number / n % 4;
    m.client = this;
    m.cookie = number;
    fabric.send(m);
  }
  void on_delivered(Message& m) override {
    if (started < limit) start_message(static_cast<std::uint32_t>(m.cookie));
  }
  void on_event(std::uint32_t, std::uint64_t number) override { start_message(static_cast<std::uint32_t>(number)); }

  static constexpr Bytes kMessageBytes = 1 << 20;
  Fabric fabric;
  std::deque<Gpu> gpus;
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

/// Runs `measure` in a child process.
template <class Measure>
double apart(Measure&& measure) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(1);
  const pid_t child = fork();
  if (child == 0) {
    const double result = measure();
    const bool sent = write(ends[1], &result, sizeof result) == sizeof result;
    _exit(sent ? 0 : 1);
  }
  double result = 0;
  const bool got = read(ends[0], &result, sizeof result) == sizeof result;
  int status = 0;
  waitpid(child, &status, 0);
  close(ends[0]);
  close(ends[1]);
  if (!got || status != 0) std::exit(1);
  return result;
}

}  // namespace

int sc_main(int, char**) {
  sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
  constexpr std::uint32_t kInFlight[]{1, 100, 10'000};
  std::printf("%-44s %10s %10s %10s %12s\n", "million per second, with this many in flight", "1", "100", "10000", "1 : 10000");
  const auto row = [&](const char* name, auto measure) {
    double result[3];
    for (int i = 0; i < 3; ++i) {
      result[i] = 0;
      for (int repeat = 0; repeat < 3; ++repeat) result[i] = std::max(result[i], apart([&] { return measure(kInFlight[i]); }));
    }
    std::printf("%-44s %10.3f %10.3f %10.3f %12.1f\n", name, result[0] * 1e-6, result[1] * 1e-6, result[2] * 1e-6, result[0] / result[2]);
    std::fflush(stdout);
  };
  row("hops, 8 GPUs on one switch", [](std::uint32_t n) { return hops_per_second(false, n); });
  row("hops, leaf-spine of 1024 endpoints", [](std::uint32_t n) { return hops_per_second(true, n); });
  row("events, stock peq_with_cb_and_phase", [](std::uint32_t n) { return peq_events_per_second(n); });
  return 0;
}
