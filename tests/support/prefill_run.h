// A whole scenario under test: loaded from text, modified by a test, and run to its end, with all reported jobs. run()
// checks the invariants at the end of every run: the run ended by itself, every request is done, nothing is in flight,
// every credit was returned, and memory is as before the first request.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/scenario/scenario_support.h"
#include "tests/support/service_of.h"
#include "tests/support/simulation.h"

namespace railyard::test {

/// A row of jobs.csv, with its name.
struct JobRow : execution::JobRecord {
  std::string text;
  const std::string& name() const { return text; }
  /// The number in brackets after `key`: number("Layer") of "..._Layer[7]_...".
  std::optional<std::uint32_t> number(const std::string& key) const {
    const auto at = text.find(key + "[");
    if (at == std::string::npos) return std::nullopt;
    return static_cast<std::uint32_t>(std::stoul(text.substr(at + key.size() + 1)));
  }
};

inline const std::string kTinyModel = kSource + "/tests/models/tiny.json";

/// Six layers of hidden size 1024 with 8 heads and 4 KV heads on two servers; `sets` adapt the scenario to a test.
inline Scenario tiny_scenario(const std::vector<std::string>& sets = {}, const std::string& platform = "plx_box") {
  return Scratch().load("model: {config: " + kTinyModel +
                            "}\n"
                            "workload:\n"
                            "  kind: disaggregated_prefill\n"
                            "  requests: {prompt_tokens: 1024}\n"
                            "  chunk_tokens: 256\n"
                            "  host: none\n"
                            "  prefill: {tp: 1, pp: 1}\n"
                            "  decode: {steps: 2}\n",
                        sets, platform);
}

/// A host that takes no time but what `keys` say: "request_us: 700, token_us: 30".
inline std::string host_of(const std::string& keys) {
  std::string all = ", " + keys;
  for (const std::string key :
       {"async", "step_us", "sequence_us", "layer_us", "eager_layer_us", "request_us", "token_us"})
    if (all.find(", " + key + ":") == std::string::npos) all += ", " + key + (key == "async" ? ": false" : ": 0");
  return "{" + all.substr(2) + "}";
}

/// Links limited only by their rates, without packets or latencies, so that times have a closed form.
inline void idealise(platforms::MachineSpec& m) {
  m.pcie.write_overhead_bytes = m.pcie.read_request_bytes = m.pcie.completion_overhead_bytes = m.pcie.dllp_bytes = 0;
  m.infiniband.packet_overhead_bytes = m.infiniband.first_overhead_bytes = 0;
  const auto plain = [](platforms::LinkDatasheet& link) {
    link.latency_ns = link.buffer_bytes = link.posted_headers = link.non_posted_headers = link.completion_headers = 0;
  };
  for (platforms::LinkDatasheet* link :
       {&m.gpu_pcie, &m.nic_pcie, &m.plx_uplink, &m.plx_cascade, &m.socket_link, &m.nvlink, &m.ib_cable})
    plain(*link);
  m.plx.hop_ns = m.plx.buffer_bytes = 0;
  m.root_complex.hop_ns = m.root_complex.buffer_bytes = 0;
  m.nvswitch.hop_ns = m.nvswitch.buffer_bytes = 0;
  m.ib_switch.hop_ns = m.ib_switch.buffer_bytes = 0;
  m.nic.doorbell_ns = m.nic.transmit_ns = m.nic.receive_ns = m.nic.read_tags = m.nic.buffer_bytes = 0;
  for (platforms::GroupSpec& group : m.groups) {
    plain(group.gpu_pcie);
    plain(group.nvlink);
    platforms::NvLinkProtocol& nvlink = group.nvlink_protocol;
    nvlink.header_flits = nvlink.request_flits = nvlink.response_flits = nvlink.flits_per_link_flit = 0;
    group.gpu.hbm.read_latency_ns = 0;
    group.gpu.collective = {};  // SMs add no time to collectives
    group.gpu.collective.channels = 1;
  }
}

/// Keeps every record, or all but those of details.
struct Records : execution::JobSink {
  bool takes(execution::Recorded recorded) const override {
    return takes_details || recorded != execution::Recorded::detail;
  }
  void on_job(const execution::JobRecord& record) override {
    if (takes(record.label.recorded())) all.push_back({record, record.name()});
  }
  bool takes_details = true;
  /// Records whose names begin with `prefix`.
  std::vector<JobRow> of(const std::string& prefix) const {
    std::vector<JobRow> found;
    std::copy_if(all.begin(), all.end(), std::back_inserter(found),
                 [&](const JobRow& r) { return r.text.compare(0, prefix.size(), prefix) == 0; });
    return found;
  }
  /// The record with this name.
  const JobRow& named(const std::string& name) const {
    const auto found = std::find_if(all.begin(), all.end(), [&](const JobRow& r) { return r.name() == name; });
    BOOST_TEST_REQUIRE((found != all.end()), "no job " << name);
    return *found;
  }
  std::vector<JobRow> all;
};

/// Keeps every request that is done.
struct RequestRecords : workload::inference::ServiceSink {
  void on_served(std::uint32_t request, const workload::inference::Stay& served) override { done[request] = served; }
  std::map<std::uint32_t, workload::inference::Stay> done;
};

class PrefillRun : private FreshKernel {
 public:
  explicit PrefillRun(const Scenario& scenario) : simulation(scenario, records) {
    fabric().watch_invariants();
    service().add_sink(requests_);
    for (const workload::inference::Grid* grid : {&service().instance(0).grid(), &service().instance(1).grid()})
      for (std::uint32_t r = 0; r < grid->ranks(); ++r)
        loaded_.push_back({grid->rank(r).gpu, grid->rank(r).gpu->hbm().used()});
  }

