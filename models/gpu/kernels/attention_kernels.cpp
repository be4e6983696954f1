#include "gpu/kernels/attention_kernels.h"

#include <algorithm>
#include <cmath>

#include "gpu/kernels/device_terms.h"
#include "gpu/kernels/flash_attention.h"

namespace railyard::gpu {
namespace {

constexpr double kMeasuredDim = 128;  // head size of operand_clocks
constexpr double kWidestGainingDim =
    256;  // larger (latent) heads do not fit the registers of one block and are not faster
constexpr double kExponentialsPerClock = 16;  // per SM

constexpr std::uint64_t kXqaBlockFactor = 4;  // kEnableMinBlockFactor

}  // namespace

const PrefillKernel& prefill_kernel(const GpuDatasheet& gpu, AttentionLibrary library) {
  const KernelConstants::Prefill& kernels = gpu.kernels.prefill;
  switch (library) {
    case AttentionLibrary::trtllm: return kernels.trtllm;
    case AttentionLibrary::cudnn: return kernels.cudnn;
    default: return kernels.flash;
  }
}

const DecodeKernel& decode_kernel(const GpuDatasheet& gpu, const AttentionHeads& heads, std::uint64_t blocks,
                                  std::uint64_t longest) {
  const KernelConstants::Decode& kernels = gpu.kernels.decode;
  if (heads.library == AttentionLibrary::cudnn) return kernels.cudnn;
  if (heads.library != AttentionLibrary::trtllm) return kernels.flash;
  const std::uint64_t parts = blocks * std::max<std::uint64_t>(1, longest / kDecodeSplitKeys);
  return heads.query == heads.kv || kXqaBlockFactor * parts < gpu.sm.count ? kernels.masked : kernels.xqa;
}

double attention_clock_ratio(const GpuDatasheet& gpu) {
  return gpu.sm.throttle_us > 0 ? gpu.sm.sustained_efficiency_ratio : gpu.sm.burst_efficiency_ratio;
}

double pair_clocks(const GpuDatasheet& gpu, const PrefillKernel& kernel, double dim) {
  const double gaining = std::min(kWidestGainingDim, dim), p = kernel.overlap_exponent;
  const double products = 2 * kFlopsPerProduct * gaining / (kernel.products_ratio * gpu.tensor_flop_per_clock()) +
                          kernel.operand_clocks * gaining / kMeasuredDim;
  const double exponentials = kernel.exponentials_ratio / kExponentialsPerClock;
  return std::pow(std::pow(products, p) + std::pow(exponentials, p), 1 / p) * dim / gaining;
}

std::vector<std::uint32_t> flash_attention_versions(const GpuDatasheet& gpu) {
  std::vector<std::uint32_t> versions;
  for (const FlashVersion& v : facts_of(gpu.architecture).flash_attention)
    if (v.version > 0) versions.push_back(v.version);
  return versions;
}

GpuDatasheet with_flash_attention(GpuDatasheet gpu, std::optional<std::uint32_t> version) {
  const PrefillKernel& kernel = prefill_kernel(gpu, AttentionLibrary::flash);
  const double peak_clocks = 2 * kFlopsPerProduct * kMeasuredDim / gpu.tensor_flop_per_clock();
  for (const FlashVersion& v : facts_of(gpu.architecture).flash_attention)
    if (version == v.version && v.peak_share > 0)
      gpu.kernel.attention_ratio =
          v.peak_share * pair_clocks(gpu, kernel, kMeasuredDim) / (peak_clocks * attention_clock_ratio(gpu));
  return gpu;
}

}  // namespace railyard::gpu
