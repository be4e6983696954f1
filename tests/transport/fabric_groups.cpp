// Multicast and reduction in the switch: closed forms of a lone one, bytes times copies, result slots, no deadlock.
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

#include <algorithm>
#include <random>

using namespace railyard;
using test::gb;
using test::ideal;
using test::Simulation;
using transport::MessageKind;
namespace tt = boost::test_tools;

namespace {

/// n memories on one switch that copies and reduces; all are group 0.
struct Star : Simulation {
  static constexpr Time kMemory = Time::ns(400);
  transport::GroupSwitch sw;

  Star(std::size_t n, const transport::LinkDirection& link, Bytes cut, const transport::ReductionUnit& unit = {},
       const transport::VcPlan& plan = {})
      : Simulation(cut, plan), sw("crossbar", fabric.context()) {
    fabric.add_device(sw);
    std::vector<transport::Window> all;
    for (std::size_t i = 0; i < n; ++i) {
      attach(node(kMemory), sw, link);
      sw.set_reduction(PortId(static_cast<std::uint32_t>(i)), unit);
      all.push_back(static_cast<transport::Window>(i));
    }
    fabric.add_group(all);
  }
  using Simulation::send;
  std::size_t send(Time when, MessageKind kind, transport::Window source, Bytes bytes, std::uint8_t traffic_class = 0) {
    transport::Message message;
    message.kind = kind;
    message.source = source;
    message.bytes = bytes;
    message.traffic_class = traffic_class;
    return Simulation::send(when, message);
  }
  Bytes up(std::size_t i) const { return nodes[i].port(PortId(0)).counters.payload_bytes; }
  Bytes down(std::size_t i) const { return sw.port(PortId(static_cast<std::uint32_t>(i))).counters.payload_bytes; }
};

constexpr Bytes kMessage = 1'200'000;

}  // namespace

