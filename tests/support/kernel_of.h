// Kernels of a given length, for tests of code that runs kernels.
#pragma once

#include "base/units.h"
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

}  // namespace railyard::test
