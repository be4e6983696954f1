// Kernels of a given length, for tests of code that runs kernels.
#pragma once

#include "base/units.h"
#include "gpu/datasheet.h"
#include "gpu/kernels/kernel_chain.h"

namespace railyard::test {

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
