// What shipped machines reach over NVLink, by engine, one way and both ways, against what is measured on them. One set
// of protocol parameters per NVLink generation (links/nvlink*.yaml) has to give all of it.
#include "tests/support/machine_of.h"
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

#include <algorithm>

#include "platforms/machine.h"

using namespace railyard;
using transport::Engine;
using transport::MessageKind;
namespace tt = boost::test_tools;

namespace {

constexpr Bytes kBytes = 64 << 20;

class Box : private test::FreshKernel, public transport::MessageClient, private transport::CalendarClient {
 public:
  transport::Assembly fabric;
  platforms::Machine machine;
  std::vector<double> gb_per_s;  ///< by cookie
  Time took, alone;              ///< of the message delivered last

  Box(const std::string& platform, const std::string& gpu)
      : fabric(transport::VcPlan(), 0),
        machine(test::machine_of("machine: {groups: {node: {gpu: " + gpu + "}}}\n", platform), fabric) {}

  void send(transport::Window source, transport::Window destination, Engine engine,
            MessageKind kind = MessageKind::write, Bytes bytes = kBytes) {
    transport::Message m;
    m.source = source;
    m.destination = destination;
    m.engine = engine;
    m.kind = kind;
    m.bytes = bytes;
    m.client = this;
    m.cookie = gb_per_s.size();
    gb_per_s.push_back(0);
    at_start(m);
  }
  void on_delivered(transport::Message& m) override {
    took = m.finished - m.started;
    alone = m.uncontended;
    gb_per_s[m.cookie] = static_cast<double>(m.bytes) / (m.finished - m.started).seconds() / 1e9;
  }
  /// Sent once the simulation runs.
  void at_start(const transport::Message& m) {
    first_.push_back(m);
    fabric.calendar().at(Time(), *this, 0, first_.size() - 1);
  }
  /// The slowest.
  double run() {
    sc_core::sc_start();
    BOOST_TEST(fabric.transactions_live() == 0u);
    BOOST_TEST(fabric.unreturned_credit() == 0u);
    return *std::min_element(gb_per_s.begin(), gb_per_s.end());
  }

 private:
  void on_event(std::uint32_t, std::uint64_t number) override { fabric.send(first_[number]); }
  std::vector<transport::Message> first_;
};

double one_way(const std::string& platform, const std::string& gpu, Engine engine,
               MessageKind kind = MessageKind::write) {
  Box box(platform, gpu);
  box.send(0, 1, engine, kind);
  return box.run();
}

double both_ways(const std::string& platform, const std::string& gpu, Engine engine,
                 MessageKind kind = MessageKind::write) {
  Box box(platform, gpu);
  box.send(0, 1, engine, kind);
  box.send(1, 0, engine, kind);
  return box.run();
}

double ring(const std::string& platform, const std::string& gpu) {
  Box box(platform, gpu);
  for (transport::Window g = 0; g < 8; ++g) box.send(g, (g + 1) % 8, Engine::sm);
  return box.run();
}

/// In-switch all-reduce by hand: every GPU reduces its share chunk by chunk and multicasts what it has reduced.
class InSwitch : public Box {
 public:
  static constexpr Bytes kChunk = 128 << 10;
  static constexpr std::uint32_t kUnderWay = 16;

  InSwitch(const std::string& platform, const std::string& gpu, std::uint32_t n, std::uint32_t chunks = 256)
      : Box(platform, gpu), chunks_(chunks), left_(n, chunks) {
    std::vector<transport::Window> members;
    for (transport::Window g = 0; g < n; ++g) members.push_back(g);
    group_ = fabric.add_group(members);
    for (std::uint32_t c = 0; c < std::min(chunks, kUnderWay); ++c)
      for (transport::Window g = 0; g < n; ++g) at_start(chunk(g, MessageKind::reduce));
  }
  void on_delivered(transport::Message& m) override {
    if (m.kind == MessageKind::reduce) {
      fabric.send(chunk(m.source, MessageKind::multicast));
      return;
    }
    end_ = m.finished;
    if (left_[m.source] != 0) fabric.send(chunk(m.source, MessageKind::reduce));
  }
  double bus_gb_per_s() {
    sc_core::sc_start();
    const auto n = static_cast<double>(left_.size());
    const double bytes = n * chunks_ * kChunk;
    return bytes / end_.seconds() / 1e9 * 2 * (n - 1) / n;
  }

 private:
  transport::Message chunk(transport::Window g, MessageKind kind) {
    if (kind == MessageKind::reduce) --left_[g];
    transport::Message m;
    m.source = g;
    m.kind = kind;
    m.group = group_;
    m.bytes = kChunk;
    m.offset = left_[g] * kChunk;
    m.client = this;
    return m;
  }
  transport::GroupId group_ = 0;
  std::uint32_t chunks_;
  std::vector<std::uint32_t> left_;
  Time end_;
};

constexpr Engine kCopy = Engine::copy_engine, kSm = Engine::sm;

/// Within 3 % of what was measured from `low` to `high`.
void check(double gb_per_s, double low, double high) {
  BOOST_TEST(gb_per_s >= low * 0.97);
  BOOST_TEST(gb_per_s <= high * 1.03);
}

}  // namespace

