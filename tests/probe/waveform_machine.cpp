// The waveform of whole machines: which signals each level has, that the view shows all of them, and a small run of the
// disaggregated prefill whose waves must agree with what every link and every SM array counted.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include "probe/waveform.h"
#include "sc_main/scenario/load.h"
#include "tests/probe/vcd_reader.h"
#include "tests/support/service_of.h"
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using probe::Waveform;
using test::file_text;
using test::parse_vcd;
using Level = Waveform::Level;

namespace {

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("waveform_machine." + boost::unit_test::framework::current_test_case().p_name.get() +
                                "." + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
};

struct NoJobs : execution::JobSink {
  void on_job(const execution::JobRecord&) override {}
};

const std::string kScenarios = std::string(RAILYARD_SOURCE_DIR) + "/scenarios/";

/// A scenario under a kernel of its own, small enough to trace all of it.
class Traced : private test::FreshKernel, private workload::inference::ServiceSink {
 public:
  Traced(const std::string& file, const std::string& platform)
      : simulation(load_scenario(kScenarios + file, kSmall, platform), jobs_) {
    service().add_sink(*this);
  }

  workload::inference::Service& service() { return test::service_of(simulation); }
  Waveform& trace(const std::string& path, Level level) {
    Waveform::Config config;
    config.path = path;
    config.level = level;
    config.class_names = {"tp", "pp", "kv"};
    Waveform& waveform = waveform_.emplace(config);
    waveform.attach(simulation.fabric());
    for (std::uint32_t g = 0; g < simulation.machine().gpus(); ++g) waveform.attach(simulation.machine().gpu(GpuId(g)));
    for (workload::inference::Grid* grid : {&service().instance(0).grid(), &service().instance(1).grid()}) {
      for (std::uint32_t r = 0; r < grid->ranks(); ++r) {
        execution::Rank& rank = grid->rank(r);
        waveform.attach(
            rank.stream(workload::inference::Grid::kCompute), std::string(rank.gpu->name()) + ".stream.compute",
            [](const gpu::Task& task) { return "run " + static_cast<const execution::Job&>(task).label().work(); });
      }
    }
    waveform.start();
    return waveform;
  }
  std::vector<std::vector<Time>> run() {
    simulation.run([](Time) { return true; });
    BOOST_TEST_REQUIRE(service().api_server().done());
    return tokens_;
  }

 private:
  void on_served(std::uint32_t, const workload::inference::Stay& served) override {
    tokens_.push_back(served.times.tokens);
  }
  static const std::vector<std::string> kSmall;
  std::vector<std::vector<Time>> tokens_;  ///< of requests, in the order in which they finished
  NoJobs jobs_;

 public:
  Simulation simulation;