  Records records;
  railyard::Simulation simulation;

  workload::inference::Service& service() { return service_of(simulation); }
  transport::Assembly& fabric() { return simulation.fabric(); }
  /// A request with its times.
  const workload::inference::Stay& request(std::uint32_t r = 0) {
    const auto found = requests_.done.find(r);
    return found == requests_.done.end() ? service().api_server().on_way(r) : found->second;
  }
  gpu::Gpu& prefill_gpu(std::uint32_t rank) { return *service().instance(0).grid().rank(rank).gpu; }
  gpu::Gpu& decode_gpu(std::uint32_t rank) { return *service().instance(1).grid().rank(rank).gpu; }
  /// Payload on a GPU's PCIe link, from the GPU and to the GPU.
  static Bytes pcie_sent(const gpu::Gpu& gpu) { return gpu.port(gpu.pcie()).counters.payload_bytes; }
  static Bytes pcie_received(const gpu::Gpu& gpu) {
    const transport::Device::Port& port = gpu.port(gpu.pcie());
    return port.peer->port(port.peer_port).counters.payload_bytes;
  }

  /// @param watch  called at each new instant
  void run(std::function<void()> watch = {}) {
    simulation.run([&](Time) {
      if (watch) watch();
      return true;
    });
    BOOST_TEST_REQUIRE(service().api_server().done());
    BOOST_TEST(simulation.workload().blocked().empty());
    BOOST_TEST(simulation.workload().executor().live() == 0u);
    BOOST_TEST(fabric().calendar().pending() == 0u);
    BOOST_TEST(fabric().transactions_live() == 0u);
    BOOST_TEST(fabric().ledger().live() == 0u);
    BOOST_TEST(fabric().unreturned_credit() == 0u);
    for (const auto& [gpu, bytes] : loaded_) {
      BOOST_TEST(gpu->hbm().used() == bytes);
      BOOST_TEST(gpu->sms().active() == 0u);
    }
    const Time end = fabric().now();
    for (const transport::Device* device : fabric().devices()) {
      for (std::uint32_t p = 0; p < device->ports(); ++p) {
        const transport::Device::Port& port = device->port(PortId(p));
        BOOST_TEST((port.busy_until(end) <= end), device->name()
                                                      << " " << port.name << " was busy longer than time passed");
        BOOST_TEST(port.counters.queued_bytes == 0u);
      }
    }
  }

 private:
  std::vector<std::pair<const gpu::Gpu*, Bytes>> loaded_;
  RequestRecords requests_;
};

}  // namespace railyard::test
