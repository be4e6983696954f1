#include "sc_main/scenario/kinds/precision.h"

#include <algorithm>
#include <string>
#include <vector>

namespace railyard::scenario {

using transformer::NarrowProducts;
using transformer::ScalingRecipe;
using transformer::WeightCast;

namespace {

constexpr std::array<DataType, 6> kTypes{DataType::fp16, DataType::bf16,  DataType::tf32,
                                         DataType::fp8,  DataType::mxfp8, DataType::nvfp4};

/// The first is the default.
std::vector<ScalingRecipe> recipes_of(DataType type) {
  switch (type) {
    case DataType::mxfp8: return {ScalingRecipe::mxfp8};
    case DataType::nvfp4: return {ScalingRecipe::nvfp4};
    default:
      return {ScalingRecipe::delayed, ScalingRecipe::tensorwise, ScalingRecipe::rowwise, ScalingRecipe::blockwise};
  }
}

}  // namespace

std::optional<NarrowProducts> resolve_narrow(const PrecisionSection& written, const std::string& frees_weights,
                                             DataType model, const gpu::GpuDatasheet& gpu, const Source& source) {
  const DataType type = written.gemm ? kTypes[static_cast<std::size_t>(*written.gemm)] : model;
  const std::string name(name_of(type));
  if (written.gemm.value_or(ProductFormat::bf16) < ProductFormat::fp8) {
    if (type != model)
      refuse_workload(source, "precision.gemm",
                      name + "; model.dtype is " + std::string(name_of(model)) +
                          "; accepted: " + std::string(name_of(model)) + ", fp8, mxfp8, nvfp4");
    for (const char* key : {"recipe", "weight_cast"})
      if (value_at(source.root, std::string("workload.precision.") + key))
        refuse_workload(source, std::string("precision.") + key, "needs precision.gemm: fp8, mxfp8 or nvfp4");
    return std::nullopt;
  }
  const auto rate = [&](DataType t) { return gpu.sm.flop_per_clock[static_cast<std::size_t>(t)]; };
  if (rate(type) <= 0) {
    std::string accepted(name_of(model));
    for (const DataType t : {DataType::fp8, DataType::mxfp8, DataType::nvfp4})
      if (rate(t) > 0) accepted += ", " + std::string(name_of(t));
    refuse_workload(source, "precision.gemm",
                    name + "; " + gpu.name + " has no tensor rate for " + name + "; accepted: " + accepted);
  }
  const std::vector<ScalingRecipe> recipes = recipes_of(type);
  NarrowProducts narrow;
  narrow.dtype = type;
  narrow.recipe = written.recipe.value_or(recipes.front());
  if (std::find(recipes.begin(), recipes.end(), narrow.recipe) == recipes.end()) {
    std::string accepted;
    for (const ScalingRecipe recipe : recipes)
      accepted += (accepted.empty() ? "" : ", ") + std::string(name_of(recipe));
    refuse_workload(source, "precision.recipe",
                    std::string(name_of(narrow.recipe)) + "; recipes of gemm: " + name + ": " + accepted);
  }
  narrow.weight_cast = written.weight_cast.value_or(frees_weights.empty() ? WeightCast::step : WeightCast::product);
  if (narrow.weight_cast == WeightCast::step && !frees_weights.empty())
    refuse_workload(source, "precision.weight_cast", "step; " + frees_weights + " keeps no weights; accepted: product");
  narrow.one_layout = !gpu::facts_of(gpu.architecture).takes_both_layouts;
  return narrow;
}

}  // namespace railyard::scenario
