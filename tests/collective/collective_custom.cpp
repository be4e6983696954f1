// The kernels that serving engines choose for an all-reduce, against their sources and the algorithms that measured rows
// show (validation/custom_all_reduce.csv).
#include "collective/custom_all_reduce.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::collective;

namespace {

constexpr Bytes kKib = 1024, kMib = 1024 * kKib;

struct Machine {
  gpu::GpuDatasheet gpu;
  Site site;
  explicit Machine(const char* architecture, std::uint32_t ranks, bool nvlink = true) {
    gpu.architecture = architecture;
    site.gpu = &gpu;
    site.ranks = ranks;
    site.nvlink = nvlink;
  }
  Bytes one_shot(Library library) const { return custom_kernel(library, site).one_shot; }
  Bytes most(Library library) const { return custom_kernel(library, site).most(); }
};

constexpr Library kEngines[] = {Library::vllm, Library::sglang, Library::trtllm};

}  // namespace

BOOST_AUTO_TEST_CASE(vllm_reduces_up_to_8_mib_on_even_numbers_of_ranks) {
  for (const std::uint32_t ranks : {2u, 4u, 6u, 8u})
    BOOST_TEST(Machine("hopper", ranks).most(Library::vllm) == 8 * kMib);
  for (const std::uint32_t ranks : {1u, 3u, 5u, 7u, 16u})
    BOOST_TEST(Machine("hopper", ranks).most(Library::vllm) == 0u);
  BOOST_TEST(Machine("hopper", 2).one_shot(Library::vllm) == 8 * kMib);
  BOOST_TEST(Machine("hopper", 4).one_shot(Library::vllm) == 512 * kKib - 1);
  BOOST_TEST(Machine("hopper", 8).one_shot(Library::vllm) == 256 * kKib - 1);
}

BOOST_AUTO_TEST_CASE(sglang_has_the_kernel_of_vllm_before_hopper_and_without_nvlink) {
  const Machine ampere("ampere", 8), ada("ada", 2, false), blackwell("blackwell", 2, false);
  for (const Machine* one : {&ampere, &ada, &blackwell}) {
    const Machine& machine = *one;
    BOOST_TEST(custom_kernel(Library::sglang, machine.site).pulls);
    BOOST_TEST(machine.most(Library::vllm) == 8 * kMib - 1);
    BOOST_TEST(machine.most(Library::sglang) == 16 * kMib - 1);
  }
  BOOST_TEST(Machine("ampere", 8).one_shot(Library::sglang) == Machine("ampere", 8).one_shot(Library::vllm));
  BOOST_TEST(!custom_kernel(Library::sglang, Machine("hopper", 8).site).pulls);
}

BOOST_AUTO_TEST_CASE(sglang_leaves_one_shot_before_vllm_and_keeps_larger_vectors) {
  for (const std::uint32_t ranks : {4u, 8u}) {
    const Machine machine("hopper", ranks);
    BOOST_TEST(machine.one_shot(Library::sglang) < machine.one_shot(Library::vllm));
    BOOST_TEST(machine.most(Library::sglang) == 16 * kMib);
  }
  BOOST_TEST(Machine("hopper", 8).one_shot(Library::sglang) == 160 * kKib);
  BOOST_TEST(Machine("blackwell", 8).one_shot(Library::sglang) == 720 * kKib);
}

BOOST_AUTO_TEST_CASE(tensorrt_llm_leaves_large_vectors_to_nccl_the_sooner_the_more_ranks) {
  BOOST_TEST(Machine("hopper", 2).most(Library::trtllm) == 8 * kMib);
  BOOST_TEST(Machine("hopper", 4).most(Library::trtllm) == 4 * kMib);
  BOOST_TEST(Machine("hopper", 4).one_shot(Library::trtllm) == 2 * kMib);
  BOOST_TEST(Machine("hopper", 8).most(Library::trtllm) == 512 * kKib);
  BOOST_TEST(Machine("blackwell", 8).most(Library::trtllm) == 4 * kMib);
}

BOOST_AUTO_TEST_CASE(without_nvlink_only_pairs_have_a_kernel_and_tensorrt_llm_has_none) {
  for (const Library library : kEngines)
    for (const std::uint32_t ranks : {2u, 4u, 8u}) {
      const bool has = ranks == 2 && library != Library::trtllm;
      BOOST_TEST((Machine("ada", ranks, false).most(library) > 0) == has);
    }
}

BOOST_AUTO_TEST_CASE(servers_and_nccl_have_no_kernel_of_an_engine) {
  Machine machine("hopper", 8);
  BOOST_TEST(machine.most(Library::nccl) == 0u);
  machine.site.servers = 2;
  for (const Library library : kEngines) BOOST_TEST(machine.most(library) == 0u);
}
