// A fabric under test: a fresh kernel context, the devices of a scenario, its messages and their arrival times. done()
// checks the invariants at the end of every run: the simulation ended by itself, nothing is in flight, every credit was
// returned, and no link was busier than time allows.
#pragma once

#include <boost/test/unit_test.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <systemc>
#include <vector>

#include "tests/support/memory_node.h"
#include "transport/assembly.h"
#include "transport/device/switch.h"

namespace railyard::test {

/// A link without packets: wire bytes are payload bytes.
inline transport::LinkDirection ideal(Rate rate, Time latency, Bytes buffer_bytes = 0, Time credit_latency = Time()) {
  transport::LinkDirection link;
  link.rate = rate;
  link.latency = latency;
  link.credit_latency = credit_latency;
  link.buffer_bytes = buffer_bytes;
  return link;
}

/// A round rate gives round times: 1 GB/s is exactly 1 byte per nanosecond.
inline Rate gb(std::uint64_t gb_per_s) { return Rate::bytes_per_second(gb_per_s * 1'000'000'000ull); }

/// Several simulations can run one after the other in a process if each has its own kernel context.
struct FreshKernel {
  FreshKernel() {
    // SystemC never frees a context; keep old contexts reachable for the leak checker.
    static auto& former = *new std::vector<sc_core::sc_simcontext*>();
    former.push_back(sc_core::sc_get_curr_simcontext());
    sc_core::sc_curr_simcontext = new sc_core::sc_simcontext();
    sc_core::sc_default_global_context = sc_core::sc_curr_simcontext;
    sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
  }
};

class Simulation : private FreshKernel, public transport::MessageClient {
 public:
  explicit Simulation(Bytes transaction_bytes = 0, const transport::VcPlan& plan = {})
      : fabric(plan, transaction_bytes) {
    fabric.watch_invariants();
  }
  virtual ~Simulation() = default;

  transport::Assembly fabric;
  std::deque<MemoryNode> nodes;  ///< node i has window i
  std::deque<transport::Switch> switches;
  std::vector<Time> landed;                    ///< by cookie
  std::vector<Time> took;                      ///< by cookie
  std::vector<Time> alone;                     ///< without contention, by cookie
  std::map<std::size_t, Bytes> undeliverable;  ///< by cookie: bytes that failed links have cut off

  MemoryNode& node(Time read_latency = Time()) {
    const auto window = static_cast<transport::Window>(nodes.size());
    return nodes.emplace_back(("node" + std::to_string(window)).c_str(), fabric, window, read_latency);
  }
  transport::Switch& add_switch(transport::Switch::DecodeBy by = transport::Switch::DecodeBy::window) {
    transport::Switch& made =
        switches.emplace_back(("switch" + std::to_string(switches.size())).c_str(), fabric.context(), by);
    fabric.add_device(made);
    return made;
  }
  /// A full-duplex link; returns a's port. Windows behind a switch's port are mapped by the caller.
  static std::pair<PortId, PortId> join(transport::Device& a, transport::Device& b,
                                        const transport::LinkDirection& to_b, const transport::LinkDirection& to_a) {
    const PortId at_a = a.add_port("port" + std::to_string(a.ports()), to_b);
    const PortId at_b = b.add_port("port" + std::to_string(b.ports()), to_a);
    transport::Device::connect(a, at_a, b, at_b);
    return {at_a, at_b};
  }
  /// A node below a switch, which maps its window.
  static void attach(MemoryNode& node, transport::Switch& sw, const transport::LinkDirection& up,
                     const transport::LinkDirection& down) {
    sw.decoder().map(node.window(), join(node, sw, up, down).second);
  }
  static void attach(MemoryNode& node, transport::Switch& sw, const transport::LinkDirection& both) {
    attach(node, sw, both, both);
  }

  /// Sends at `when`. @return the message's number, the index of its times
  std::size_t send(Time when, transport::Window source, transport::Window destination, Bytes bytes,
                   std::uint8_t traffic_class = 0, std::uint32_t queue_pair = 0) {
    transport::Message message;
    message.source = source;
    message.destination = destination;
    message.bytes = bytes;
    message.traffic_class = traffic_class;
    message.queue_pair = queue_pair;
    return send(when, message);
  }
  std::size_t send(Time when, transport::Message message) {
    message.client = this;
    message.cookie = landed.size();
    landed.push_back(Time::max());
    took.push_back(Time::max());
    alone.push_back(Time());
    starter_.messages.push_back(message);
    fabric.calendar().at(when, starter_, 0, starter_.messages.size() - 1);
    return landed.size() - 1;
  }

  /// The messages passed to send(), by number.
  const std::vector<transport::Message>& wanted() const { return starter_.messages; }

  /// Runs `action` at `when`.
  void at(Time when, std::function<void()> action) {
    actions_.actions.push_back(std::move(action));
    fabric.calendar().at(when, actions_, 0, actions_.actions.size() - 1);
  }

  void on_delivered(transport::Message& message) override {
    BOOST_TEST_REQUIRE((landed[message.cookie] == Time::max()));  // not twice
    landed[message.cookie] = fabric.now();
    took[message.cookie] = message.finished - message.started;
    alone[message.cookie] = message.uncontended;
    BOOST_TEST((message.finished == fabric.now()));
    delivered(message);
  }
  virtual void delivered(transport::Message&) {}
  void on_undeliverable(transport::Message& message) override {
    BOOST_TEST_REQUIRE((landed[message.cookie] == Time::max()));  // only one of both
    BOOST_TEST(message.landed + message.undeliverable == std::max<Bytes>(1, message.to_land));
    undeliverable[message.cookie] = message.undeliverable;
  }

  /// Runs to the end and checks the invariants there.
  void run() {
    sc_core::sc_start();
    done();
  }

 private:
  struct Starter : transport::CalendarClient {
    explicit Starter(Simulation& owner) : simulation(owner) {}
    void on_event(std::uint32_t, std::uint64_t number) override { simulation.fabric.send(messages[number]); }
    Simulation& simulation;
    std::vector<transport::Message> messages;
  };
  struct Actions : transport::CalendarClient {
    void on_event(std::uint32_t, std::uint64_t number) override { actions[number](); }
    std::vector<std::function<void()>> actions;
  };
  Starter starter_{*this};
  Actions actions_;

  void done() {
    BOOST_TEST((sc_core::sc_get_status() == sc_core::SC_PAUSED));  // no events left; not stopped by a call
    fabric.expect_settled();
    BOOST_TEST(fabric.calendar().pending() == 0u);
    BOOST_TEST(fabric.transactions_live() == 0u);
    BOOST_TEST(fabric.ledger().live() == 0u);
    BOOST_TEST(fabric.unreturned_credit() == 0u);
    for (std::size_t i = 0; i < landed.size(); ++i)
      BOOST_TEST((landed[i] != Time::max()) != (undeliverable.count(i) != 0), "message " << i << " never landed");
    const Time end = fabric.now();
    for (const transport::Device* device : fabric.devices()) {
      for (std::uint32_t p = 0; p < device->ports(); ++p) {
        const transport::Device::Port& port = device->port(PortId(p));
        BOOST_TEST((port.busy_until(end) <= end), device->name()
                                                      << " port " << p << " was busy longer than time passed");
        BOOST_TEST(port.counters.queued_bytes == 0u);
      }
    }
  }
};

}  // namespace railyard::test