BOOST_AUTO_TEST_CASE(a_lone_multicast_takes_the_time_of_one_copy) {
  for (const std::size_t n : {1, 2, 8, 72})
    for (const Bytes cut : {1000, 4096, 70'000, 2'000'000}) {
      BOOST_TEST_INFO(n << " members, trains of " << cut);
      Star s(n, ideal(gb(100), Time::ns(250), 100'000, Time::ns(150)), cut);
      s.send(Time(), MessageKind::multicast, 0, kMessage);
      s.run();
      BOOST_TEST(s.took[0].fs() == (Time::ns(500) + gb(100).time_for(kMessage)).fs());
      BOOST_TEST(s.alone[0].fs() == s.took[0].fs());
      for (std::size_t i = 0; i < n; ++i) {
        BOOST_TEST(s.down(i) == kMessage);
        BOOST_TEST(s.up(i) == (i == 0 ? kMessage : 0));
      }
    }
}

BOOST_AUTO_TEST_CASE(a_lone_reduction_takes_a_request_and_a_read) {
  for (const std::size_t n : {1, 2, 8, 72})
    for (const Bytes cut : {1000, 4096, 70'000, 2'000'000}) {
      BOOST_TEST_INFO(n << " members, trains of " << cut);
      Star s(n, ideal(gb(100), Time::ns(250), 100'000, Time::ns(150)), cut);
      s.send(Time(), MessageKind::reduce, 0, kMessage);
      s.run();
      BOOST_TEST(s.took[0].fs() == (Time::ns(1000) + Star::kMemory + gb(100).time_for(kMessage)).fs());
      BOOST_TEST(s.alone[0].fs() == s.took[0].fs());
      for (std::size_t i = 0; i < n; ++i) {
        BOOST_TEST(s.up(i) == kMessage);  // n in, one out
        BOOST_TEST(s.down(i) == (i == 0 ? kMessage : 0));
      }
    }
}

BOOST_AUTO_TEST_CASE(slots_limit_results_to_what_they_hold_per_round_trip) {
  // From fan-out to a result's head: two links of 250 ns and the memory's 400 ns.
  constexpr Bytes kSlots = 9'000;  // 10 GB/s, a tenth of the line
  // At these sizes no request to the requester's own memory meets one of its results on the line.
  for (const Bytes cut : {700, 1100, 4000, 8000, 40'000}) {
    BOOST_TEST_INFO("trains of " << cut);
    const auto took = [&](Bytes trains) {
      Star s(8, ideal(gb(100), Time::ns(250)), cut, {kSlots, Rate()});
      s.send(Time(), MessageKind::reduce, 0, trains * cut);
      s.run();
      BOOST_TEST(s.alone[0].seconds() == s.took[0].seconds(), tt::tolerance(1e-9));
      return s.took[0];
    };
    BOOST_TEST((took(600) - took(300)).fs() == gb(10).time_for(300 * cut).fs());
  }
}

BOOST_AUTO_TEST_CASE(slots_for_a_round_trip_leave_the_line_to_a_lone_reduction) {
  const auto took = [](Bytes slots) {
    Star s(4, ideal(gb(100), Time::ns(250)), 5'000, {slots, gb(100)});
    s.send(Time(), MessageKind::reduce, 2, kMessage);
    s.run();
    return s.took[0];
  };
  // 900 ns, and one train that a request to its own memory may wait for; such requests then go between the results.
  BOOST_TEST((took(100'000) >= took(0)));
  BOOST_TEST((took(100'000) - took(0) <= gb(100).time_for(kMessage / 5'000)));
  BOOST_TEST((took(80'000) > took(0)));
}

BOOST_AUTO_TEST_CASE(a_slow_reducer_sets_the_pace_of_results) {
  const auto took = [](Bytes bytes) {
    Star s(4, ideal(gb(100), Time::ns(250)), 4'000, {0, gb(20)});
    s.send(Time(), MessageKind::reduce, 1, bytes);
    s.run();
    BOOST_TEST((s.alone[0] <= s.took[0]));
    return s.took[0];
  };
  BOOST_TEST((took(2 * kMessage) - took(kMessage)).fs() == gb(20).time_for(kMessage).fs());
}

BOOST_AUTO_TEST_CASE(a_copy_that_waits_holds_the_input_and_no_other_output) {
  // Member 3 is busy with writes from 4 and 5 that go first; the multicast's other copies do not wait for it, and its
  // sender's next messages to 1 wait only for the buffer that the late copy holds.
  transport::VcPlan plan;
  plan.assign(1, {1, 1, 1});
  Star s(6, ideal(gb(1), Time::ns(100), 1'000), 1'000, {}, plan);
  const auto group = s.fabric.add_group({1, 2, 3});
  for (const transport::Window writer : {4, 5}) s.send(Time(), writer, 3, 5'000, 1);
  transport::Message m;
  m.kind = MessageKind::multicast;
  m.source = 0;
  m.group = group;
  m.bytes = 1'000;
  const std::size_t copies = static_cast<Simulation&>(s).send(Time::ns(1500), m);
  const std::size_t first = s.send(Time::ns(1500), 0, 1, 1'000, 0, 1);
  const std::size_t second = s.send(Time::ns(1500), 0, 1, 1'000, 0, 2);
  s.run();
  // The writes leave the line at 10.1 us, the copy's tail at 11.1.
  BOOST_TEST(s.landed[copies].fs() == Time::ns(11'200).fs());
  // The input's 1000 B count in whole trains. The first follows the multicast at once, at 2.5 us; the second not at
  // 3.5, because the late copy still holds the multicast's share, but when the first's tail has left, at 3.6 us.
  BOOST_TEST(s.landed[first].fs() == Time::ns(3'700).fs());
  BOOST_TEST(s.landed[second].fs() == Time::ns(4'800).fs());
  for (const std::uint32_t member : {1, 2}) BOOST_TEST(s.down(member) == (member == 1 ? 3'000u : 1'000u));
}

namespace {

/// Everything at once: writes, reads, multicasts and reductions between random members of random groups.
struct Crowd : Star {
  std::vector<std::vector<transport::Window>> groups;
  Crowd(std::uint32_t seed, std::size_t n, const transport::LinkDirection& link, Bytes cut,
        const transport::ReductionUnit& unit, const transport::VcPlan& plan)
      : Star(n, link, cut, unit, plan) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t limit) { return random() % limit; };
    groups.push_back({});
    for (transport::Window w = 0; w < n; ++w) groups[0].push_back(w);
    for (int g = 0; g < 3; ++g) {
      groups.push_back({});
      for (transport::Window w = 0; w < n; ++w)
        if (below(2) == 0 || groups.back().empty()) groups.back().push_back(w);
      fabric.add_group(groups.back());
    }
    for (int i = 0; i < 200; ++i) {
      transport::Message m;
      m.kind = static_cast<MessageKind>(below(4));
      m.source = static_cast<transport::Window>(below(n));
      m.destination = static_cast<transport::Window>((m.source + 1 + below(n - 1)) % n);
      m.group = static_cast<transport::GroupId>(below(groups.size()));
      m.bytes = 1 + below(20'000);
      m.traffic_class = static_cast<std::uint8_t>(below(2));
      m.queue_pair = static_cast<std::uint32_t>(below(3));
      Simulation::send(Time::fs(below(Time::us(2).fs())), m);
    }
  }
  /// Every byte is where it must be: a copy at each member, a reduction one n-th of what it reads.
  void check() {
    std::vector<Bytes> out(nodes.size(), 0), in(nodes.size(), 0);
    for (const transport::Message& m : wanted()) {
      switch (m.kind) {
        case MessageKind::write:
          out[m.source] += m.bytes;
          in[m.destination] += m.bytes;
          break;
        case MessageKind::read:
          out[m.destination] += m.bytes;
          in[m.source] += m.bytes;
          break;
        case MessageKind::multicast:
          out[m.source] += m.bytes;
          for (const transport::Window w : groups[m.group]) in[w] += m.bytes;
          break;
        case MessageKind::reduce:
          in[m.source] += m.bytes;
          for (const transport::Window w : groups[m.group]) out[w] += m.bytes;
          break;
      }
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      BOOST_TEST(up(i) == out[i]);
      BOOST_TEST(down(i) == in[i]);
    }
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(everything_at_once_through_tiny_buffers_arrives_and_is_conserved) {
  transport::VcPlan plan;
  plan.assign(1, {1, 2, 1});
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    BOOST_TEST_INFO("seed " << seed);
    auto link = ideal(gb(20), Time::ns(150), 300, Time::ns(100));
    link.packet.max_payload_bytes = link.packet.response_payload_bytes = 256;
    link.packet.max_read_request_bytes = 128;
    link.packet.overhead_bytes = link.packet.response_overhead_bytes = link.packet.read_request_bytes = 16;
    link.packet.reverse_bytes_per_packet = 16;
    Crowd s(seed, 3 + seed % 6, link, seed % 2 == 0 ? 256 : 2048, {seed % 3 == 0 ? 0 : 256 * seed, gb(10)}, plan);
    s.run();  // asserts that nothing is under way and every credit is home
    s.check();
  }
}

BOOST_AUTO_TEST_CASE(the_same_crowd_takes_the_same_course_again) {
  const auto times = [] {
    Crowd s(5, 6, ideal(gb(20), Time::ns(150), 4'000, Time::ns(100)), 1'000, {4'000, gb(10)}, {});
    s.run();
    std::vector<std::uint64_t> landed;
    for (const Time t : s.landed) landed.push_back(t.fs());
    return landed;
  };
  BOOST_TEST(times() == times(), tt::per_element());
}

namespace {

/// NVLS all-reduce by hand: everybody reduces a share chunk by chunk and multicasts what it has reduced.
struct AllReduce : Star {
  static constexpr Bytes kChunk = 16'000;
  static constexpr std::size_t kChunks = 100, kUnderWay = 16;
  std::vector<std::size_t> left;
  std::vector<Time> end;
  AllReduce(std::size_t n, const transport::LinkDirection& link) : Star(n, link, 4'000), left(n, kChunks), end(n) {
    for (std::size_t c = 0; c < kUnderWay; ++c)
      for (std::size_t i = 0; i < n; ++i) next(Time(), static_cast<transport::Window>(i));
  }
  void next(Time when, transport::Window w) {
    if (left[w] == 0) return;
    --left[w];
    send(when, MessageKind::reduce, w, kChunk);
  }
  void delivered(transport::Message& m) override {
    if (m.kind == MessageKind::reduce) {
      send(fabric.now(), MessageKind::multicast, m.source, kChunk);
    } else {
      end[m.source] = fabric.now();
      next(fabric.now(), m.source);
    }
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_in_switch_all_reduce_moves_the_buffer_once_and_one_nth) {
  for (const std::size_t n : {2, 4, 8}) {
    BOOST_TEST_INFO(n << " members");
    AllReduce s(n, ideal(gb(100), Time::ns(250), 100'000, Time::ns(150)));
    s.run();
    const Bytes buffer = n * AllReduce::kChunks * AllReduce::kChunk;
    for (std::size_t i = 0; i < n; ++i) {
      BOOST_TEST(s.up(i) == buffer + buffer / n);
      BOOST_TEST(s.down(i) == buffer + buffer / n);
    }
    // Both directions of every link are busy but for the first round trip and the last.
    const Time least = gb(100).time_for(buffer + buffer / n);
    const Time last = *std::max_element(s.end.begin(), s.end.end());
    BOOST_TEST((last > least));
    BOOST_TEST(last.seconds() <= 1.02 * least.seconds() + 3e-6);
    // Nobody is ahead of the others by more than a chunk of each.
    BOOST_TEST((last - *std::min_element(s.end.begin(), s.end.end()) <= gb(100).time_for(2 * n * AllReduce::kChunk)));
  }
}

namespace {

/// Everybody sends to everybody at once, in an order of its own. @return the rate per sender of the line's
double all_to_all(bool queues_per_output) {
  constexpr transport::Window kNodes = 8;
  constexpr Bytes kEach = 400'000;
  Simulation s(4'000);
  transport::GroupSwitch crossbar("crossbar", s.fabric.context());
  s.fabric.add_device(crossbar);
  transport::Switch& fifo = s.add_switch();
  for (transport::Window w = 0; w < kNodes; ++w)
    Simulation::attach(s.node(), queues_per_output ? crossbar : fifo,
                       ideal(gb(100), Time::ns(250), 50'000, Time::ns(150)));
  std::mt19937_64 random(7);
  for (transport::Window from = 0; from < kNodes; ++from) {
    std::vector<transport::Window> order;
    for (transport::Window to = 0; to < kNodes; ++to)
      if (to != from) order.push_back(to);
    std::shuffle(order.begin(), order.end(), random);
    for (const transport::Window to : order) s.send(Time(), from, to, kEach);
  }
  s.run();
  return gb(100).time_for((kNodes - 1) * kEach).seconds() / s.fabric.now().seconds();
}

}  // namespace

BOOST_AUTO_TEST_CASE(queues_per_output_spare_an_all_to_all_the_blocked_fronts) {
  BOOST_TEST(all_to_all(true) > 0.97);
  BOOST_TEST(all_to_all(false) < 0.93);
}
