// Architectures of GPUs, and what each one has: one table for all rooms. To add an architecture: a name in the enum, and
// its facts in facts_of(). A datasheet with another name is refused when it is read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace railyard::gpu {

enum class Architecture : std::uint8_t { volta, ampere, ada, hopper, blackwell, cdna3 };
inline constexpr std::array<const char*, 6> kArchitectureNames{"volta",  "ampere",    "ada",
                                                               "hopper", "blackwell", "cdna3"};
constexpr const char* name_of(Architecture architecture) {
  return kArchitectureNames[static_cast<std::size_t>(architecture)];
}

/// A version of FlashAttention on an architecture.
struct FlashVersion {
  std::uint32_t version = 0;  ///< 0: none
  double peak_share = 0;      ///< of the 16-bit tensor peak, forward, heads of 128; 0: the rate of the GPU's datasheet
};

inline constexpr const char* kCardKernels = "warp";

struct ArchitectureFacts {
  std::uint32_t compute_capability = 0;  ///< CUDA's, the major number; 0: no GPU of NVIDIA
  /// Operands come by TMA, and the kernels of CUTLASS 3 and cuBLAS loop over tiles. On GPUs with large shared memory, tensor
  /// instructions also run beside other instructions, and their narrow side is any multiple of 8.
  bool has_tma = false;
  /// Accumulators of a pair of SMs are in tensor memory. Only on GPUs with large shared memory: cards of Blackwell have
  /// the tensor instructions of Ada.
  bool has_tensor_memory = false;
  /// Tensor instructions of 8 bits take operands in both layouts; otherwise a kernel transposes them (TransformerEngine,
  /// common/util/cast_transpose).
  bool takes_both_layouts = false;
  /// The constants of its kernels: a sheet of platforms/datasheets/kernels, on GPUs with large shared memory. Others have
  /// kCardKernels.
  const char* kernels = kCardKernels;
  bool runs_deepgemm = false;                        ///< with the tiles of deepgemm.h
  std::array<FlashVersion, 3> flash_attention = {};  ///< sources: kernels/flash_attention.h
};

constexpr ArchitectureFacts facts_of(Architecture architecture) {
  constexpr FlashVersion kSecond{2}, kThird{3};
  constexpr double kFirstShare = 0.368;  // version 1, Ampere
  constexpr double kMmaOnHopper = 0.62;  // share of the peak that mma.sync reaches
  constexpr double kSecondTflops = 370, kHopperTflops = 989.4;
  ArchitectureFacts facts;
  switch (architecture) {
    case Architecture::volta: facts.compute_capability = 7; break;
    case Architecture::ampere:
      facts.compute_capability = 8;
      facts.flash_attention = {{{1, kFirstShare}, kSecond}};
      break;
    case Architecture::ada:
      facts.compute_capability = 8;
      facts.flash_attention = {{kSecond}};
      break;
    case Architecture::hopper:
      facts.compute_capability = 9;
      facts.has_tma = true;
      facts.runs_deepgemm = true;
      facts.kernels = "hopper";
      facts.flash_attention = {{{1, kMmaOnHopper * kFirstShare}, {2, kSecondTflops / kHopperTflops}, kThird}};
      break;
    case Architecture::blackwell:
      facts.compute_capability = 10;
      facts.has_tma = true;
      facts.has_tensor_memory = true;
      facts.takes_both_layouts = true;
      facts.kernels = "blackwell";
      break;
    case Architecture::cdna3: break;
  }
  return facts;
}

}  // namespace railyard::gpu
