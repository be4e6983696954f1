// workload.kind: kernel, typed and validated: the kernels that are timed. Plain data; no SystemC.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/kernels/kernel_spec.h"

namespace railyard::workload::kernel_bench {

struct KernelBenchSpec {
  std::vector<gpu::KernelSpec> kernels;
  std::vector<std::uint32_t> items;  ///< for each kernel: index of its entry in the scenario's list
};

}  // namespace railyard::workload::kernel_bench
