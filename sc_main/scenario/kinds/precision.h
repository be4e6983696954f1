// The keys of `precision` that say in which number format training multiplies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "gpu/datasheet.h"
#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/table/words.h"
#include "transformer/narrow_products.h"

namespace railyard::scenario {

enum class ProductFormat : std::uint8_t { fp16, bf16, tf32, fp8, mxfp8, nvfp4 };
constexpr std::array<const char*, 6> kProductFormatNames{"fp16", "bf16", "tf32", "fp8", "mxfp8", "nvfp4"};

struct PrecisionSection {
  std::optional<ProductFormat> gemm;
  std::optional<transformer::ScalingRecipe> recipe;
  std::optional<transformer::WeightCast> weight_cast;
};

template <class Section>
Record<Section> precision_record(PrecisionSection Section::*precision) {
  const auto member = [precision](auto of_precision) { return within(precision, of_precision); };
  Record<Section> r;
  r.choice("gemm", member(&PrecisionSection::gemm), words_of(kProductFormatNames),
           "products of qkv, output projection and MLP, forward and backward; all else has model.dtype")
      .fallback("model.dtype");
  r.choice("recipe", member(&PrecisionSection::recipe), words_of(transformer::kScalingRecipeNames),
           "gemm: fp8: what has a scale. delayed: a tensor, from earlier steps; tensorwise: a tensor; rowwise: a row; "
           "blockwise: 128 numbers")
      .fallback("fp8: delayed; mxfp8 and nvfp4: their own");
  r.choice("weight_cast", member(&PrecisionSection::weight_cast), words_of(transformer::kWeightCastNames),
           "narrow weights are made once a step, and kept, or before each product")
      .fallback("zero_stage 3: product; else step");
  return r;
}

/// @param frees_weights  the setting by which whole weights do not stay in memory during a step; "": they do
std::optional<transformer::NarrowProducts> resolve_narrow(const PrecisionSection& written,
                                                          const std::string& frees_weights, DataType model,
                                                          const gpu::GpuDatasheet& gpu, const Source& source);

}  // namespace railyard::scenario
