#define BOOST_TEST_MODULE kernels_datasheets
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <unistd.h>

#include "gpu/kernels/attention.h"
#include "gpu/kernels/gemm.h"
#include "gpu/kernels/memory_bound.h"
#include "tests/gpu/kernels_datasheets.h"

using namespace railyard;
using railyard::test::gpu_datasheet;

namespace {

struct Published {
  const char* name;
  std::uint32_t sms;
  double fp16_tflops, fp8_tflops;  // dense
  double hbm_gb, hbm_gb_per_s;
  double nvlink_gb_per_s;  // one direction, all links
};

// Vendors' datasheets: SMs, dense tensor peaks (bf16 runs at the fp16 rate), memory, NVLink. GeForce with fp32 accumulation.
const Published kPublished[] = {
    {"V100-SXM2-32GB", 80, 125, 0, 32, 900, 150},
    {"V100-PCIe-32GB", 80, 112, 0, 32, 900, 0},
    {"A100-SXM4-80GB", 108, 312, 0, 80, 2039, 300},
    {"A100-SXM4-40GB", 108, 312, 0, 40, 1555, 300},
    {"A100-PCIe-80GB", 108, 312, 0, 80, 1935, 300},
    {"A800-SXM4-80GB", 108, 312, 0, 80, 2039, 200},
    {"A800-PCIe-80GB", 108, 312, 0, 80, 1935, 200},
    {"H100-SXM5-80GB", 132, 989, 1979, 80, 3350, 450},
    {"H100-PCIe-80GB", 114, 756, 1513, 80, 2039, 300},
    {"H800-SXM5-80GB", 132, 989, 1979, 80, 3350, 200},
    {"H200-SXM-141GB", 132, 989, 1979, 141, 4800, 450},
    {"H20-SXM-96GB", 78, 148, 296, 96, 4000, 450},
    {"GH200-96GB", 132, 990, 1979, 96, 4000, 450},
    {"B200-SXM-180GB", 148, 2250, 4500, 180, 8000, 900},
    {"B300-SXM-270GB", 148, 2250, 4500, 270, 8000, 900},
    {"GB200-186GB", 152, 2500, 5000, 186, 8000, 900},
    {"GB300-278GB", 152, 2500, 5000, 278, 8000, 900},
    {"L40-48GB", 142, 181.05, 362, 48, 864, 0},
    {"L40S", 142, 362, 733, 48, 864, 0},
    {"RTX-PRO-6000-Blackwell-Server", 188, 467.8, 935.6, 96, 1597, 0},
    {"RTX-3090", 82, 71, 0, 24, 936, 56.25},
    {"RTX-4090", 128, 165.2, 330.3, 24, 1008, 0},
    {"RTX-5090", 170, 209.5, 419, 32, 1792, 0},
    {"L20-48GB", 92, 119.5, 239, 48, 864, 0},
    {"A40-48GB", 84, 149.7, 0, 48, 696, 56.25},
    {"MI300X", 304, 1307.4, 2614.9, 192, 5300, 0},
};

double tflops(const gpu::GpuDatasheet& g, DataType type) {
  return g.sm.count * g.sm.clock_mhz * 1e6 * g.sm.flop_per_clock[static_cast<std::size_t>(type)] * 1e-12;
}

/// A user's datasheet, as a file that lives as long as this.
struct OwnSheet {
  explicit OwnSheet(const std::string& text, const std::string& kind = "sheet")
      : path(std::filesystem::temp_directory_path() /
             ("railyard_" + kind + "_" + std::to_string(::getpid()) + ".yaml")) {
    std::ofstream(path) << text;
  }
  ~OwnSheet() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

const std::string kH100Facts = R"(architecture: hopper
source: vendor
sm: {count: 132, clock_mhz: 1830, flop_per_clock: {fp16: 4096, bf16: 4096}, shared_memory_kib: 228}
l2: {capacity_mib: 50}
hbm: {capacity_gb: 80, gb_per_s: 3350}
pcie: {generation: 5}
)";

std::string error_of(const std::string& text) {
  const OwnSheet sheet(text);
  try {
    gpu_datasheet(sheet.path.string());
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

// Facts, and whose constants to take: with the H100's facts, times are the H100's.
BOOST_AUTO_TEST_CASE(facts_and_a_family_are_a_datasheet) {
  const OwnSheet own(kH100Facts + "family: H100-SXM5-80GB\n");
  const gpu::GpuDatasheet h100 = gpu_datasheet("H100-SXM5-80GB"), facts = gpu_datasheet(own.path.string());
  BOOST_TEST(facts.calibration == "family");
  BOOST_TEST(facts.source == "vendor");
  for (const std::uint64_t m : {1, 256, 8192}) {
    const gpu::GemmShape shape{m, 8192, 8192, DataType::bf16, 1};
    BOOST_TEST(gpu::gemm_time(facts, shape).seconds == gpu::gemm_time(h100, shape).seconds);
  }
  const gpu::AttentionHeads heads{64, 8, 128, DataType::bf16};
  BOOST_TEST(gpu::prefill_attention_time(facts, heads, {{4096, 100}}).seconds ==
             gpu::prefill_attention_time(h100, heads, {{4096, 100}}).seconds);
  BOOST_TEST(gpu::decode_attention_time(facts, heads, {{1, 5000}}).seconds ==
             gpu::decode_attention_time(h100, heads, {{1, 5000}}).seconds);
  BOOST_TEST(gpu::memory_bound_time(facts, 1e8).seconds == gpu::memory_bound_time(h100, 1e8).seconds);
  BOOST_TEST(facts.collective.channels == h100.collective.channels);
  BOOST_TEST(facts.nvlink.links == 0u);  // a fact: none is named
}

// A constant of its own goes before the family's, and a follower can be followed.
BOOST_AUTO_TEST_CASE(own_constants_go_before_the_familys) {
  const OwnSheet own(kH100Facts + "family: A800-PCIe-80GB\nkernel: {launch_us: 7}\n");
  const gpu::GpuDatasheet sheet = gpu_datasheet(own.path.string());
  BOOST_TEST(sheet.kernel.launch_us == 7.0);
  BOOST_TEST(sheet.kernel.split_k_us == gpu_datasheet("A100-SXM4-80GB").kernel.split_k_us);
  BOOST_TEST(sheet.sm.throttle_us == gpu_datasheet("A100-PCIe-80GB").sm.throttle_us);
}

// What SMs execute follows their clock: prologues, and the steps of collectives.
BOOST_AUTO_TEST_CASE(fixed_times_carry_over_as_clocks) {
  const OwnSheet own(kH100Facts + "family: A800-PCIe-80GB\n");
  const gpu::GpuDatasheet sheet = gpu_datasheet(own.path.string()), a100 = gpu_datasheet("A100-SXM4-80GB");
  const auto same = boost::test_tools::tolerance(1e-9);
  BOOST_TEST(sheet.kernel.gemm_fixed_us * 1830 == a100.kernel.gemm_fixed_us * 1410, same);
  BOOST_TEST(sheet.kernel.decode_attention_fixed_us * 1830 == a100.kernel.decode_attention_fixed_us * 1410, same);
  BOOST_TEST(sheet.collective.launch_us * 1830 == a100.collective.launch_us * 1410, same);
  BOOST_TEST(sheet.collective.ll_step_ns * 1830 == a100.collective.ll_step_ns * 1410, same);
  BOOST_TEST(sheet.collective.custom_fence_ns * 1830 == a100.collective.custom_fence_ns * 1410, same);
  BOOST_TEST(sheet.collective.simple_gb_per_s * 1410 == a100.collective.simple_gb_per_s * 1830, same);
  BOOST_TEST(sheet.kernel.launch_us == a100.kernel.launch_us);
}

// Kernels of collectives run at the highest clock, if both sheets name it (1410 MHz for the A100).
BOOST_AUTO_TEST_CASE(collectives_carry_over_by_the_highest_clock) {
  const auto of_family = [](const std::string& family) {
    std::string text = kH100Facts;
    text.replace(text.find("sm: {"), 5, "sm: {boost_mhz: 1980, ");
    const OwnSheet own(text + "family: " + family + "\n");
    return gpu_datasheet(own.path.string());
  };
  const gpu::GpuDatasheet sheet = of_family("A100-SXM4-80GB"), a100 = gpu_datasheet("A100-SXM4-80GB");
  const auto same = boost::test_tools::tolerance(1e-9);
  BOOST_TEST(sheet.collective.launch_us * 1980 == a100.collective.launch_us * 1410, same);
  BOOST_TEST(sheet.collective.simple_gb_per_s * 1410 == a100.collective.simple_gb_per_s * 1980, same);
  BOOST_TEST(sheet.kernel.gemm_fixed_us * 1830 == a100.kernel.gemm_fixed_us * 1410, same);
  // The A800 does not name its own.
  BOOST_TEST(of_family("A800-SXM4-80GB").collective.launch_us * 1830 == a100.collective.launch_us * 1410, same);
}

// Watts per peak FLOP, times the root of the tensor FLOP per SM and clock, for a family of another architecture: close
// to what is measured on H100 (0.796) and, within it, unchanged.
BOOST_AUTO_TEST_CASE(efficiency_follows_the_power_limit_across_architectures) {
  const auto facts = [](const std::string& family, double watts) {
    std::string text = kH100Facts;
    text.replace(text.find("sm: {"), 5, "sm: {power_w: " + std::to_string(watts) + ", ");
    const OwnSheet own(text + "family: " + family + "\n");
    return gpu_datasheet(own.path.string()).sm;
  };
  const gpu::GpuDatasheet h100 = gpu_datasheet("H100-SXM5-80GB"), a100 = gpu_datasheet("A100-SXM4-80GB");
  const double a100_peak = tflops(a100, DataType::fp16), h100_peak = tflops(h100, DataType::fp16);
  const auto same = boost::test_tools::tolerance(1e-6);
  const auto from_a100 = facts("A100-SXM4-80GB", 700);
  BOOST_TEST(from_a100.sustained_efficiency_ratio ==
                 a100.sm.burst_efficiency_ratio * (700 * 64 / h100_peak) / (400 * std::sqrt(2048.0) / a100_peak),
             same);
  BOOST_TEST(from_a100.sustained_efficiency_ratio == h100.sm.sustained_efficiency_ratio,
             boost::test_tools::tolerance(0.05));
  BOOST_TEST(from_a100.burst_efficiency_ratio == 1 - 0.4 * (1 - from_a100.sustained_efficiency_ratio), same);
  BOOST_TEST(from_a100.throttle_us == 1000);
  BOOST_TEST(facts("A100-SXM4-80GB", 350).sustained_efficiency_ratio == from_a100.sustained_efficiency_ratio / 2, same);
  BOOST_TEST(facts("A100-SXM4-80GB", 7000).sustained_efficiency_ratio == 0.98, same);
  const auto from_h100 = facts("H100-SXM5-80GB", 350);
  BOOST_TEST(from_h100.sustained_efficiency_ratio == h100.sm.sustained_efficiency_ratio);
  BOOST_TEST(from_h100.burst_efficiency_ratio == h100.sm.burst_efficiency_ratio);
  // Its own value goes before the rule: the cards of Blackwell follow the L40S.
  BOOST_TEST(gpu_datasheet("RTX-PRO-6000-Blackwell-Server").sm.sustained_efficiency_ratio == 0.726);
}

// A name that the table of architectures does not have counts as no other one.
BOOST_AUTO_TEST_CASE(an_unknown_architecture_is_refused_by_name) {
  std::string text = kH100Facts + "family: H100-SXM5-80GB\n";
  text.replace(text.find("hopper"), 6, "hoper");
  const std::string error = error_of(text);
  BOOST_TEST_CONTEXT(error) {
    BOOST_TEST(error.find(".yaml:1:15: error: architecture: unknown value 'hoper'") != std::string::npos);
    BOOST_TEST(error.find("accepted: volta, ampere, ada, hopper, blackwell, cdna3") != std::string::npos);
    BOOST_TEST(error.find("(did you mean 'hopper'?)") != std::string::npos);
    BOOST_TEST(error.find('\n') == std::string::npos);
  }
}

// Without a sheet of its own, a GPU has the kernels of its architecture, and a card has those of warp-wide instructions.
BOOST_AUTO_TEST_CASE(kernels_follow_the_architecture) {
  const auto flash = [](const char* name) { return gpu_datasheet(name).kernels.prefill.flash.name; };
  BOOST_TEST(flash("H100-SXM5-80GB") == "FlashAttention-3");
  BOOST_TEST(flash("GB300-278GB") == flash("B200-SXM-180GB"));
  for (const char* name : {"V100-SXM2-32GB", "A100-SXM4-80GB", "L40S", "RTX-5090", "MI300X"})
    BOOST_TEST(flash(name) == "FlashAttention-2", name);
}

// A sheet of a user's own kernels, beside the datasheet that names it, says only what differs from its base.
BOOST_AUTO_TEST_CASE(a_gpu_may_have_kernels_of_its_own) {
  const OwnSheet kernels("base: hopper\nsource: lab\nprefill: {flash: {products_ratio: 1.1}}\n", "kernels");
  const std::string named = "kernels: " + kernels.path.filename().string() + "\n";
  const OwnSheet own(kH100Facts + "family: H100-SXM5-80GB\n" + named);
  const gpu::KernelConstants mine = gpu_datasheet(own.path.string()).kernels;
  const gpu::KernelConstants theirs = gpu_datasheet("H100-SXM5-80GB").kernels;
  BOOST_TEST(mine.prefill.flash.products_ratio == 1.1);
  BOOST_TEST(mine.prefill.flash.overlap_exponent == theirs.prefill.flash.overlap_exponent);
  BOOST_TEST(mine.prefill.cudnn.products_ratio == theirs.prefill.cudnn.products_ratio);
  BOOST_TEST(mine.memory_bound.block_start_ns == theirs.memory_bound.block_start_ns);
}

BOOST_AUTO_TEST_CASE(bad_sheets_of_kernels_are_refused_where_they_are_named) {
  const auto says = [](const std::string& kernels, const std::string& words) {
    const OwnSheet sheet(kernels, "kernels");
    const std::string error = error_of(kH100Facts + "family: H100-SXM5-80GB\nkernels: " + sheet.path.string() + "\n");
    BOOST_TEST_CONTEXT(error) BOOST_TEST(error.find(words) != std::string::npos);
  };
  const std::string head = "base: hopper\nsource: lab\n";
  says(head + "prefill: {flash: {products: 1.1}}\n",
       ":3:19: error: prefill.flash.products: wrong unit; the key is 'products_ratio'");
  says(head + "decode: {xqa: {read_ratio: 1.1}}\n", "decode.xqa.read_ratio: '1.1' is out of range");
  says("base: common\nsource: lab\n", "prefill: is required");
  says("base: hooper\nsource: lab\n", "base: no datasheet 'hooper'");
  says("base: hopper\n", "source: is required");
  const std::string error = error_of(kH100Facts + "family: H100-SXM5-80GB\nkernels: hoper\n");
  BOOST_TEST_CONTEXT(error)
  BOOST_TEST(error.find("kernels: no datasheet 'hoper'; shipped: blackwell, ") != std::string::npos);
}

// An L2 slice and an SM have ports of 64 bytes a clock.
BOOST_AUTO_TEST_CASE(l2_rates_are_within_the_ports_of_sms) {
  for (const std::string& name : scenario::shipped_datasheets("gpus"))
    BOOST_TEST(gpu_datasheet(name).l2.bytes_per_sm_clock <= 64, name);
}

BOOST_AUTO_TEST_CASE(what_no_family_gives_is_asked_for) {
  const auto says = [](const std::string& text, const std::string& words) {
    const std::string error = error_of(text);
    BOOST_TEST_CONTEXT(error) BOOST_TEST(error.find(words) != std::string::npos);
  };
  says(kH100Facts + "calibration: specification\n", "sm.feed_bytes_per_clock: is required; ");
  says(kH100Facts, "or name a 'family:' to take it from");
  says(kH100Facts + "family: H100-SXM5-80GB\nkernel: 3\n", "kernel: expected a mapping");
  says(kH100Facts + "family: H100-SXM5\n", "family: no datasheet 'H100-SXM5'");
  says("architecture: hopper\nsource: vendor\nfamily: H100-SXM5-80GB\n", "sm.count: is required");
  const std::string itself = "railyard_sheet_" + std::to_string(::getpid()) + ".yaml";
  says(kH100Facts + "family: " + itself + "\n", "or a cycle");
}

BOOST_AUTO_TEST_CASE(datasheets_reproduce_the_published_peaks) {
  for (const Published& p : kPublished) {
    const gpu::GpuDatasheet g = gpu_datasheet(p.name);
    BOOST_TEST_CONTEXT(p.name) {
      BOOST_TEST(g.sm.count == p.sms);
      BOOST_TEST(tflops(g, DataType::fp16) == p.fp16_tflops, boost::test_tools::tolerance(0.015));
      BOOST_TEST(tflops(g, DataType::fp8) == p.fp8_tflops, boost::test_tools::tolerance(0.015));
      BOOST_TEST(g.hbm.capacity_gb == p.hbm_gb);
      BOOST_TEST(g.hbm.gb_per_s == p.hbm_gb_per_s);
      BOOST_TEST(g.nvlink.links * g.nvlink.gb_per_s == p.nvlink_gb_per_s);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_shipped_datasheet_is_listed_above) {
  std::set<std::string> listed, shipped;
  for (const Published& p : kPublished) listed.insert(p.name);
  const std::string folder = std::string(RAILYARD_SOURCE_DIR) + "/platforms/datasheets/gpus";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) shipped.insert(entry.path().stem().string());
  BOOST_TEST(listed == shipped, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(calibrated_constants_stay_below_the_specification) {
  const std::set<std::string> calibrations{"measured", "family", "specification"};
  for (const Published& p : kPublished) {
    const gpu::GpuDatasheet g = gpu_datasheet(p.name);
    BOOST_TEST_CONTEXT(p.name) {
      BOOST_TEST(calibrations.count(g.calibration) == 1u);
      BOOST_TEST(!g.source.empty());
      BOOST_TEST(g.sm.burst_efficiency_ratio <= 1.0);
      BOOST_TEST(g.sm.sustained_efficiency_ratio <= g.sm.burst_efficiency_ratio);
      BOOST_TEST(g.sm.sustained_efficiency_ratio > 0.4);
      BOOST_TEST(g.hbm.gemm_ratio < 1.0);
      BOOST_TEST(g.hbm.gemm_ratio > 0.7);
      BOOST_TEST(g.l2_bytes_per_s() > 2e9 * g.hbm.gb_per_s);
      gpu::AttentionHeads heads{64, 8, 128, DataType::fp16};
      const gpu::KernelTime attention = gpu::prefill_attention_time(g, heads, {{65536, 0}});
      BOOST_TEST(attention.flops / attention.seconds < 1e12 * tflops(g, DataType::fp16));
      BOOST_TEST(attention.flops / attention.seconds > 0.35e12 * tflops(g, DataType::fp16));
    }
  }
}
