// The thread blocks that all attention kernels of this folder have in common.
#pragma once

#include <cstdint>

#include "gpu/kernels/attention.h"

namespace railyard::gpu {

struct GpuDatasheet;

/// Query rows of one thread block of a prefill kernel; half where shared memory is small.
std::uint64_t query_rows(const GpuDatasheet& gpu, AttentionLibrary library);

/// Completes a kernel of `ctas` thread blocks whose parts are known: its waves, its limit, its time.
void finish_attention(KernelTime& time, const GpuDatasheet& gpu, std::uint64_t ctas);

}  // namespace railyard::gpu
