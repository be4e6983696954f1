// What-ifs on the facts of a datasheet: a kernel follows the fact that binds it, and no other. Fitted constants are shares of
// facts, so that this holds for a fact that is changed by itself, in a copied datasheet or in machine.overrides.
#define BOOST_TEST_MODULE kernels_facts
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gpu/kernels/device_terms.h"
#include "gpu/kernels/kernel_spec.h"
#include "tests/gpu/kernels_datasheets.h"

using namespace railyard;
using namespace railyard::gpu;
using railyard::test::gpu_datasheet;
namespace tt = boost::test_tools;

namespace {

std::vector<GpuDatasheet> shipped_gpus() {
  std::vector<GpuDatasheet> gpus;
  for (const std::string& name : scenario::shipped_datasheets("gpus")) gpus.push_back(gpu_datasheet(name));
  return gpus;
}

KernelSpec product(std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  KernelSpec spec;
  spec.m = m, spec.n = n, spec.k = k;
  spec.dtype = DataType::fp16;
  return spec;
}

KernelSpec attention(KernelOp op, std::vector<AttentionSequence> sequences) {
  KernelSpec spec;
  spec.op = op;
  spec.heads = {64, 8, 128, DataType::fp16};
  spec.sequences = std::move(sequences);
  return spec;
}

KernelSpec copy(std::uint64_t bytes) {
  KernelSpec spec;
  spec.op = KernelOp::copy;
  spec.bytes = bytes;
  spec.cold = true;
  return spec;
}

const KernelSpec kProduct = product(16384, 16384, 16384);  // tensor cores
const KernelSpec kPrefill = attention(KernelOp::attention_prefill, {{65536, 0}});
const KernelSpec kWeights = product(1, 32768, 32768);  // HBM
const KernelSpec kCopy = copy(std::uint64_t{4} << 30);
const KernelSpec kDecode = attention(KernelOp::attention_decode, std::vector<AttentionSequence>(64, {1, 32767}));
const KernelSpec kLaunch = copy(256);

using Change = std::function<void(GpuDatasheet&, double)>;

const Change kHbm = [](GpuDatasheet& gpu, double by) { gpu.hbm.gb_per_s *= by; };
const Change kClock = [](GpuDatasheet& gpu, double by) { gpu.sm.clock_mhz *= by; };
const Change kSms = [](GpuDatasheet& gpu, double by) { gpu.sm.count = static_cast<std::uint32_t>(gpu.sm.count * by); };
const Change kTensor = [](GpuDatasheet& gpu, double by) {
  for (double& rate : gpu.sm.flop_per_clock) rate *= by;
};
const Change kL2 = [](GpuDatasheet& gpu, double by) { gpu.l2.bytes_per_sm_clock *= by; };

GpuDatasheet changed(GpuDatasheet gpu, const Change& change, double by) {
  change(gpu, by);
  return gpu;
}

double seconds(const GpuDatasheet& gpu, const KernelSpec& spec) { return kernel_time(gpu, spec).seconds; }

/// The time with twice the fact, of the time with the fact as it is.
double of_twice(const GpuDatasheet& gpu, const KernelSpec& spec, const Change& change) {
  return seconds(changed(gpu, change, 2), spec) / seconds(gpu, spec);
}

void check_unmoved(const GpuDatasheet& gpu, const Change& change, const std::vector<KernelSpec>& kernels) {
  for (const KernelSpec& spec : kernels) BOOST_TEST_CONTEXT(gpu.name << " " << name_of(spec.op)) {
      const double rest = of_twice(gpu, spec, change);
      BOOST_TEST(rest <= 1 + 1e-12);
      BOOST_TEST(rest > 0.97);
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(twice_the_memory_rate_serves_what_reads_memory) {
  for (const GpuDatasheet& gpu : shipped_gpus()) {
    for (const KernelSpec& spec : {kWeights, kCopy, kDecode}) BOOST_TEST_CONTEXT(gpu.name << " " << name_of(spec.op)) {
        BOOST_TEST(of_twice(gpu, spec, kHbm) >= 0.5);
        // As the next resource lets it: decodes on B200 then wait for the bytes that their blocks have in flight.
        BOOST_TEST(of_twice(gpu, spec, kHbm) < 0.65);
        BOOST_TEST(of_twice(changed(gpu, kHbm, 0.5), spec, kHbm) < 0.54);
      }
    check_unmoved(gpu, kHbm, {kProduct, kPrefill});
  }
}

BOOST_AUTO_TEST_CASE(twice_the_clock_or_the_sms_serve_what_computes) {
  for (const GpuDatasheet& gpu : shipped_gpus())
    for (const Change& change : {kClock, kSms}) {
      for (const KernelSpec& spec : {kProduct, kPrefill}) {
        BOOST_TEST_CONTEXT(gpu.name << " " << name_of(spec.op)) {
          BOOST_TEST(of_twice(gpu, spec, change) == 0.5, tt::tolerance(0.04));
        }
      }
      check_unmoved(gpu, change, {kCopy, kLaunch});
      BOOST_TEST(of_twice(gpu, kDecode, change) > 0.95, gpu.name);  // more SMs have more bytes in flight
    }
}

// With tensor cores twice as fast, a product's way through L2 binds sooner or later, and attention's exponentials: a pair of
// a query and a key, with heads of 128 numbers.
double pair_clocks_of(const GpuDatasheet& gpu, double tensor_flop_per_clock) {
  const double products = 512 / tensor_flop_per_clock;
  if (!asynchronous_tensor_cores(gpu)) return products + 0.0625 + 1.2 / 16;
  const bool hopper = gpu.architecture == gpu::Architecture::hopper;
  const double p = hopper ? 1.35 : 2.4, speed = hopper ? 1.192 : 1, exponentials = hopper ? 0.839 : 1;
  return std::pow(std::pow(products / speed, p) + std::pow(exponentials / 16, p), 1 / p);
}

BOOST_AUTO_TEST_CASE(twice_the_tensor_rate_serves_products_up_to_their_next_limit) {
  for (const GpuDatasheet& gpu : shipped_gpus()) {
    BOOST_TEST_CONTEXT(gpu.name) {
      BOOST_TEST(of_twice(changed(gpu, kTensor, 0.5), kProduct, kTensor) < 0.56);
      BOOST_TEST(of_twice(gpu, kProduct, kTensor) < 0.85);
      const double rate = gpu.tensor_flop_per_clock();
      BOOST_TEST(of_twice(gpu, kPrefill, kTensor) == pair_clocks_of(gpu, 2 * rate) / pair_clocks_of(gpu, rate),
                 tt::tolerance(0.01));
    }
    check_unmoved(gpu, kTensor, {kCopy, kDecode, kLaunch});
  }
}

BOOST_AUTO_TEST_CASE(twice_the_l2_rate_serves_products_where_it_binds) {
  for (const GpuDatasheet& gpu : shipped_gpus()) {
    const GpuDatasheet slow = changed(gpu, kL2, 1.0 / 64);
    BOOST_TEST_CONTEXT(gpu.name) {
      BOOST_TEST(name_of(kernel_time(slow, kProduct).limit) == std::string("l2"));
      BOOST_TEST(of_twice(slow, kProduct, kL2) < 0.56);
    }
    check_unmoved(gpu, kL2, {kCopy, kDecode, kPrefill, kLaunch});
  }
}

// Weights half as large again as what L2 holds of a working set are read from HBM at least by half, and not at all where L2 is twice
// as large.
BOOST_AUTO_TEST_CASE(twice_the_l2_capacity_keeps_weights) {
  for (GpuDatasheet gpu : shipped_gpus()) {
    KernelSpec spec = product(1, 8192, static_cast<std::uint64_t>(1.5 * working_bytes(gpu) / (2 * 8192)));
    spec.weight_copies = 1;
    const double weights = 2.0 * static_cast<double>(spec.n * spec.k),
                 rest = 2.0 * static_cast<double>(spec.n + spec.k);
    BOOST_TEST_CONTEXT(gpu.name) {
      BOOST_TEST(kernel_time(gpu, spec).bytes > weights / 2);
      gpu.l2.capacity_mib *= 2;
      BOOST_TEST(kernel_time(gpu, spec).bytes == rest);
    }
  }
}
