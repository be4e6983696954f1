// Reads a shipped GPU datasheet for tests of the kernel formulas: keys are the field names. Strict loading, with
// places and suggestions, is the scenario loader's.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

#include "gpu/datasheet.h"

namespace railyard::test {

inline gpu::GpuDatasheet gpu_datasheet(const std::string& name) {
  const std::string folder = std::string(RAILYARD_SOURCE_DIR) + "/platforms/datasheets/gpus/";
  const YAML::Node file = YAML::LoadFile(folder + name + ".yaml");
  gpu::GpuDatasheet g;
  g.name = name;
  g.architecture = file["architecture"].as<std::string>();
  g.calibration = file["calibration"].as<std::string>();
  g.source = file["source"].as<std::string>();
  const auto number = [&](const char* section, const char* key, auto& value) {
    value = file[section][key].as<std::decay_t<decltype(value)>>();
  };
  number("sm", "count", g.sm.count);
  number("sm", "clock_mhz", g.sm.clock_mhz);
  for (const auto& rate : file["sm"]["flop_per_clock"])
    for (std::size_t i = 0; i < kDataTypes; ++i)
      if (rate.first.as<std::string>() == kDataTypeNames[i]) g.sm.flop_per_clock[i] = rate.second.as<double>();
  number("sm", "feed_bytes_per_clock", g.sm.feed_bytes_per_clock);
  number("sm", "epilogue_bytes_per_clock", g.sm.epilogue_bytes_per_clock);
  number("sm", "burst_efficiency_ratio", g.sm.burst_efficiency_ratio);
  number("sm", "sustained_efficiency_ratio", g.sm.sustained_efficiency_ratio);
  number("sm", "low_precision_sustained_ratio", g.sm.low_precision_sustained_ratio);
  number("sm", "throttle_us", g.sm.throttle_us);
  number("sm", "registers_kib", g.sm.registers_kib);
  number("sm", "shared_memory_kib", g.sm.shared_memory_kib);
  number("l2", "capacity_mib", g.l2.capacity_mib);
  number("l2", "gb_per_s", g.l2.gb_per_s);
  number("hbm", "capacity_gb", g.hbm.capacity_gb);
  number("hbm", "gb_per_s", g.hbm.gb_per_s);
  number("hbm", "gemm_gb_per_s", g.hbm.gemm_gb_per_s);
  number("hbm", "stream_ratio", g.hbm.stream_ratio);
  number("hbm", "half_saturation_mb", g.hbm.half_saturation_mb);
  number("hbm", "read_latency_ns", g.hbm.read_latency_ns);
  number("kernel", "launch_us", g.kernel.launch_us);
  number("kernel", "gemm_fixed_us", g.kernel.gemm_fixed_us);
  number("kernel", "split_k_us", g.kernel.split_k_us);
  number("kernel", "overlap_exponent", g.kernel.overlap_exponent);
  number("kernel", "attention_tflops", g.kernel.attention_tflops);
  number("kernel", "attention_half_tokens", g.kernel.attention_half_tokens);
  number("kernel", "attention_fixed_us", g.kernel.attention_fixed_us);
  number("kernel", "decode_attention_ratio", g.kernel.decode_attention_ratio);
  number("kernel", "decode_attention_fixed_us", g.kernel.decode_attention_fixed_us);
  number("collective", "launch_us", g.collective.launch_us);
  number("collective", "step_ns", g.collective.step_ns);
  number("collective", "channels", g.collective.channels);
  number("nvlink", "generation", g.nvlink.generation);
  number("nvlink", "links", g.nvlink.links);
  number("nvlink", "gb_per_s", g.nvlink.gb_per_s);
  number("pcie", "generation", g.pcie.generation);
  number("pcie", "lanes", g.pcie.lanes);
  return g;
}

}  // namespace railyard::test