 private:
  std::optional<Waveform> waveform_;
};
const std::vector<std::string> Traced::kSmall = {
    "model.config=" RAILYARD_SOURCE_DIR "/scenarios/models/llama-3.1-8b.json", "workload.requests.prompt_tokens=64",
    "workload.chunk_tokens=32", "workload.decode.steps=2"};

std::set<std::string> names_of(const test::VcdFile& vcd) {
  std::set<std::string> names;
  for (const auto& signal : vcd.signals) names.insert(signal.first);
  return names;
}

/// Signals that a GTKWave save file shows.
std::set<std::string> shown_in(const std::string& view) {
  std::set<std::string> names;
  std::istringstream lines(view);
  for (std::string line; std::getline(lines, line);)
    if (const auto at = line.find("railyard."); at != std::string::npos && line[0] != '[')
      names.insert(line.substr(at));
  return names;
}

std::uint64_t integral(const std::vector<std::pair<std::uint64_t, std::string>>& changes) {
  std::uint64_t sum = 0, since = 0, value = 0;
  for (const auto& [when, bits] : changes) {
    sum += value * (when - since);
    since = when;
    value = std::stoull(bits, nullptr, 2);
  }
  BOOST_TEST(value == 0u);  // what is drawn comes to rest
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_CASE(levels_have_their_signals_and_the_view_shows_all_of_them) {
  const Folder folder;
  const struct {
    const char *scenario, *platform;
  } machines[] = {{"disagg_llama3_70b_plx.yaml", "plx_box"}, {"disagg_llama3_70b_dgx.yaml", "dgx_h100"}};
  for (const auto& machine : machines) {
    std::set<std::string> below;
    for (const Level level : {Level::summary, Level::links, Level::all}) {
      BOOST_TEST_CONTEXT(machine.platform << " level " << static_cast<int>(level)) {
        Traced traced(machine.scenario, machine.platform);
        traced.trace(folder.file("trace.vcd"), level);
        const std::set<std::string> names = names_of(parse_vcd(file_text(folder.file("trace.vcd"))));
        BOOST_TEST(std::includes(names.begin(), names.end(), below.begin(), below.end()));
        BOOST_TEST(names.size() > below.size());
        below = names;
        BOOST_TEST((shown_in(file_text(folder.file("trace.gtkw"))) == names));

        const auto has = [&](const std::string& name) { return names.count("railyard." + name) == 1; };
        const bool is_plx = machine.platform == std::string("plx_box");
        BOOST_TEST(has(is_plx ? "prefill0.gpu3.sm.active[7:0]" : "decode0.gpu7.sm.active[7:0]"));
        BOOST_TEST(has("prefill0.gpu3.stream.compute.state[2:0]"));
        BOOST_TEST(has("prefill0.gpu3.stream.compute.job"));
        for (const char* shared : {"prefill0.nic0.network", "prefill0.nic0.pcie", "prefill0.plx0.uplink",
                                   "decode0.root0.port0", "ib0.port0"})
          BOOST_TEST(has(std::string(shared) + ".tx.busy"));
        const bool has_links = level != Level::summary, has_all = level == Level::all;
        BOOST_TEST(has("prefill0.gpu3.outbound.kv_bytes[47:0]") == has_links);
        BOOST_TEST(has("prefill0.plx0.port0.tx.busy") == has_links);
        BOOST_TEST(has("prefill0.plx0.uplink.tx.queue_bytes[47:0]") == has_links);
        BOOST_TEST(has("prefill0.plx0.port0.tx.bytes_in_flight[47:0]") == has_links);
        BOOST_TEST(has("prefill0.plx0.port0.tx.class") == has_all);
        BOOST_TEST(has("prefill0.plx0.port0.tx.transactions[47:0]") == has_all);
        for (const char* channel : {"vc0", "vc1", "vc7", "vc8"})
          BOOST_TEST(has("prefill0.gpu0.pcie.tx." + std::string(channel) + ".outstanding_bytes[47:0]") == has_all);
        BOOST_TEST(!has("prefill0.gpu0.pcie.tx.vc2.outstanding_bytes[47:0]"));  // no class rides there
        BOOST_TEST(!has("ib0.port0.tx.vc7.outstanding_bytes[47:0]"));           // no read responses on InfiniBand
        BOOST_TEST(has("prefill0.nvswitch0.port3.tx.busy") == (has_links && !is_plx));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_run_whose_collectives_are_replayed_keeps_its_times) {
  const Folder folder;
  Traced plain("disagg_llama3_70b_dgx.yaml", "dgx_h100");
  const auto untraced = plain.run();
  for (const Level level : {Level::summary, Level::links}) {
    Traced traced("disagg_llama3_70b_dgx.yaml", "dgx_h100");
    Waveform& waveform = traced.trace(folder.file("trace.vcd"), level);
    BOOST_TEST((traced.run() == untraced));
    waveform.finish(traced.simulation.end());
    // Where every link is followed, nothing is replayed behind the waveform's back.
    if (level == Level::links)
      BOOST_TEST(traced.simulation.fabric().calendar().events() > plain.simulation.fabric().calendar().events());
  }
}

BOOST_AUTO_TEST_CASE(a_run_is_drawn_as_it_was_counted) {
  const Folder folder;
  std::vector<std::vector<Time>> untraced;
  std::uint64_t untraced_hops = 0;
  {
    Traced plain("disagg_llama3_70b_plx.yaml", "plx_box");
    untraced = plain.run();
    untraced_hops = plain.simulation.fabric().hop_transactions();
  }
  Traced traced("disagg_llama3_70b_plx.yaml", "plx_box");
  Waveform& waveform = traced.trace(folder.file("trace.vcd"), Level::all);
  BOOST_TEST((traced.run() == untraced));
  Simulation& s = traced.simulation;
  BOOST_TEST(s.fabric().hop_transactions() == untraced_hops);
  const Time end = s.end() + Time::ms(1);  // credits are still on their way home when the last byte has landed
  waveform.finish(end);

  const test::VcdFile vcd = parse_vcd(file_text(folder.file("trace.vcd")));
  std::size_t used = 0;
  for (const transport::Device* device : s.fabric().devices()) {
    for (std::uint32_t p = 0; p < device->ports(); ++p) {
      const transport::Device::Port& port = device->port(PortId(p));
      const std::string name = std::string("railyard.") + device->name() + "." + port.name + ".tx.";
      if (port.counters.transactions > 0) ++used;
      BOOST_TEST_CONTEXT(name) {
        BOOST_TEST(integral(vcd.at(name + "busy")) == port.counters.busy.fs());
        BOOST_TEST(vcd.at(name + "class").back().second == "");
        for (const auto& [signal, changes] : vcd.signals) {
          if (signal.compare(0, name.size(), name) != 0 || signal.find("bytes") == std::string::npos) continue;
          BOOST_TEST(std::stoull(changes.back().second, nullptr, 2) == 0u, signal << " does not come to rest at 0");
        }
      }
    }
  }
  BOOST_TEST(used > 40u);
  for (std::uint32_t g = 0; g < s.machine().gpus(); ++g) {
    const gpu::Gpu& gpu = s.machine().gpu(GpuId(g));
    const std::string name = std::string("railyard.") + gpu.name();
    const double sm_seconds = static_cast<double>(integral(vcd.at(name + ".sm.active[7:0]"))) * 1e-15;
    BOOST_TEST(sm_seconds > 0);
    BOOST_TEST(sm_seconds == gpu.sms().busy_sm_seconds(end), boost::test_tools::tolerance(1e-9));
    BOOST_TEST((integral(vcd.at(name + ".outbound.kv_bytes[47:0]")) > 0) ==
               (g < 8));  // prefill hands off, decode does not
    BOOST_TEST(vcd.at(name + ".stream.compute.state[2:0]").back().second == "0");
  }
}