// Measured: p2pBandwidthLatencyTest (HGX A100, HGX H100: NVIDIA/nccl issue 1264), nvbandwidth (H100, H200, B200,
// GB200), NCCL ring all-reduce bus bandwidths (Azure ND A100 v4, ml-engineering; H200 with NVLS off; aiconfigurator
// tables for B200).

BOOST_AUTO_TEST_CASE(copy_engines_one_way_and_both_ways) {
  check(one_way("dgx_a100", "A100-SXM4-80GB", kCopy), 269.6, 276.6);
  check(both_ways("dgx_a100", "A100-SXM4-80GB", kCopy), 516.0 / 2, 522.0 / 2);
  check(one_way("dgx_h100", "H100-SXM5-80GB", kCopy), 376, 397);
  check(both_ways("dgx_h100", "H100-SXM5-80GB", kCopy), 774.0 / 2, 786.0 / 2);
  check(one_way("dgx_b200", "B200-SXM-180GB", kCopy), 774, 776);
  check(both_ways("dgx_b200", "B200-SXM-180GB", kCopy), 1540.0 / 2, 1543.0 / 2);
}

BOOST_AUTO_TEST_CASE(sms_store_one_way_and_both_ways) {
  check(ring("dgx_a100", "A100-SXM4-80GB"), 231, 235);
  check(ring("dgx_h100", "H200-SXM-141GB"), 363, 368);
  check(ring("dgx_b200", "B200-SXM-180GB"), 704, 704);
  check(one_way("dgx_b200", "B200-SXM-180GB", kSm), 717, 717);
  check(both_ways("dgx_b200", "B200-SXM-180GB", kSm), 706, 706);
}

BOOST_AUTO_TEST_CASE(reads_one_way_and_both_ways) {
  check(one_way("dgx_h100", "H100-SXM5-80GB", kCopy, MessageKind::read), 370, 395);
  check(both_ways("dgx_h100", "H100-SXM5-80GB", kCopy, MessageKind::read), 672.0 / 2, 672.0 / 2);
  check(one_way("dgx_b200", "B200-SXM-180GB", kCopy, MessageKind::read), 765, 798);
  check(both_ways("dgx_b200", "B200-SXM-180GB", kCopy, MessageKind::read), 1521.0 / 2, 1528.0 / 2);
  check(both_ways("dgx_b200", "B200-SXM-180GB", kSm, MessageKind::read), 674, 674);
}

BOOST_AUTO_TEST_CASE(in_switch_all_reduce_follows_the_number_of_gpus) {
  // NVIDIA/nccl issue 1455, H100.
  const double measured[] = {420, 440, 460, 480};
  for (std::uint32_t n = 5; n <= 8; ++n) {
    const double bus = InSwitch("dgx_h100", "H100-SXM5-80GB", n).bus_gb_per_s();
    check(bus, measured[n - 5], measured[n - 5]);
  }
}

BOOST_AUTO_TEST_CASE(a_rack_of_72_reduces_and_multicasts_over_18_switches) {
  constexpr std::uint32_t kGpus = 72;
  InSwitch rack("gb200_nvl72", "GB200-186GB", kGpus, 4);
  const double bus = rack.bus_gb_per_s();
  // S (1 + 1/n) of 900 GB/s less packets.
  BOOST_TEST(bus < 900 * 2 * (kGpus - 1) / (kGpus + 1.0));
  const Bytes buffer = kGpus * 4 * InSwitch::kChunk;
  for (std::uint32_t g = 0; g < kGpus; ++g) {
    Bytes sent = 0;
    for (std::uint32_t plane = 0; plane < 18; ++plane)
      sent += rack.machine.gpu(GpuId(g)).port(rack.machine.gpu(GpuId(g)).nvlink(plane)).counters.payload_bytes;
    BOOST_TEST(sent == buffer + buffer / kGpus);
  }
}

BOOST_AUTO_TEST_CASE(a_lone_chunk_takes_what_its_path_says) {
  for (const MessageKind kind : {MessageKind::write, MessageKind::read, MessageKind::multicast, MessageKind::reduce}) {
    for (const Bytes stripes : {1, 28, 500}) {
      BOOST_TEST_INFO("kind " << static_cast<int>(kind) << ", " << stripes << " stripes over the planes");
      Box box("dgx_h100", "H100-SXM5-80GB");
      // A multicast's own copy would meet its acknowledgements, which a path does not know; a reduction's own operand
      // would not.
      box.fabric.add_group({1, 2, 3, 4, 5, 6, 7});
      box.send(0, 1, kSm, kind, stripes * 18 * 256);
      box.run();
      BOOST_TEST(box.took.fs() == box.alone.fs());
    }
  }
}
