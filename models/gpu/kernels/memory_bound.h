// Time of kernels that only move bytes: norms, rotary embedding, activations, residual, embedding lookup, sampling.
#pragma once

#include <cstdint>

#include "gpu/datasheet.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard::gpu {

/// T = launch + (HBM bytes + half_saturation) / (stream_ratio x HBM rate) + L2 bytes / (stream_ratio x L2 rate). What
/// a neighbouring kernel has just written or will read next stays in L2 while it fits: all of `bytes` up to 0.6 of
/// the capacity, none from twice that on. `cold_bytes` come from or go to HBM in any case (weights, KV cache,
/// embedding rows).
KernelTime memory_bound_time(const GpuDatasheet& gpu, double bytes, double cold_bytes = 0);

}  // namespace railyard::gpu
