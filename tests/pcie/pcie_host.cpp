// Host memory: what copies to and from it reach, what the read tags of a GPU allow, and GPUs without peer access that bounce
// their bytes off it.
#include "tests/support/machine_run.h"
#include "tests/support/systemc_main.h"

#include <random>

using namespace railyard;
using test::MachineRun;
namespace tt = boost::test_tools;

namespace {

constexpr Bytes kBytes = 1'000'000;

std::string with_gpu(const std::string& gpu, const std::string& keys = "") {
  return "machine: {groups: {node: {gpu: " + gpu + "}}" + keys + "}\n";
}
std::string generation(int g) {
  const std::string n = std::to_string(g);
  return with_gpu("H100-PCIe-80GB", ", overrides: {gpu: {pcie: {generation: " + n + "}}, plx: {generation: " + n +
                                        "}, root_complex: {generation: " + n + "}}");
}

transport::Window host(MachineRun& s, std::uint32_t gpu) { return s.machine.host_of(GpuId(gpu)).window(); }

/// Steady rate of copies of 40 MB, what a short one takes left out.
struct Copies {
  double to_device, from_device;
};
Copies copies(const std::string& machine) {
  MachineRun s(machine);
  for (const Bytes bytes : {2 * kBytes, 42 * kBytes}) {
    s.send(Time::ms(bytes / kBytes), host(s, 0), 0, bytes);
    s.send(Time::ms(100 + bytes / kBytes), 0, host(s, 0), bytes);
  }
  s.run();
  for (std::size_t i = 0; i < s.took.size(); ++i)
    BOOST_TEST(s.took[i].seconds() == s.alone[i].seconds(), tt::tolerance(1e-3));
  const auto rate = [&](std::size_t i) { return 40e6 / (s.took[i + 2] - s.took[i]).seconds() / 1e9; };
  return {rate(0), rate(1)};
}

}  // namespace

BOOST_AUTO_TEST_CASE(copies_reach_what_packets_leave_of_the_lanes) {
  const struct {
    int generation;
    double lane_gb_per_s, measured, tolerance;
  } links[] = {{3, 0.98462, 12.35, 0.1}, {4, 1.96923, 26.3, 0.04}, {5, 3.93846, 51.5, 0.06}, {6, 7.5625, 0, 0}};
  for (const auto& link : links) {
    const Copies c = copies(generation(link.generation));
    BOOST_TEST_CONTEXT("generation " << link.generation << ": " << c.to_device << " to the device, " << c.from_device
                                     << " from it") {
      // Completions of 128 B in 148 B, and the DLLPs of a request of 24 B for every 512 B; writes of 128 B in 152 B.
      BOOST_TEST(c.to_device == 16 * link.lane_gb_per_s * 512 / (4 * 148 + 24 * 16.0 / 168), tt::tolerance(2e-3));
      BOOST_TEST(c.from_device == 16 * link.lane_gb_per_s * 128 / 152, tt::tolerance(1e-3));
      if (link.measured == 0) continue;
      BOOST_TEST(c.to_device == link.measured, tt::tolerance(link.tolerance));
      BOOST_TEST(c.from_device == link.measured, tt::tolerance(link.tolerance));
    }
  }
}

BOOST_AUTO_TEST_CASE(few_tags_read_tags_times_request_per_round_trip) {
  for (const int tags : {1, 8, 32}) {
    for (const Bytes cut : {512, 4096}) {
      MachineRun s(with_gpu("L40S", ", overrides: {pcie: {gpu_read_tags: " + std::to_string(tags) + "}}"), "plx_box",
                   cut);
      s.send(Time(), host(s, 0), 0, 1 << 20);
      s.send(Time::ms(10), host(s, 0), 0, 3 << 20);
      s.run();
      // To the switch, the root complex, memory and back; the request whole before the faster links; the completion.
      const double held = (150 + 115 + 60 + 200 + 100 + 60 + 115 + 150) * 1e-9 + (24 + 4 * 148) / (16 * 1.96923e9) +
                          24 / (16 * 3.93846e9);
      BOOST_TEST((2 << 20) / (s.took[1] - s.took[0]).seconds() == tags * 512 / held, tt::tolerance(1e-5));
    }
  }
}

