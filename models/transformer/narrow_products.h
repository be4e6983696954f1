// Training with products of fewer than 16 bits: the products of qkv, o_proj and MLP (forward, dgrad, wgrad) read operands
// of 8 or 4 bits. Attention, norms, router, embedding and head, the residual stream and the results of all products keep
// the model's type. A recipe says how scales are found, and so which kernels narrow the operands:
//
//   recipe      scale of                  kernels
//   delayed     a tensor, from old steps  one cast; the norm writes narrow numbers itself; the scales of a slot are reduced
//   tensorwise  a tensor, now             amax over the tensor, then a cast
//   rowwise     a row (or column)         a cast along rows and one along columns; each reads the 16-bit tensor
//   blockwise   1 x 128 numbers (DeepSeek-V3); weights 128 x 128    one cast, which writes both directions
//   mxfp8       32 numbers                one cast, which writes both directions
//   nvfp4       16 numbers and a tensor   amax over the tensor, then a cast, which writes both directions
//
// The three products of a projection contract over three dimensions: a tensor that is an operand of two of them is read
// along rows in one and along columns in the other. Where scales belong to rows, columns or blocks, both directions are
// numbers of their own. With one scale for a tensor, fp8 tensor cores of Hopper and Ada read operands in one layout only (TN), so
// the other direction is a transposed copy; Blackwell reads both layouts (NVIDIA TransformerEngine, user guide "Low
// precision training": current, delayed and block scaling, MXFP8, NVFP4; pytorch/module/linear.py, layernorm_linear.py;
// rowwise: pytorch/ao, torchao/float8).
//
// Products with rowwise run in kernels of their own (gpu/kernels/gemm.h). torchao narrows along rows and along columns from
// the 16-bit numbers of all ranks, so gathers stay wide, also where PyTorch's asynchronous tensor parallelism could gather
// narrow rows with their scales (torch/distributed/_symmetric_memory, fused_all_gather_scaled_matmul); its compiler fuses
// products with the reduce-scatters after them (pytorch/pytorch pull request 149247), and with no gathers (issue 149990).
//
// Weights are narrowed once a step and stay narrow beside the 16-bit ones (TransformerEngine, is_first_microbatch), or
// before each product (FSDP, whose gathered weights are freed).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/data_type.h"

namespace railyard::transformer {

enum class ScalingRecipe : std::uint8_t { delayed, tensorwise, rowwise, blockwise, mxfp8, nvfp4 };
constexpr std::array<const char*, 6> kScalingRecipeNames{"delayed",   "tensorwise", "rowwise",
                                                         "blockwise", "mxfp8",      "nvfp4"};
constexpr const char* name_of(ScalingRecipe recipe) { return kScalingRecipeNames[static_cast<std::size_t>(recipe)]; }

/// How often weights are narrowed.
enum class WeightCast : std::uint8_t { step, product };
constexpr std::array<const char*, 2> kWeightCastNames{"step", "product"};

struct NarrowProducts {
  DataType dtype = DataType::fp8;
  ScalingRecipe recipe = ScalingRecipe::delayed;
  WeightCast weight_cast = WeightCast::step;
  bool one_layout = true;  ///< the GPU's products of this type read one layout of their operands

  /// Scales come from earlier steps, so the norm itself writes narrow numbers.
  bool norm_narrows() const { return recipe == ScalingRecipe::delayed; }
  bool finds_amax() const { return recipe == ScalingRecipe::tensorwise || recipe == ScalingRecipe::nvfp4; }
  bool scales_tensor() const { return recipe == ScalingRecipe::delayed || recipe == ScalingRecipe::tensorwise; }
  /// Collectives of sequence parallelism move narrow numbers: their scales do not depend on tokens of other ranks, or
  /// are known to all of them.
  bool gathers_narrow() const { return recipe != ScalingRecipe::rowwise; }
  /// Copies of an operand of two products.
  std::uint32_t copies() const { return scales_tensor() && !one_layout ? 1 : 2; }
  /// The second direction of a tensor is a transposed copy of the first, and may be made later.
  bool transposes() const { return scales_tensor() && one_layout; }
};

}  // namespace railyard::transformer
