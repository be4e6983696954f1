// The kernels of low-rank adapters (adapters.h). With m rows, a matrix [n x k] and rank r:
//
//   forward   A x [m x r x k], B of it [m x n x r], and the sum with the matrix's result
//   dgrad     through B [m x r x n], through A [m x k x r], and the sum with the gradient of the input
//   wgrad     of B [n x r x m] and of A [r x k x m]
//
// Frozen matrices have no wgrad. All products of adapters are in the model's type.
#include "transformer/layer_kernels.h"

namespace railyard::transformer {

void LayerTimer::add_adapter(Segment& segment, Linear linear, std::uint64_t m, const Widths& n, std::uint64_t k) {
  if (!form().adapters || !form().adapters->has(linear)) return;
  const std::uint64_t r = form().adapters->rank;
  for (const std::uint64_t width : n) {
    add_gemm(segment, "lora_a", m, r, k);
    add_gemm(segment, "lora_b", m, width, r);
    add_elementwise(segment, "lora_sum", 3 * static_cast<double>(m * width));
  }
}

void LayerTimer::add_adapter_dgrad(Segment& segment, Linear linear, std::uint64_t m, const Widths& n, std::uint64_t k) {
  if (!form().adapters || !form().adapters->has(linear)) return;
  const std::uint64_t r = form().adapters->rank;
  for (const std::uint64_t width : n) {
    add_gemm(segment, "lora_b_dgrad", m, r, width);
    add_gemm(segment, "lora_a_dgrad", m, k, r);
    add_elementwise(segment, "lora_sum_dgrad", 3 * static_cast<double>(m * k));
  }
}

void LayerTimer::add_adapter_wgrad(Segment& segment, Linear linear, std::uint64_t m, const Widths& n, std::uint64_t k) {
  if (!form().adapters || !form().adapters->has(linear)) return;
  const std::uint64_t r = form().adapters->rank;
  const auto add = [&](const char* name, std::uint64_t rows, std::uint64_t columns) {
    gpu::GemmShape shape{rows, columns, m, model_.dtype};
    shape.steady = true;
    set_gradient(shape);
    segment.add(name, timer_.gemm(shape));
    add_gradient_sum(segment, static_cast<double>(rows * columns));
  };
  for (const std::uint64_t width : n) {
    add("lora_b_wgrad", width, r);
    add("lora_a_wgrad", r, k);
  }
}

}  // namespace railyard::transformer
