// Kernels of a given length, and a GPU in round numbers, for tests of code that runs kernels.
#pragma once

#include "base/units.h"
#include "gpu/datasheet.h"
#include "gpu/kernels/kernel_chain.h"

namespace railyard::test {

/// 100 SMs at 1 GHz, and memory of 1 TB/s.
inline gpu::GpuDatasheet hundred_sms() {
  gpu::GpuDatasheet sheet;
  sheet.sm.count = 100;
  sheet.sm.clock_mhz = 1000;
  sheet.sm.registers_kib = 256;
  sheet.sm.shared_memory_kib = 228;
  sheet.hbm.gb_per_s = 1000;
  sheet.hbm.stream_ratio = 1;
  sheet.l2.bytes_per_sm_clock = 40;
  return sheet;
}

/// One thread block on each of `sms` SMs, all of this length, limited only by SMs.
inline gpu::KernelTime kernel_time_of(Time duration, std::uint64_t sms) {
  gpu::KernelTime time;
  time.seconds = time.longest_cta_seconds = duration.seconds();
  time.limit = gpu::KernelLimit::tensor;
  time.ctas = sms;
  time.sms = static_cast<std::uint32_t>(sms);
  time.waves = 1;
  return time;
}

inline gpu::SharedChain kernel_of(Time duration, std::uint64_t sms) {
  return gpu::chain_of(kernel_time_of(duration, sms));
}

/// Small thread blocks that nothing but HBM limits.
inline gpu::SharedChain hbm_kernel_of(Time duration, const gpu::GpuDatasheet& sheet) {
  gpu::KernelTime kernel;
  kernel.ctas = kernel.sms = sheet.sm.count;
  kernel.hbm_seconds = kernel.seconds = duration.seconds();
  kernel.bytes = sheet.hbm.gb_per_s * 1e9 * duration.seconds();
  kernel.limit = gpu::KernelLimit::hbm;
  kernel.cta.threads = 128;
  kernel.cta.registers_kib = 8;
  return gpu::chain_of(kernel);
}

}  // namespace railyard::test
