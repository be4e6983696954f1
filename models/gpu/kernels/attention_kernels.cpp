#include "gpu/kernels/attention_kernels.h"

#include <algorithm>
#include <cmath>

#include "gpu/kernels/device_terms.h"
#include "gpu/kernels/flash_attention.h"

namespace railyard::gpu {
namespace {

constexpr double kFlopsPerProduct = 2;  // a multiply-add
constexpr double kMeasuredDim = 128;    // head size of operand_clocks
constexpr double kWidestGainingDim =
    256;  // larger (latent) heads do not fit the registers of one block and are not faster
constexpr double kExponentialsPerClock = 16;  // per SM

constexpr PrefillKernel kWarpFlash{"FlashAttention-2", 1, 0.0625, 1.2, 1, true};
constexpr PrefillKernel kWarpTrtllm{"TensorRT-LLM FMHA", 1, 0.0625, 1.2, 1, false};
constexpr PrefillKernel kHopperFlash{"FlashAttention-3", 1.192, 0, 0.839, 1.35, true};
constexpr PrefillKernel kHopperTrtllm{"TensorRT-LLM FMHA, Hopper", 0.981, 0, 1.02, 1.35, false};
constexpr PrefillKernel kHopperCudnn{"cuDNN, Hopper", 1.08, 0, 0.839, 1.35, false, 0.81, 0.743, true};
constexpr PrefillKernel kBlackwell{"kernels of the libraries for B200", 1, 0, 1, 2.4, false};

constexpr DecodeKernel kWarpFlashDecode{"FlashAttention-2", 0.87, 32, 2, 2, 1.06, 5.2, 0.17};
constexpr DecodeKernel kHopperFlashDecode{"FlashAttention-3", 1, 128, 1, 1, 3.4, 2.9, 0.03};
constexpr DecodeKernel kWarpXqa{"TensorRT-LLM XQA", 0.9, 32, 2, 8, 0.5, 3, 0.03};
constexpr DecodeKernel kHopperXqa{"TensorRT-LLM XQA, Hopper", 1, 128, 1, 8, 1.5, 2.5, 0.03};
constexpr DecodeKernel kMasked{"TensorRT-LLM masked multi-head attention", 1, 32, 2, 2, 0.4, 4.5, 0.03};
constexpr DecodeKernel kHopperCudnnDecode{"cuDNN, Hopper", 1, 128, 1, 1, 0, 1.5, 0.03, 1.254};
constexpr DecodeKernel kBlackwellDecode{"kernels of the libraries for B200", 1, 128, 1, 2, 0.5, 0.5, 0.03};
constexpr std::uint64_t kXqaBlockFactor = 4;  // kEnableMinBlockFactor

}  // namespace

const PrefillKernel& prefill_kernel(const GpuDatasheet& gpu, AttentionLibrary library) {
  const bool trtllm = library == AttentionLibrary::trtllm;
  if (!asynchronous_tensor_cores(gpu)) return trtllm ? kWarpTrtllm : kWarpFlash;
  if (tensor_memory(gpu)) return kBlackwell;
  if (library == AttentionLibrary::cudnn) return kHopperCudnn;
  return trtllm ? kHopperTrtllm : kHopperFlash;
}

const DecodeKernel& decode_kernel(const GpuDatasheet& gpu, const AttentionHeads& heads, std::uint64_t blocks,
                                  std::uint64_t longest) {
  const bool asynchronous = asynchronous_tensor_cores(gpu);
  if (tensor_memory(gpu)) return kBlackwellDecode;
  if (asynchronous && heads.library == AttentionLibrary::cudnn) return kHopperCudnnDecode;
  if (heads.library != AttentionLibrary::trtllm) return asynchronous ? kHopperFlashDecode : kWarpFlashDecode;
  const std::uint64_t parts = blocks * std::max<std::uint64_t>(1, longest / kDecodeSplitKeys);
  if (heads.query == heads.kv || kXqaBlockFactor * parts < gpu.sm.count) return kMasked;
  return asynchronous ? kHopperXqa : kWarpXqa;
}

double attention_clock_ratio(const GpuDatasheet& gpu) {
  return gpu.sm.throttle_us > 0 ? gpu.sm.sustained_efficiency_ratio : gpu.sm.burst_efficiency_ratio;
}

double pair_clocks(const GpuDatasheet& gpu, const PrefillKernel& kernel, double dim) {
  const double gaining = std::min(kWidestGainingDim, dim), p = kernel.overlap;
  const double products = 2 * kFlopsPerProduct * gaining / (kernel.products_ratio * gpu.tensor_flop_per_clock()) +
                          kernel.operand_clocks * gaining / kMeasuredDim;
  const double exponentials = kernel.exponentials / kExponentialsPerClock;
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
