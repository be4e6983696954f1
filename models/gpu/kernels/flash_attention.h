// Versions of FlashAttention. The datasheets of GPUs hold version 3 on Hopper, 2 on Ampere and Ada, and on Blackwell the
// kernels of the measured libraries. Other versions have published shares of the 16-bit tensor peak, forward, with heads
// of 128:
//   1, Ampere: 30 to 50 % of the peak forward, 25 to 35 % backward (Dao, arXiv 2307.08691, section 1). Forward at the
//      middle, 40 %, and backward at 30 % take together what 36.8 % forward takes with the backward rate of
//      attention.cpp, for two forward passes and a backward pass.
//   1, Hopper: the same times 0.62, because mma.sync reaches 62 % of the peak (Hazy Research, GPUs Go Brrr, 2024).
//   2, Hopper: 370 of 989 TFLOP/s (Shah et al., arXiv 2407.08608, figure 5).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace railyard::gpu {

struct GpuDatasheet;

/// Versions with a rate on this GPU.
std::vector<std::uint32_t> flash_attention_versions(const GpuDatasheet& gpu);

/// The GPU with kernel.attention_ratio of a version; without one, the GPU as it is.
/// @pre the version is one of flash_attention_versions()
GpuDatasheet with_flash_attention(GpuDatasheet gpu, std::optional<std::uint32_t> version);

}  // namespace railyard::gpu
