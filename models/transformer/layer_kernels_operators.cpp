// Elementwise work of eager PyTorch: a kernel for each operator, with its numbers in memory before and after. Counted from
// the operators of PyTorch 2.6 (aten, layer_norm.cpp: rms_norm; derivatives.yaml) and of torchtitan's Llama
// (apply_rotary_emb, FeedForward). Numbers for each row of a norm are left out: they are a thousandth of the others.
//
//   RMSNorm    to fp32, square, mean, product with 1 / root, to 16 bits, product with the weight
//   its dgrad  by the weight, of the weight and its sum over rows; to fp32; by the root, of the root and its sum; power,
//              factor 2 and product of the square; sum of both; to 16 bits
//   rotary     to fp32, complex product, to 16 bits; backward the same
//   SiLU       activation, product; backward two products and the activation
//   residual   sum; backward the sum of two gradients
//   softmax    of Megatron-LM (FusedScaleMaskSoftmax): to fp32, scale, mask, softmax, to 16 bits; backward to fp32,
//              softmax, copy and mask, scale, to 16 bits. Masks are shared by all heads and left out
#include "transformer/layer_kernels.h"

namespace railyard::transformer {

namespace {

constexpr double kWideBytes = 4;

/// What an operator reads and writes for each element.
struct Operator {
  double narrow, wide;  ///< numbers in the model's type, and in fp32
};

constexpr std::array<Operator, 6> kNorm{{{1, 1}, {0, 2}, {0, 1}, {0, 2}, {1, 1}, {2, 0}}};
constexpr std::array<Operator, 12> kNormBackward{
    {{2, 0}, {3, 0}, {1, 0}, {1, 1}, {0, 2}, {0, 3}, {0, 1}, {0, 2}, {0, 2}, {0, 2}, {0, 3}, {1, 1}}};
constexpr std::array<Operator, 3> kRotary{{{1, 1}, {0, 2}, {1, 1}}};
constexpr std::array<Operator, 2> kGate{{{2, 0}, {3, 0}}};
constexpr std::array<Operator, 3> kGateBackward{{{3, 0}, {3, 0}, {3, 0}}};
constexpr std::array<Operator, 1> kResidual{{{3, 0}}};
constexpr std::array<Operator, 5> kSoftmax{{{1, 1}, {0, 2}, {0, 2}, {0, 2}, {1, 1}}};
constexpr std::array<Operator, 6> kSoftmaxBackward{{{1, 1}, {0, 3}, {0, 2}, {0, 2}, {0, 2}, {1, 1}}};

template <std::size_t Count>
void add_operators(Segment& segment, const gpu::KernelTimer& timer, const KernelId& id,
                   const std::array<Operator, Count>& operators, double elements, double narrow_bytes) {
  for (const Operator& each : operators)
    segment.add(id, timer.memory_bound(elements * (each.narrow * narrow_bytes + each.wide * kWideBytes)));
}

}  // namespace

void LayerTimer::add_norm_operators(Segment& segment, double elements, bool backward) {
  backward ? add_operators(segment, timer_, "rmsnorm_operator_dgrad", kNormBackward, elements, element_bytes_)
           : add_operators(segment, timer_, "rmsnorm_operator", kNorm, elements, element_bytes_);
}

void LayerTimer::add_rotary_operators(Segment& segment, std::uint64_t tokens, bool backward) {
  for (const std::uint32_t heads : {heads_.query, heads_.kv})
    add_operators(segment, timer_, backward ? "rotary_operator_dgrad" : "rotary_operator", kRotary,
                  static_cast<double>(tokens) * heads * heads_.dim, element_bytes_);
}

void LayerTimer::add_gate_operators(Segment& segment, double elements, bool backward) {
  backward ? add_operators(segment, timer_, "activation_operator_dgrad", kGateBackward, elements, element_bytes_)
           : add_operators(segment, timer_, "activation_operator", kGate, elements, element_bytes_);
}

void LayerTimer::add_residual_operator(Segment& segment, double elements, bool backward) {
  add_operators(segment, timer_, backward ? "residual_dgrad" : "residual", kResidual, elements, element_bytes_);
}

void LayerTimer::add_softmax_operators(Segment& segment, double scores, bool backward) {
  backward ? add_operators(segment, timer_, "softmax_operator_dgrad", kSoftmaxBackward, scores, element_bytes_)
           : add_operators(segment, timer_, "softmax_operator", kSoftmax, scores, element_bytes_);
}

}  // namespace railyard::transformer