BOOST_AUTO_TEST_CASE(copies_load_the_links_between_socket_and_gpu) {
  MachineRun s("machine: {}\n");
  s.send(Time(), 0, host(s, 0), kBytes);
  s.send(Time::ms(1), host(s, 7), 0, 2 * kBytes);  // the other socket's memory
  s.run();
  BOOST_TEST(s.carried("node0.plx0", "uplink") == kBytes);
  BOOST_TEST(s.carried("node0.root0", "memory") == kBytes);
  BOOST_TEST(s.carried("node0.host1", "memory") == 2 * kBytes);
  BOOST_TEST(s.carried("node0.root1", "socket") == 2 * kBytes);
  BOOST_TEST(s.carried("node0.root0", "port0") == 2 * kBytes);
  BOOST_TEST(s.carried("node0.root0", "socket") == 0u);
}

BOOST_AUTO_TEST_CASE(without_peer_access_bytes_cross_the_uplink_twice) {
  MachineRun s(with_gpu("RTX-4090"));
  s.send(Time(), 0, 1, 40 * kBytes);
  s.run();
  BOOST_TEST(s.carried("node0.plx0", "uplink") == 40 * kBytes);
  BOOST_TEST(s.carried("node0.root0", "memory") == 40 * kBytes);
  BOOST_TEST(s.carried("node0.host0", "memory") == 40 * kBytes);
  BOOST_TEST(s.carried("node0.root0", "port0") == 40 * kBytes);
  BOOST_TEST(s.took[0].seconds() == s.alone[0].seconds(), tt::tolerance(1e-2));
  // Writing a chunk and reading the one before overlap: the slower of the two and one chunk's time.
  const double written = 16 * 1.96923e9 * 128 / 152, read = 16 * 1.96923e9 * 128 / 148;
  BOOST_TEST(s.took[0].seconds() == 40e6 / written + (40'000'000 % 524'288) / read, tt::tolerance(1e-2));

  MachineRun far(with_gpu("RTX-4090"));
  far.send(Time(), 0, 4, kBytes);
  far.run();
  BOOST_TEST(far.carried("node0.plx0", "uplink") == kBytes);
  BOOST_TEST(far.carried("node0.root0", "socket") == kBytes);
  BOOST_TEST(far.carried("node0.root1", "memory") == kBytes);  // at the receiver
  BOOST_TEST(far.carried("node0.root1", "port0") == kBytes);
}

BOOST_AUTO_TEST_CASE(a_chunk_is_whole_before_it_is_read) {
  const auto took = [](Bytes bytes) {
    MachineRun s(with_gpu("RTX-4090"));
    s.send(Time(), 0, 1, bytes);
    s.run();
    BOOST_TEST(s.took[0].seconds() == s.alone[0].seconds(), tt::tolerance(1e-3));
    return s.took[0].seconds();
  };
  const double written = 16 * 1.96923e9 * 128 / 152, read = 16 * 1.96923e9 * 128 / 148;
  BOOST_TEST(took(524'288) - took(262'144) == 262'144 / written + 262'144 / read, tt::tolerance(0.01));
  BOOST_TEST((took(0) > 1e-6));  // there, a round trip, and back
}

BOOST_AUTO_TEST_CASE(a_staging_buffer_of_one_chunk_alternates) {
  MachineRun s(with_gpu("RTX-4090", ", overrides: {host_memory: {bounce_chunks: 1}}"));
  s.send(Time(), 0, 1, 16 * 524'288);
  s.run();
  const double written = 16 * 1.96923e9 * 128 / 152, read = 16 * 1.96923e9 * 128 / 148;
  BOOST_TEST(s.took[0].seconds() == 16 * 524'288 * (1 / written + 1 / read), tt::tolerance(0.05));
}

BOOST_AUTO_TEST_CASE(random_copies_and_bounces_with_tiny_buffers_all_arrive) {
  for (const std::string uplink : {"dual_root", "single_root", "cascaded"}) {
    for (const std::string acs : {"false", "true"}) {
      const std::string keys =
          ", plx: {uplink: " + uplink + ", acs: " + acs +
          "}, overrides: {plx: {buffer_bytes: 512}, root_complex: {buffer_bytes: 512}, gpu_pcie: {buffer_bytes: 512}, "
          "plx_uplink: {buffer_bytes: 512}, plx_cascade: {buffer_bytes: 512}, nic_pcie: {buffer_bytes: 512}, "
          "host_memory: {buffer_bytes: 512, bounce_chunk_bytes: 8192, bounce_chunks: 2}}";
      for (const std::string gpu : {"RTX-4090", "L40S"}) {
        MachineRun s("machine: {groups: {node: {servers: 2, gpu: " + gpu + "}}" + keys + "}\n", "plx_box", 1024);
        std::mt19937 random(7);
        for (int i = 0; i < 200; ++i) {
          const std::uint32_t from = random() % 16, to = random() % 16, kind = random() % 3;
          const Bytes bytes = random() % 40'000;
          const Time when = Time::ns(random() % 20'000);
          if (kind == 1) {
            s.send(when, from, host(s, from), bytes);
          } else if (kind == 2) {
            s.send(when, host(s, from), from, bytes);
          } else if (from != to) {
            s.send(when, from, to, bytes);
          }
        }
        s.run();
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(copy_engines_bounce_chunk_by_chunk_each_started_by_software) {
  // A chunk goes in after its start and comes out after another, while the next one goes in: a copy of n chunks takes n + 1.
  const auto run = [](Bytes bytes, const std::string& overrides) {
    MachineRun s(with_gpu("H100-PCIe-80GB", ", overrides: {gpu: {pcie: {p2p: false}}, " + overrides + "}"));
    transport::Message message;
    message.source = 0;
    message.destination = 1;
    message.bytes = bytes;
    message.engine = transport::Engine::copy_engine;
    s.send(Time(), message);
    s.run();
    return s.took[0].seconds();
  };
  const auto started = [&](Bytes bytes, const std::string& us) {
    return run(bytes, "host_memory: {bounce_start_us: " + us + "}");
  };
  BOOST_TEST(started(64, "9") - started(64, "3") == 12e-6, tt::tolerance(1e-9));
  constexpr Bytes kChunk = 524288, kChunks = 100;
  BOOST_TEST(started(kChunks * kChunk, "20") - started(kChunks * kChunk, "10") == (kChunks + 1) * 10e-6,
             tt::tolerance(1e-6));
  // HGX H100 without peer access: 36.3 to 38.1 GB/s.
  const double rate = static_cast<double>(kChunk * kChunks) / started(kChunk * kChunks, "4") / 1e9;
  BOOST_TEST(rate == 36.3, tt::tolerance(0.1));
}

BOOST_AUTO_TEST_CASE(copies_that_bounce_both_ways_share_the_engines_and_those_of_sms_do_not) {
  // A chunk of 1 MB out of a GPU takes 1 MB / 26.5 GB/s, one into it 1 MB / 27.1 GB/s, and about a microsecond of latency each.
  const auto both_ways = [](const std::string& start, transport::Engine engine) {
    MachineRun s(with_gpu("A100-PCIe-80GB",
                          ", overrides: {gpu: {pcie: {p2p: false}}, host_memory: {bounce_chunk_bytes: "
                          "1000000, bounce_start_us: " +
                              start + "}}"));
    for (transport::Window from : {0u, 1u}) {
      transport::Message message;
      message.source = from;
      message.destination = 1 - from;
      message.bytes = 50'000'000;
      message.engine = engine;
      s.send(Time(), message);
    }
    s.run();
    BOOST_TEST(s.took[0].seconds() == s.took[1].seconds(), tt::tolerance(0.03));
    return 100e6 / std::max(s.took[0], s.took[1]).seconds() / 1e9;
  };
  const double turn_us = 1e3 / 26.5 + 1e3 / 27.1 + 2;
  BOOST_TEST(both_ways("0", transport::Engine::copy_engine) == 2e3 / turn_us, tt::tolerance(0.05));
  // While one chunk passes the engine, the next one is started.
  BOOST_TEST(both_ways("4", transport::Engine::copy_engine) == 2e3 / turn_us, tt::tolerance(0.05));
  BOOST_TEST(both_ways("4", transport::Engine::sm) > 1.7 * 2e3 / turn_us);
}
