// Random networks and traffic from a seed: trees and leaf-spines of switches with links of mixed rates, buffers and
// packets, and a spy on every direction of every link.
#pragma once

#include <algorithm>
#include <random>

#include "tests/support/simulation.h"
#include "tests/support/spy.h"

namespace railyard::test {

class Network : public Simulation {
 public:
  struct Watched {
    const transport::Device* device;
    PortId port;
    Spy* spy;
  };
  std::vector<Watched> watched;

  Network(std::uint32_t seed, Bytes transaction_bytes, const transport::VcPlan& plan)
      : Simulation(transaction_bytes, plan), random_(seed) {}

  enum class Shape { tree, chain };
  /// Each new switch is connected to a random earlier switch, or to the latest one; nodes are connected to any switch.
  void grow_tree(std::size_t switches, std::size_t nodes, Shape shape = Shape::tree) {
    std::vector<std::vector<std::pair<std::size_t, PortId>>> neighbours(
        switches);  // for each switch: neighbours and ports
    for (std::size_t s = 0; s < switches; ++s) {
      add_switch();
      if (s == 0) continue;
      const std::size_t above = shape == Shape::chain ? s - 1 : below(s);
      const auto [up, down] = link(this->switches[s], this->switches[above]);
      neighbours[s].push_back({above, up});
      neighbours[above].push_back({s, down});
    }
    for (std::size_t n = 0; n < nodes; ++n) {
      MemoryNode& made = node();
      const std::size_t home = below(switches);
      this->switches[home].decoder().map(made.window(), link(made, this->switches[home]).second);
      spread(neighbours, home, home, made.window());
    }
  }

  /// Every leaf is connected to every spine; each destination uses one spine.
  void grow_leaf_spine(std::size_t leaves, std::size_t spines, std::size_t nodes_per_leaf) {
    for (std::size_t s = 0; s < leaves + spines; ++s) add_switch();
    std::vector<std::vector<PortId>> up(leaves, std::vector<PortId>(spines)), down = up;
    for (std::size_t l = 0; l < leaves; ++l)
      for (std::size_t s = 0; s < spines; ++s) {
        const auto ports = link(switches[l], switches[leaves + s]);
        up[l][s] = ports.first;
        down[l][s] = ports.second;
      }
    for (std::size_t n = 0; n < leaves * nodes_per_leaf; ++n) {
      MemoryNode& made = node();
      const std::size_t home = n / nodes_per_leaf;
      const std::size_t spine = n % spines;
      for (std::size_t l = 0; l < leaves; ++l) switches[l].decoder().map(made.window(), up[l][spine]);
      switches[home].decoder().map(made.window(), link(made, switches[home]).second);
      switches[leaves + spine].decoder().map(made.window(), down[home][spine]);
    }
  }

  struct Shot {
    Time at;
    transport::Window from, to;
    Bytes bytes;
    std::uint8_t traffic_class;
    std::uint32_t queue_pair;
  };
  /// Random pairs, sizes from 0 to `max_bytes` (small sizes are more likely), classes and start times within `window`.
  std::vector<Shot> random_traffic(std::size_t messages, Bytes max_bytes, Time window) {
    std::vector<Shot> shots;
    for (std::size_t m = 0; m < messages; ++m) {
      Shot shot;
      shot.from = static_cast<transport::Window>(below(nodes.size()));
      shot.to = static_cast<transport::Window>((shot.from + 1 + below(nodes.size() - 1)) % nodes.size());
      shot.bytes = below(4) == 0 ? below(max_bytes + 1) : below(max_bytes / 16 + 1);
      shot.at = Time::fs(below(window.fs()));
      shot.traffic_class = static_cast<std::uint8_t>(below(4));
      shot.queue_pair = static_cast<std::uint32_t>(below(2));
      shots.push_back(shot);
    }
    return shots;
  }
  /// Sends all messages, from `begin` on. @return the number of the first message
  std::size_t send_all(const std::vector<Shot>& shots, Time begin = Time()) {
    const std::size_t first = landed.size();
    for (const Shot& s : shots) send(begin + s.at, s.from, s.to, s.bytes, s.traffic_class, s.queue_pair);
    return first;
  }
  void add_traffic(std::size_t messages, Bytes max_bytes, Time window) {
    send_all(random_traffic(messages, max_bytes, window));
  }
  /// A random number below `limit`, from the network's seed.
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

 private:
  transport::LinkDirection direction() {
    transport::LinkDirection l =
        ideal(Rate::bytes_per_second(10'000'000'000 + below(90'000'000'000)), Time::ns(20 + below(300)));
    l.credit_latency = Time::ns(below(200));
    const std::uint64_t kind = below(3);
    if (kind > 0) l.buffer_bytes = kind == 1 ? 2000 + below(20'000) : 100'000;
    if (below(2) == 0) {
      l.packet.max_payload_bytes = 256u << below(5);
      l.packet.overhead_bytes = 16 + below(32);
      l.packet.reverse_bytes_per_packet = below(2) * 16;
    }
    return l;
  }
  std::pair<PortId, PortId> link(transport::Device& a, transport::Device& b) {
    const PortId at_a = a.add_port("port" + std::to_string(a.ports()), direction());
    const PortId at_b = b.add_port("port" + std::to_string(b.ports()), direction());
    const auto spy = [&] { return &spies_.emplace_back(("spy" + std::to_string(spies_.size())).c_str()); };
    watched.push_back({&a, at_a, spy()});
    watched.push_back({&b, at_b, spy()});
    Spy::between(a, at_a, b, at_b, *watched[watched.size() - 2].spy, *watched.back().spy);
    return {at_a, at_b};
  }
  void spread(const std::vector<std::vector<std::pair<std::size_t, PortId>>>& neighbours, std::size_t from,
              std::size_t before, transport::Window window) {
    for (const auto& [next, port] : neighbours[from]) {
      if (next == before) continue;
      for (const auto& [back, up] : neighbours[next])
        if (back == from) switches[next].decoder().map(window, up);
      spread(neighbours, next, from, window);
    }
  }

  std::mt19937_64 random_;
  std::deque<Spy> spies_;
};

}  // namespace railyard::test
