// The waveform against what the model counted, on fabrics small enough to know every instant.
#include "probe/waveform.h"

#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <optional>

#include "gpu/datasheet.h"
#include "tests/probe/vcd_reader.h"
#include "tests/support/kernel_of.h"
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using probe::Waveform;
using test::file_text;
using test::gb;
using test::ideal;
using test::parse_vcd;
using test::Simulation;
using Changes = std::vector<std::pair<std::uint64_t, std::string>>;
using Level = Waveform::Level;

namespace {

// A folder of this test case's own: ctest may run the cases at the same time.
struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("waveform." + boost::unit_test::framework::current_test_case().p_name.get() + "." + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
};

Waveform::Config config(const std::string& path, Level level = Level::all) {
  Waveform::Config c;
  c.path = path;
  c.level = level;
  c.class_names = {"bulk", "urgent"};
  return c;
}

void check_changes(const test::VcdFile& vcd, const std::string& name, const Changes& expected) {
  BOOST_TEST_CONTEXT(name) {
    const Changes& actual = vcd.at(name);
    BOOST_TEST_REQUIRE(actual.size() == expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      BOOST_TEST(actual[i].first == expected[i].first);
      BOOST_TEST(actual[i].second == expected[i].second);
    }
  }
}

std::string binary(std::uint64_t value) {
  std::string text;
  do text.insert(text.begin(), static_cast<char>('0' + value % 2));
  while ((value /= 2) != 0);
  return text;
}

std::uint64_t number(const std::string& bits) { return std::stoull(bits, nullptr, 2); }

constexpr Bytes kTrain = 16'384;
constexpr Bytes kSmallBuffer = 24'576;

/// Four senders of unequal rate and two classes of unequal priority, one receiver behind a trunk with a small buffer:
/// queues, credit stalls and interrupted trains.
class Contention : public Simulation {
 public:
  Contention() : Simulation(kTrain, plan()) {
    transport::Switch& near = add_switch();
    for (const std::uint64_t rate : {1, 8, 2, 8})
      attach(node(), near, ideal(gb(rate), Time::ns(300), 65'536, Time::ns(100)));
    transport::Switch& far = add_switch();
    const auto [out, back] = join(near, far, ideal(gb(8), Time::ns(400), kSmallBuffer, Time::ns(400)),
                                  ideal(gb(8), Time::ns(300), 65'536, Time::ns(100)));
    attach(node(), far, ideal(gb(6), Time::ns(300), 65'536, Time::ns(100)));
    near.decoder().map(4, out);
    far.decoder().set_default(back);
    for (transport::Window source = 0; source < 4; ++source) {
      send(Time::ns(100 * source), source, 4, 500'000);
      for (std::uint64_t k = 0; k < 10; ++k) send(Time::us(7 * k + source), source, 4, 20'000, 1);
      send(Time::us(200), 4, source, 100'000);
    }
  }

 private:
  static transport::VcPlan plan() {
    transport::VcPlan p;
    p.assign(0, {0, 1, 0});
    p.assign(1, {1, 1, 1});
    return p;
  }
};

/// Runs it under a waveform, or under none.
struct Run {
  std::vector<Time> landed;
  std::uint64_t events = 0;
  std::string vcd, view;
};
Run run(const Folder& folder, std::optional<Waveform::Config> wanted) {
  Contention s;
  std::optional<Waveform> waveform;
  if (wanted) {
    wanted->path = folder.file("trace.vcd");
    waveform.emplace(*wanted);
    waveform->attach(s.fabric);
    waveform->start();
    s.fabric.calendar().set_instant_hook([&](Time now) {
      waveform->advance(now);
      return true;
    });
  }
  s.run();
  Run result{s.landed, s.fabric.calendar().events(), "", ""};
  if (waveform) {
    waveform->finish(s.fabric.now());
    result.vcd = file_text(folder.file("trace.vcd"));
    result.view = file_text(folder.file("trace.gtkw"));
  }
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_train_over_two_hops_is_drawn_to_the_femtosecond) {
  const Folder folder;
  Simulation s(10'000);
  transport::Switch& sw = s.add_switch();
  Simulation::attach(s.node(), sw, ideal(gb(10), Time::ns(300), 65'536, Time::ns(100)));
  Simulation::attach(s.node(), sw, ideal(gb(10), Time::ns(200), 65'536, Time::ns(50)));
  Waveform waveform(config(folder.file("trace.vcd")));
  waveform.attach(s.fabric);
  waveform.start();
  s.send(Time::us(1), 0, 1, 10'000);  // 1 us of line
  s.run();
  waveform.finish(Time::us(9));
  const test::VcdFile vcd = parse_vcd(file_text(folder.file("trace.vcd")));
  const auto at = [](std::uint64_t ns) { return Time::ns(ns).fs(); };
  const std::string bytes = binary(10'000);
  check_changes(vcd, "railyard.node0.port0.tx.busy", {{0, "0"}, {at(1000), "1"}, {at(2000), "0"}});
  check_changes(vcd, "railyard.node0.port0.tx.queue_bytes[47:0]", {{0, "0"}});  // it starts as it comes
  check_changes(vcd, "railyard.node0.port0.tx.bytes_in_flight[47:0]", {{0, "0"}, {at(1000), bytes}, {at(2300), "0"}});
  check_changes(vcd, "railyard.node0.port0.tx.class", {{0, ""}, {at(1000), "bulk"}, {at(2000), ""}});
  check_changes(vcd, "railyard.node0.port0.tx.transactions[47:0]", {{0, "0"}, {at(1000), "1"}});
  // Its head is in the switch at 1300; its tail leaves there at 2300, and the credit takes 100 ns home.
  check_changes(vcd, "railyard.node0.port0.tx.vc0.outstanding_bytes[47:0]",
                {{0, "0"}, {at(1000), bytes}, {at(2400), "0"}});
  check_changes(vcd, "railyard.switch0.port1.tx.busy", {{0, "0"}, {at(1300), "1"}, {at(2300), "0"}});
  check_changes(vcd, "railyard.switch0.port1.tx.bytes_in_flight[47:0]", {{0, "0"}, {at(1300), bytes}, {at(2500), "0"}});
  check_changes(vcd, "railyard.switch0.port1.tx.vc0.outstanding_bytes[47:0]",
                {{0, "0"}, {at(1300), bytes}, {at(2550), "0"}});
  check_changes(vcd, "railyard.switch0.port0.tx.busy", {{0, "0"}});
  BOOST_TEST(vcd.stamps.back() == at(9000));
}

BOOST_AUTO_TEST_CASE(waves_add_up_to_the_counters) {
  const Folder folder;
  Contention s;
  Waveform waveform(config(folder.file("trace.vcd")));
  waveform.attach(s.fabric);
  waveform.start();
  s.run();
  waveform.finish(s.fabric.now());
  const test::VcdFile vcd = parse_vcd(file_text(folder.file("trace.vcd")));
  for (const transport::Device* device : s.fabric.devices()) {
    for (std::uint32_t p = 0; p < device->ports(); ++p) {
      const transport::Device::Port& port = device->port(PortId(p));
      const std::string name = std::string("railyard.") + device->name() + "." + port.name + ".tx.";
      BOOST_TEST_CONTEXT(name) {
        BOOST_TEST_REQUIRE(port.counters.transactions > 0u);
        std::uint64_t busy = 0, rose = 0;
        for (const auto& [when, value] : vcd.at(name + "busy")) {
          if (value == "1") {
            rose = when;
          } else {
            busy += when - rose;
          }
        }
        BOOST_TEST(vcd.at(name + "busy").back().second == "0");
        BOOST_TEST(busy == port.counters.busy.fs());
        BOOST_TEST(number(vcd.at(name + "transactions[47:0]").back().second) == port.counters.transactions);

        std::uint64_t deepest = 0;
        for (const auto& change : vcd.at(name + "queue_bytes[47:0]"))
          deepest = std::max(deepest, number(change.second));
        BOOST_TEST(deepest > 0u);
        BOOST_TEST(deepest >= port.counters.peak_queued_bytes);  // which leaves out what starts at once
        BOOST_TEST(vcd.at(name + "queue_bytes[47:0]").back().second == "0");
        BOOST_TEST(vcd.at(name + "bytes_in_flight[47:0]").back().second == "0");

        // Credit is out at least as long as the bytes are on their way, and never
        // more than the window in whole trains and one.
        std::map<std::uint64_t, std::array<std::uint64_t, 3>> changes;
        const std::string waves[] = {"bytes_in_flight[47:0]", "vc0.outstanding_bytes[47:0]",
                                     "vc1.outstanding_bytes[47:0]"};
        constexpr std::uint64_t kUnchanged = ~0ull;
        for (std::size_t w = 0; w < 3; ++w)
          for (const auto& [when, value] : vcd.at(name + waves[w]))
            changes.try_emplace(when, std::array<std::uint64_t, 3>{kUnchanged, kUnchanged, kUnchanged})
                .first->second[w] = number(value);
        std::array<std::uint64_t, 3> now{};
        for (const auto& [when, values] : changes) {
          for (std::size_t w = 0; w < 3; ++w)
            if (values[w] != kUnchanged) now[w] = values[w];
          if (values[0] != kUnchanged) BOOST_TEST_REQUIRE(now[0] <= now[1] + now[2]);  // it tells of starts
          BOOST_TEST_REQUIRE(now[1] < port.egress.link().buffer_bytes + 2 * kTrain);
          BOOST_TEST_REQUIRE(now[2] < port.egress.link().buffer_bytes + 2 * kTrain);
        }
      }
    }
  }
}

namespace {

/// The trains of each port: when they started, when their tails were at the next device, and their bytes.
struct Trains : transport::FabricListener {
  struct Train {
    Time start, tail;
    Bytes bytes;
  };
  std::map<const transport::Device::Port*, std::vector<Train>> of;

  void on_start(const transport::Device& device, PortId port, const transport::Transaction& t, Time now,
                const transport::Crossing& crossing) override {
    if (t.carried_bytes() != 0) of[&device.port(port)].push_back({now, crossing.tail, t.carried_bytes()});
  }
  void on_queue(const transport::Device&, PortId, Bytes, Time) override {}
  void on_send(const transport::Message&, Time) override {}
  void on_delivered(const transport::Message&, Time) override {}
  void on_credit(const transport::Device&, PortId, std::uint8_t, Bytes, Time, Time) override {}
};

/// At each start what is on its way then, and nothing once the last of it is there.
Changes in_flight(const std::vector<Trains::Train>& trains) {
  std::map<std::uint64_t, Bytes> values{{0, 0}};
  Time last;
  for (const Trains::Train& train : trains) {
    if (last <= train.start) values[last.fs()] = 0;
    last = later(last, train.tail);
    Bytes& value = values[train.start.fs()];
    value = 0;
    for (const Trains::Train& other : trains)
      if (other.start <= train.start && train.start < other.tail) value += other.bytes;
  }
  values[last.fs()] = 0;
  Changes changes;
  for (const auto& [when, value] : values)
    if (changes.empty() || changes.back().second != binary(value)) changes.emplace_back(when, binary(value));
  return changes;
}

}  // namespace

BOOST_AUTO_TEST_CASE(bytes_in_flight_are_exact_at_each_start_and_when_all_is_there) {
  const Folder folder;
  Contention s;
  Waveform waveform(config(folder.file("trace.vcd"), Level::links));
  Trains trains;
  waveform.attach(s.fabric);
  s.fabric.add_listener(trains);
  waveform.start();
  s.run();
  waveform.finish(s.fabric.now());
  const test::VcdFile vcd = parse_vcd(file_text(folder.file("trace.vcd")));
  for (const transport::Device* device : s.fabric.devices())
    for (std::uint32_t p = 0; p < device->ports(); ++p) {
      const transport::Device::Port& port = device->port(PortId(p));
      check_changes(vcd, std::string("railyard.") + device->name() + "." + port.name + ".tx.bytes_in_flight[47:0]",
                    in_flight(trains.of.at(&port)));
    }
}

BOOST_AUTO_TEST_CASE(tracing_changes_nothing_and_repeats_to_the_byte) {
  const Folder folder;
  const Run untraced = run(folder, {});
  std::size_t smaller = 0;
  for (const Level level : {Level::summary, Level::links, Level::all}) {
    const Run traced = run(folder, config("", level));
    BOOST_TEST(traced.events == untraced.events);
    BOOST_TEST((traced.landed == untraced.landed));
    const Run again = run(folder, config("", level));
    BOOST_TEST((again.vcd == traced.vcd));
    BOOST_TEST((again.view == traced.view));
    BOOST_TEST(parse_vcd(traced.vcd).signals.size() > smaller);
    smaller = parse_vcd(traced.vcd).signals.size();
  }
}

BOOST_AUTO_TEST_CASE(classes_without_a_name_have_no_signals) {
  const Folder folder;
  const Run two = run(folder, config(""));
  Waveform::Config wanted = config("");
  wanted.class_names = {"bulk", "urgent", ""};
  const Run three = run(folder, wanted);
  BOOST_TEST((two.vcd == three.vcd));
  BOOST_TEST((two.view == three.view));
}

BOOST_AUTO_TEST_CASE(an_interrupted_run_leaves_a_waveform_up_to_there) {
  const Folder folder;
  const std::string whole = run(folder, config("")).vcd;
  Contention s;
  Waveform waveform(config(folder.file("part.vcd")));
  waveform.attach(s.fabric);
  waveform.start();
  BOOST_TEST(parse_vcd(file_text(folder.file("part.vcd"))).signals.size() == parse_vcd(whole).signals.size());
  BOOST_TEST(std::filesystem::exists(folder.file("part.gtkw")));  // already: for a run that is killed
  s.fabric.calendar().set_instant_hook([&](Time now) {
    waveform.advance(now);
    return now < Time::us(50);
  });
  sc_core::sc_start();
  const Time stopped = s.fabric.now();
  BOOST_TEST((stopped >= Time::us(50)));
  waveform.finish(stopped);
  const std::string part = file_text(folder.file("part.vcd"));
  const test::VcdFile vcd = parse_vcd(part);
  BOOST_TEST(vcd.stamps.back() == stopped.fs());
  BOOST_TEST(vcd.stamps.size() > 100u);
  const std::string::size_type last = part.rfind("#" + std::to_string(stopped.fs()));
  BOOST_TEST((whole.compare(0, last, part, 0, last) == 0));
  BOOST_TEST(whole.size() > part.size());
}

BOOST_AUTO_TEST_CASE(filter_and_window_are_honoured) {
  const Folder folder;
  Waveform::Config wanted = config("");
  wanted.window = {Time::us(20), Time::us(30), {"switch0.port4", "*.queue_bytes"}};
  const Run run_in_window = run(folder, wanted);
  const test::VcdFile vcd = parse_vcd(run_in_window.vcd);
  BOOST_TEST(vcd.signals.size() == 10u + 11u);  // all of one port, one of each other
  BOOST_TEST(vcd.signals.count("railyard.switch0.port4.tx.busy") == 1u);
  BOOST_TEST(vcd.signals.count("railyard.switch0.port3.tx.busy") == 0u);
  BOOST_TEST(vcd.signals.count("railyard.switch0.port3.tx.queue_bytes[47:0]") == 1u);
  BOOST_TEST(vcd.stamps.front() == Time::us(20).fs());
  BOOST_TEST(vcd.stamps.back() == Time::us(30).fs());
  BOOST_TEST(vcd.stamps.size() > 10u);
  BOOST_TEST(run_in_window.view.find("switch0.port4.tx.busy") != std::string::npos);
  BOOST_TEST(run_in_window.view.find("switch0.port3.tx.busy") == std::string::npos);
  // Folded or not, what the window shows is what the whole run shows there.
  const test::VcdFile whole = parse_vcd(run(folder, config("")).vcd);
  for (const auto& [name, changes] : vcd.signals) {
    Changes expected{{Time::us(20).fs(), ""}};
    for (const auto& [when, value] : whole.at(name)) {
      if (when <= Time::us(20).fs())
        expected.front().second = value;
      else if (when <= Time::us(30).fs())
        expected.emplace_back(when, value);
    }
    check_changes(vcd, name, expected);
  }
}

namespace {

/// Two GPUs behind a switch.
class TwoGpus : public Simulation, private gpu::EgressPolicy {
 public:
  TwoGpus() : Simulation(10'000) {
    datasheet_.sm.count = 132;
    datasheet_.hbm.capacity_gb = 80;
    transport::Switch& sw = add_switch();
    for (transport::Window w = 0; w < 2; ++w) {
      gpu::Gpu::Config c;
      c.datasheet = &datasheet_;
      c.pcie = ideal(gb(10), Time::ns(300));
      gpus.push_back(std::make_unique<gpu::Gpu>(("gpu" + std::to_string(w)).c_str(), fabric.context(), w, c,
                                                static_cast<const gpu::EgressPolicy&>(*this)));
      fabric.add_device(*gpus.back());
      fabric.add_sender(w, *gpus.back());
      const PortId port = sw.add_port("port" + std::to_string(w), ideal(gb(10), Time::ns(200)));
      transport::Device::connect(*gpus.back(), gpus.back()->pcie(), sw, port);
      sw.decoder().map(w, port);
    }
  }
  std::vector<std::unique_ptr<gpu::Gpu>> gpus;

 private:
  gpu::Egress egress(transport::Window, transport::Window, std::uint8_t, std::uint32_t) const override {
    return {gpu::Egress::Via::pcie, nullptr, 0};
  }
  gpu::GpuDatasheet datasheet_;
};

class KernelTask : public gpu::Task, private gpu::SmClient {
 public:
  KernelTask(gpu::Gpu& gpu, Time duration, std::uint32_t sms, std::string name)
      : name(std::move(name)), gpu_(gpu), duration_(duration), sms_(sms) {}
  const std::string name;

 private:
  void begin() override { gpu_.sms().run(test::kernel_of(duration_, sms_), *this); }
  gpu::Activity activity() const override { return gpu::Activity::kernel; }
  void on_kernel_done() override { finish(); }
  gpu::Gpu& gpu_;
  Time duration_;
  std::uint32_t sms_;
};

/// Does something at an instant.
struct Alarm : transport::CalendarClient {
  std::function<void()> action;
  void on_event(std::uint32_t, std::uint64_t) override { action(); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(kernels_streams_and_messages_are_drawn_as_they_ran) {
  const Folder folder;
  TwoGpus s;
  gpu::Stream stream, other;
  Waveform waveform(config(folder.file("trace.vcd"), Level::links));
  BOOST_CHECK_THROW(waveform.attach(*s.gpus[0]), std::logic_error);  // the fabric comes first
  BOOST_CHECK_THROW(waveform.attach(stream, "gpu0.stream.compute"), std::logic_error);
  waveform.attach(s.fabric);
  for (auto& gpu : s.gpus) waveform.attach(*gpu);
  waveform.attach(
      stream, "gpu0.stream.compute", [](const gpu::Task& task) { return static_cast<const KernelTask&>(task).name; },
      [](const gpu::Task&) { return "layer"; });
  waveform.attach(other, "gpu0.stream.other");
  waveform.start();

  KernelTask first(*s.gpus[0], Time::us(3), 100, "qkv"), second(*s.gpus[0], Time::us(2), 132, "mlp"),
      third(*s.gpus[0], Time::us(1), 7, "mlp");
  KernelTask beside(*s.gpus[0], Time::us(4), 32, "");
  second.wait_for_one_more();
  Alarm push, release;
  push.action = [&] {
    for (KernelTask* task : {&first, &second, &third}) stream.push(*task);
    other.push(beside);
  };
  release.action = [&] { second.waited(); };
  s.fabric.calendar().at(Time::us(1), push, 0, 0);
  s.fabric.calendar().at(Time::us(6), release, 0, 0);
  s.send(Time::us(2), 0, 1, 10'000);
  s.send(Time::us(2), 0, 1, 30'000, 1);
  s.run();
  waveform.finish(s.fabric.now());

  const test::VcdFile vcd = parse_vcd(file_text(folder.file("trace.vcd")));
  const auto at = [](std::uint64_t us) { return Time::us(us).fs(); };
  check_changes(vcd, "railyard.gpu0.sm.active[7:0]",
                {{0, "0"},
                 {at(1), binary(132)},
                 {at(4), binary(32)},
                 {at(5), "0"},
                 {at(6), binary(132)},
                 {at(8), binary(7)},
                 {at(9), "0"}});
  check_changes(vcd, "railyard.gpu1.sm.active[7:0]", {{0, "0"}});
  check_changes(vcd, "railyard.gpu0.stream.compute.state[2:0]",
                {{0, "0"}, {at(1), binary(2)}, {at(4), binary(1)}, {at(6), binary(2)}, {at(9), "0"}});
  check_changes(vcd, "railyard.gpu0.stream.compute.job",
                {{0, ""}, {at(1), "qkv"}, {at(4), ""}, {at(6), "mlp"}, {at(9), ""}});
  check_changes(vcd, "railyard.gpu0.stream.compute.work",
                {{0, ""}, {at(1), "layer"}, {at(4), ""}, {at(6), "layer"}, {at(9), ""}});
  check_changes(vcd, "railyard.gpu0.stream.other.state[2:0]", {{0, "0"}, {at(1), binary(2)}, {at(5), "0"}});
  BOOST_TEST(vcd.signals.count("railyard.gpu0.stream.other.job") == 0u);
  check_changes(vcd, "railyard.gpu0.outbound.bulk_bytes[47:0]",
                {{0, "0"}, {at(2), binary(10'000)}, {s.landed[0].fs(), "0"}});
  check_changes(vcd, "railyard.gpu0.outbound.urgent_bytes[47:0]",
                {{0, "0"}, {at(2), binary(30'000)}, {s.landed[1].fs(), "0"}});
}
