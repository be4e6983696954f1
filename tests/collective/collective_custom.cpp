// The kernels that serving engines choose for an all-reduce, against their sources and the algorithms that measured rows
// show (validation/custom_all_reduce.csv).
#include "collective/custom_all_reduce.h"
#include "sc_main/scenario/datasheets/datasheets.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::collective;
using gpu::Architecture;

namespace {

constexpr Bytes kKib = 1024, kMib = 1024 * kKib;

Engine engine(const std::string& name) { return scenario::load_engine({name, "workload.library", {}}); }

const Engine kNccl = engine("nccl"), kVllm = engine("vllm-0.19"), kSglang = engine("sglang-0.5"),
             kTrtllm = engine("trtllm-1.0");
const Engine* const kEngines[] = {&kVllm, &kSglang, &kTrtllm};

struct Machine {
  gpu::GpuDatasheet gpu;
  Site site;
  explicit Machine(Architecture architecture, std::uint32_t ranks, bool nvlink = true) {
    gpu.architecture = architecture;
    site.gpu = &gpu;
    site.ranks = ranks;
    site.nvlink = nvlink;
  }
  CustomKernel kernel(const Engine& one) const { return custom_kernel(one, site); }
  Bytes one_shot(const Engine& one) const { return kernel(one).one_shot; }
  Bytes most(const Engine& one) const { return kernel(one).most(); }
};

/// Largest vectors of one-shot and of all, by number of ranks from 2.
void check(const Engine& one, Architecture architecture, const std::vector<Bytes>& one_shot,
           const std::vector<Bytes>& most) {
  for (std::uint32_t i = 0; i < most.size(); ++i) {
    const Machine machine(architecture, i + 2);
    BOOST_TEST(machine.one_shot(one) == one_shot[i], name_of(architecture) << ", " << i + 2 << " ranks");
    BOOST_TEST(machine.most(one) == most[i], name_of(architecture) << ", " << i + 2 << " ranks");
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(vllm_reduces_up_to_8_mib_on_even_numbers_of_ranks) {
  for (Architecture architecture : {Architecture::hopper, Architecture::blackwell})
    check(kVllm, architecture, {8 * kMib, 0, 512 * kKib - 1, 0, 256 * kKib - 1, 0, 256 * kKib - 1, 0},
          {8 * kMib, 0, 8 * kMib, 0, 8 * kMib, 0, 8 * kMib, 0});
  for (Architecture architecture : {Architecture::volta, Architecture::ampere, Architecture::ada, Architecture::cdna3})
    check(kVllm, architecture, {8 * kMib - 1, 0, 512 * kKib - 1, 0, 256 * kKib - 1, 0, 256 * kKib - 1, 0},
          {8 * kMib - 1, 0, 8 * kMib - 1, 0, 8 * kMib - 1, 0, 8 * kMib - 1, 0});
  for (const std::uint32_t ranks : {1u, 16u}) BOOST_TEST(Machine(Architecture::hopper, ranks).most(kVllm) == 0u);
}

BOOST_AUTO_TEST_CASE(vllm_reads_16_bytes_a_thread_from_each_peer) {
  const CustomKernel kernel = Machine(Architecture::hopper, 8).kernel(kVllm);
  BOOST_TEST_REQUIRE(kernel.pull.has_value());
  BOOST_TEST(kernel.pull->bytes_in_flight(8) == 7 * 36 * 512 * 16.0);
}

BOOST_AUTO_TEST_CASE(sglang_has_the_kernel_of_vllm_before_hopper_and_without_nvlink) {
  const Machine ampere(Architecture::ampere, 8), ada(Architecture::ada, 2, false),
      blackwell(Architecture::blackwell, 2, false);
  for (const Machine* one : {&ampere, &ada, &blackwell}) {
    const Machine& machine = *one;
    BOOST_TEST_REQUIRE(machine.kernel(kSglang).pull.has_value());
    BOOST_TEST(machine.kernel(kSglang).pull->bytes_in_flight(2) == machine.kernel(kVllm).pull->bytes_in_flight(2));
    BOOST_TEST(machine.most(kVllm) == 8 * kMib - 1);
    BOOST_TEST(machine.most(kSglang) == 16 * kMib - 1);
  }
  for (const std::uint32_t ranks : {4u, 6u, 8u})
    BOOST_TEST(Machine(Architecture::ampere, ranks).one_shot(kSglang) ==
               Machine(Architecture::ampere, ranks).one_shot(kVllm));
  BOOST_TEST(!Machine(Architecture::hopper, 8).kernel(kSglang).pull.has_value());
}

BOOST_AUTO_TEST_CASE(sglang_leaves_one_shot_before_vllm_and_keeps_larger_vectors) {
  const std::vector<Bytes> most(7, 16 * kMib);
  check(kSglang, Architecture::hopper,
        {16 * kMib, 512 * kKib, 384 * kKib, 256 * kKib, 192 * kKib, 192 * kKib, 160 * kKib}, most);
  check(kSglang, Architecture::blackwell, {16 * kMib, 4 * kMib, 2 * kMib, 2 * kMib, kMib, 896 * kKib, 720 * kKib},
        most);
  for (const std::uint32_t ranks : {4u, 8u})
    BOOST_TEST(Machine(Architecture::hopper, ranks).one_shot(kSglang) <
               Machine(Architecture::hopper, ranks).one_shot(kVllm));
  BOOST_TEST(Machine(Architecture::hopper, 9).most(kSglang) == 0u);
}

BOOST_AUTO_TEST_CASE(tensorrt_llm_leaves_large_vectors_to_nccl_the_sooner_the_more_ranks) {
  for (Architecture architecture : {Architecture::ampere, Architecture::hopper})
    check(kTrtllm, architecture, {8 * kMib, 0, 2 * kMib, 0, 0, 0, 512 * kKib},
          {8 * kMib, 0, 4 * kMib, 0, 0, 0, 512 * kKib});
  check(kTrtllm, Architecture::blackwell, {8 * kMib, 0, 2 * kMib, 0, 0, 0, 2 * kMib},
        {8 * kMib, 0, 4 * kMib, 0, 0, 0, 4 * kMib});
  BOOST_TEST(!Machine(Architecture::hopper, 8).kernel(kTrtllm).pull.has_value());
}

BOOST_AUTO_TEST_CASE(without_nvlink_only_pairs_have_a_kernel_and_tensorrt_llm_has_none) {
  for (const Engine* one : kEngines)
    for (const std::uint32_t ranks : {2u, 4u, 8u}) {
      const bool has = ranks == 2 && one != &kTrtllm;
      BOOST_TEST((Machine(Architecture::ada, ranks, false).most(*one) > 0) == has);
    }
}

BOOST_AUTO_TEST_CASE(servers_and_nccl_have_no_kernel_of_an_engine) {
  Machine machine(Architecture::hopper, 8);
  BOOST_TEST(machine.most(kNccl) == 0u);
  machine.site.servers = 2;
  for (const Engine* one : kEngines) BOOST_TEST(machine.most(*one) == 0u);
}

BOOST_AUTO_TEST_CASE(only_engines_pay_a_call_of_the_host) {
  for (std::size_t i = 0; i < kCpuNames.size(); ++i) {
    const Cpu cpu = static_cast<Cpu>(i);
    BOOST_TEST(kNccl.eager_call_us(cpu) == 0);
    for (const Engine* one : kEngines) BOOST_TEST(one->eager_call_us(cpu) > 0, one->name << " on " << kCpuNames[i]);
  }
}

BOOST_AUTO_TEST_CASE(the_first_call_that_fits_the_cpu_applies) {
  Engine engine;
  engine.eager_call = {{{Cpu::grace}, 5}, {{Cpu::epyc_rome, Cpu::grace}, 7}};
  BOOST_TEST((engine.eager_call_us(Cpu::grace) == 5 && engine.eager_call_us(Cpu::epyc_rome) == 7));
  BOOST_TEST(engine.eager_call_us(Cpu::epyc_milan) == 0);
  engine.eager_call.push_back({{}, 9});
  BOOST_TEST((engine.eager_call_us(Cpu::grace) == 5 && engine.eager_call_us(Cpu::epyc_milan) == 9));
}

BOOST_AUTO_TEST_CASE(outside_a_graph_the_host_of_older_cpus_takes_longer) {
  const gpu::GpuDatasheet gpu = scenario::load_gpu({"H100-SXM5-80GB", "gpu", {}});
  CollectiveRequest request;
  request.engine = kVllm;
  request.bytes = 4 * kKib;
  Group group;
  group.members.resize(2);
  Site site;
  site.gpu = &gpu;
  site.ranks = 2;
  site.nvlink = true;
  const auto host_us = [&](Cpu cpu) {
    site.cpu = cpu;
    return choose(request, group, site).host.seconds() * 1e6;
  };
  const auto close = boost::test_tools::tolerance(1e-6);
  BOOST_TEST(host_us(Cpu::xeon_sapphire_rapids) == kVllm.eager_call_us(Cpu::xeon_sapphire_rapids), close);
  BOOST_TEST(host_us(Cpu::epyc_rome) > 2 * host_us(Cpu::xeon_sapphire_rapids));
  request.in_graph = true;
  BOOST_TEST(host_us(Cpu::epyc_rome) == 0);
}
