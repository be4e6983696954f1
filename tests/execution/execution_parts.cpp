// A communicator in parts: each part runs a collective as if it were alone, and sends nothing to another part.
#include <map>
#include <utility>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "tests/support/job_bench.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using collective::Operation;

namespace {

struct Ran {
  Time took;
  collective::CollectiveSpec spec;
  std::map<std::pair<transport::Window, transport::Window>, Bytes> sent;
  std::vector<std::uint64_t> crossed;  ///< bytes at all ports, most first
};

struct Ways : transport::FabricListener {
  void on_send(const transport::Message&, Time) override {}
  void on_delivered(const transport::Message& message, Time) override {
    bytes[{message.source, message.destination}] += message.bytes;
  }
  void on_start(const transport::Device&, PortId, const transport::Transaction&, Time,
                const transport::Crossing&) override {}
  void on_queue(const transport::Device&, PortId, Bytes, Time) override {}
  void on_credit(const transport::Device&, PortId, std::uint8_t, Bytes, Time, Time) override {}
  std::map<std::pair<transport::Window, transport::Window>, Bytes> bytes;
};

/// @param gpus   of the ranks
/// @param parts  of the communicator; 0: the first half of the ranks is alone
Ran run(const Scenario& scenario, const std::vector<std::uint32_t>& gpus, std::uint32_t parts,
        const std::string& engine, Operation operation, Bytes bytes) {
  JobBench bench(scenario, *std::max_element(gpus.begin(), gpus.end()) + 1);
  bench.executor.members_begin_together();
  Ways ways;
  bench.fabric.add_listener(ways);
  std::vector<Rank*> ranks;
  for (const std::uint32_t gpu : gpus) ranks.push_back(bench.ranks[gpu]);
  if (parts == 0) ranks.resize(ranks.size() / 2);
  collective::CollectiveRequest request;
  request.engine = scenario::load_engine({engine, "workload.library", {}});
  request.in_graph = true;
  Communicator all(ranks, JobBench::kCompute, std::max(1u, parts), request, bench.fabric);
  const collective::CollectiveSpec& spec = all.choose(operation, bytes);
  bench.later_on(Time::us(1), [&] { bench.collective(all, spec, 1); });
  bench.run();
  Ran ran{bench.done.at(1) - bench.begun.at(1), spec, ways.bytes, {}};
  for (const transport::Device* device : bench.fabric.devices())
    for (std::uint32_t p = 0; p < device->ports(); ++p)
      if (const std::uint64_t wire = device->port(PortId(p)).counters.wire_bytes; wire != 0)
        ran.crossed.push_back(wire);
  std::sort(ran.crossed.begin(), ran.crossed.end());
  return ran;
}

/// Each part of two takes as long as one alone; every port of one has a counterpart in the other.
void check_halves(const Scenario& scenario, const std::vector<std::uint32_t>& gpus, const std::string& engine,
                  Operation operation, Bytes bytes) {
  const Ran alone = run(scenario, gpus, 0, engine, operation, bytes),
            both = run(scenario, gpus, 2, engine, operation, bytes);
  BOOST_TEST_INFO_SCOPE(engine << " " << name_of(operation) << " " << bytes << " by " << name_of(both.spec.algorithm));
  BOOST_TEST((both.spec.algorithm == alone.spec.algorithm && both.spec.channels == alone.spec.channels));
  BOOST_TEST(both.took.fs() == alone.took.fs());
  BOOST_TEST(both.sent.size() == 2 * alone.sent.size());
  for (const auto& [way, sent] : alone.sent) BOOST_TEST(both.sent.at(way) == sent);
  std::vector<std::uint64_t> twice;
  for (const std::uint64_t wire : alone.crossed) twice.insert(twice.end(), 2, wire);
  BOOST_TEST(both.crossed == twice, boost::test_tools::per_element());
}

}  // namespace

BOOST_AUTO_TEST_CASE(parts_on_one_server_run_as_if_alone) {
  const Scenario dgx = tiny_scenario({}, "dgx_h100");
  const std::vector<std::uint32_t> gpus{0, 1, 2, 3, 4, 5, 6, 7};
  for (const Bytes bytes : {8192u, 300000u, 64u << 20})  // one shot, two shots, NVLink SHARP
    check_halves(dgx, gpus, "vllm-0.19", Operation::all_reduce, bytes);
  check_halves(dgx, gpus, "sglang-0.5", Operation::reduce_scatter, 1 << 20);
  check_halves(dgx, gpus, "vllm-0.19", Operation::all_gather, 1 << 20);
  check_halves(tiny_scenario({}, "hgx_a100_4gpu"), {0, 1, 2, 3}, "vllm-0.19", Operation::all_reduce, 1 << 20);
}

BOOST_AUTO_TEST_CASE(parts_over_servers_run_as_if_alone) {
  const Scenario two = tiny_scenario({"machine.groups={prefill: {servers: 2}, decode: {servers: 1}}"}, "dgx_h100");
  for (const Operation operation : {Operation::all_reduce, Operation::all_gather})
    check_halves(two, {0, 8, 1, 9}, "vllm-0.19", operation, 1 << 20);
}
