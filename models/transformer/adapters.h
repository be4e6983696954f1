// Low-rank adapters (LoRA, Hu et al., arXiv 2106.09685): the model's weights are frozen, and beside some matrices W [n x k] two of rank r
// are trained: y = W x + B (A x), with A [r x k] and B [n x r]. So r (n + k) parameters have gradients and optimizer state.
//
// On tensor-parallel ranks, beside a matrix whose output is divided (qkv, fc1) A is alike on all ranks and B is divided; beside
// one whose input is divided (proj, fc2) A is divided and B is alike. A rank adds B A x to its part of the result before the ranks
// sum it, so no collective is added to a layer; gradients of what is alike are summed once a step, as those of norms
// (shared_gradients.h).
//
// Matrices of queries, keys and values, or of gate and up, that are apart (FusedKernels::projections) have an A each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transformer/linears.h"

namespace railyard::transformer {

/// Matrices that may have adapters, by name in a scenario.
constexpr std::array<Linear, 4> kAdaptedLinears{Linear::qkv, Linear::proj, Linear::fc1, Linear::fc2};
constexpr std::array<const char*, 4> kAdaptedNames{"qkv", "proj", "fc1", "fc2"};

struct Adapters {
  std::uint32_t rank = 0;
  std::array<bool, kAdaptedLinears.size()> on{};  ///< by place in kAdaptedLinears
  bool apart = false;                             ///< matrices that other software fuses have an A each

  bool has(Linear linear) const {
    for (std::size_t i = 0; i < on.size(); ++i)
      if (kAdaptedLinears[i] == linear) return on[i];
    return false;
  }
};

/// Matrices A beside the matrices of a Linear. @pre adapters.has(linear)
std::uint32_t adapter_inputs(const ModelShape& model, const Adapters& adapters, Linear linear);
/// Parameters of the adapters of a stage on a tensor-parallel rank.
std::uint64_t adapter_parameters(const ModelShape& model, const Stage& stage, const Adapters& adapters,
                                 std::uint32_t tp);
/// Of them: alike on all tensor-parallel ranks. 0 with one rank.
std::uint64_t shared_adapter_parameters(const ModelShape& model, const Stage& stage, const Adapters& adapters,
                                        std::uint32_t tp);

}  // namespace railyard::transformer
