// Products of narrow operands in training, and the kernels that narrow them (narrow_products.h).
#include <utility>

#include "transformer/layer_kernels.h"

namespace railyard::transformer {

void LayerTimer::add_narrowing(Segment& segment, std::uint64_t rows, std::uint64_t width, std::uint32_t copies) {
  const std::optional<NarrowProducts>& narrow = form().narrow;
  if (!narrow) return;
  if (narrow->finds_amax()) add_amax(segment, rows, width);
  add_cast(segment, rows, width, copies);
}

void LayerTimer::add_narrowing(Segment& segment, std::uint64_t rows, std::uint64_t width) {
  if (form().narrow) add_narrowing(segment, rows, width, form().narrow->copies());
}

void LayerTimer::add_amax(Segment& segment, std::uint64_t rows, std::uint64_t width) {
  add_elementwise(segment, {"amax", KernelRole::narrowing}, static_cast<double>(rows) * static_cast<double>(width));
}

void LayerTimer::add_cast(Segment& segment, std::uint64_t rows, std::uint64_t width, std::uint32_t copies) {
  const NarrowProducts& narrow = *form().narrow;
  gpu::KernelSpec spec;
  spec.op = gpu::KernelOp::quantize;
  spec.dtype = narrow.dtype;
  spec.tokens = rows;
  spec.width = width;
  if (narrow.recipe == ScalingRecipe::rowwise) {
    segment.add({"quantize", KernelRole::narrowing}, gpu::kernel_time(timer_.gpu(), spec));
    if (copies > 1) segment.add({"quantize_columns", KernelRole::narrowing}, gpu::kernel_time(timer_.gpu(), spec));
    return;
  }
  spec.copies = copies;
  segment.add({"quantize", KernelRole::narrowing}, gpu::kernel_time(timer_.gpu(), spec));
}

void LayerTimer::add_weight_cast(Segment& segment, std::uint64_t n, std::uint64_t k, std::uint32_t groups) {
  const std::optional<NarrowProducts>& narrow = form().narrow;
  if (!narrow || narrow->weight_cast == WeightCast::step) return;
  const double weights = static_cast<double>(groups) * static_cast<double>(n) * static_cast<double>(k);
  if (narrow->finds_amax())
    segment.add({"weight_amax", KernelRole::weight_cast}, timer_.memory_bound(0, weights * element_bytes_));
  segment.add({"weight_quantize", KernelRole::weight_cast},
              timer_.memory_bound(0, weights * (element_bytes_ + bytes_of(narrow->dtype))));
}

Segment LayerTimer::hidden_amax(std::uint64_t tokens) {
  Segment segment;
  add_amax(segment, tokens, model_.hidden);
  return segment;
}

Segment LayerTimer::cast_hidden(std::uint64_t tokens, std::uint32_t copies) {
  Segment segment;
  add_cast(segment, tokens, model_.hidden, copies);
  return segment;
}

Segment LayerTimer::transpose_hidden(std::uint64_t tokens) {
  Segment segment;
  segment.add({"transpose", KernelRole::transpose},
              timer_.memory_bound(2 * static_cast<double>(tokens) * model_.hidden * bytes_of(form().narrow->dtype)));
  return segment;
}

void LayerTimer::set_kernel(gpu::GemmShape& shape) const {
  shape.steady = training_.has_value();
  // Only narrow products have fp8 operands in training.
  const bool rowwise = form().narrow && form().narrow->recipe == ScalingRecipe::rowwise;
  if (rowwise && shape.dtype == DataType::fp8) shape.gemm_library = gpu::GemmLibrary::rowwise;
}

gpu::KernelTime LayerTimer::steady_gemm(gpu::GemmShape shape) {
  set_kernel(shape);
  if (!multiplies_in_turn(shape.groups)) return timer_.gemm(shape);
  const std::uint32_t experts = std::exchange(shape.groups, 1);
  return gpu::joined(std::vector<gpu::KernelTime>(experts, timer_.gemm(shape)));
}

void LayerTimer::add_projection(Segment& segment, Linear linear, std::uint64_t m, const Widths& n, std::uint64_t k,
                                const std::optional<WeightFormat>& format, std::uint32_t groups) {
  if (!form().narrow && n.size() == 1 && !multiplies_in_turn(groups)) {
    add_gemm(segment, linear, m, n.front(), k, format, groups);
  } else {
    std::vector<gpu::KernelTime> times;
    for (const std::uint64_t width : n) {
      add_weight_cast(segment, width, k, groups);
      times.push_back(steady_gemm({m, width, k, projection_type(), groups}));
    }
    segment.add(linear, gpu::joined(times));
  }
  add_adapter(segment, linear, m, n, k);
}

}  // namespace railyard::transformer
