// What training launches around DeepEP's kernels, in the order of Megatron Core (megatron/core/transformer/moe/
// token_dispatcher.py of NVIDIA/Megatron-LM d98e8a6: MoEFlexTokenDispatcher, _DeepepManager; fused_a2a.py).
//
//   choices    torch.topk of the router's weights, and DeepEP's get_dispatch_layout()
//   flags      cached_notify of DeepEP, a kernel before each exchange whose numbers are known
//   multihot   _indices_to_multihot(): a map of the choices of received tokens, and weights, from lists of them. PyTorch
//              copies to the host how many choices are valid, before it can allocate them: twice for indices by mask (sum
//              of CUB, two kernels; selection, two kernels; indices by number; gather), and twice in repeat_interleave (sum
//              of all repeats by CUB's scan; whether none is negative; aten/src/ATen/native/Repeat.h, cuda/Nonzero.cu).
//              Megatron Core's fused kernel for it is experimental
//   backward   gradients of the weights: gather, zeros, the mask's indices once more, scatter; and of topk: zeros, scatter
//
// A call of the framework with several kernels counts as one call.
#include "transformer/layer_kernels.h"
#include "transformer/parameters.h"

namespace railyard::transformer {

namespace {

constexpr double kInt64Bytes = 8, kWeightBytes = 4, kBoolBytes = 1;

}  // namespace

void LayerTimer::add_calls(Segment& segment, const KernelId& id, double bytes, std::uint32_t calls,
                           std::uint32_t kernels) {
  std::vector<gpu::KernelTime> times;
  for (std::uint32_t i = 0; i < calls * kernels; ++i) times.push_back(timer_.memory_bound(i == 0 ? bytes : 0));
  NamedKernel kernel(id, gpu::joined(times), calls);
  kernel.of_call = kernels;
  segment.add(kernel);
}

LayerTimer::Pairs LayerTimer::pairs_of(const ReceivedTokens& received) const {
  const auto tokens = static_cast<double>(received.tokens);
  return {tokens * model_.experts_per_token, tokens * received.experts};
}

Segment LayerTimer::choices(std::uint64_t tokens) {
  Segment segment;
  const auto [choices, pairs] = pairs_of(tokens);
  add_calls(segment, "choices", pairs * kWeightBytes + choices * (kInt64Bytes + kWeightBytes), 1, 1);
  add_calls(segment, "dispatch_layout", choices * kInt64Bytes, 1, 1);
  return segment;
}

Segment LayerTimer::exchange_flags() {
  Segment segment;
  add_calls(segment, "exchange_flags", 0, 1, 1);
  return segment;
}

std::vector<Segment> LayerTimer::multihot(const ReceivedTokens& received) {
  const auto [choices, pairs] = pairs_of(received);
  const auto valid = static_cast<double>(received.copies);
  std::vector<Segment> parts(5);
  add_calls(parts[0], "multihot_zeros", pairs * (kInt64Bytes + kWeightBytes) + choices * (kInt64Bytes + kBoolBytes), 3,
            1);
  add_calls(parts[0], "multihot_count", choices * kBoolBytes, 1, 3);
  add_calls(parts[1], "multihot_rows", choices * (2 * kBoolBytes) + valid * 4 * kInt64Bytes, 3, 3);
  add_calls(parts[2], "multihot_check", static_cast<double>(received.tokens) * kInt64Bytes, 1, 3);
  add_calls(parts[3], "multihot_map", valid * 3 * kInt64Bytes + choices * kBoolBytes, 2, 3);
  add_calls(parts[4], "multihot_weights", valid * 3 * (kInt64Bytes + kWeightBytes) + pairs * (kInt64Bytes + kBoolBytes),
            2, 3);
  return parts;
}

std::vector<Segment> LayerTimer::multihot_backward(const ReceivedTokens& received) {
  const double choices = pairs_of(received).choices, valid = static_cast<double>(received.copies);
  std::vector<Segment> parts(2);
  add_calls(parts[0], "multihot_dgrad", valid * 2 * kWeightBytes + choices * kWeightBytes, 2, 1);
  add_calls(parts[0], "multihot_count_dgrad", choices * kBoolBytes, 1, 3);
  add_calls(parts[1], "multihot_weights_dgrad", valid * (2 * kInt64Bytes + 2 * kWeightBytes), 1, 4);
  return parts;
}

Segment LayerTimer::permute(const ReceivedTokens& received) {
  Segment segment;
  add_row_numbers(segment, pairs_of(received));
  add_copies(segment, "permute", received.tokens, received.copies);
  return segment;
}

Segment LayerTimer::combine(const ReceivedTokens& received) {
  Segment segment;
  add_sum_by_index(segment, received.tokens);
  add_copies(segment, "combine", received.tokens, received.copies);
  return segment;
}

Segment LayerTimer::combine_backward(const ReceivedTokens& received) {
  Segment segment;
  add_sum_by_index(segment, received.tokens);
  add_copies(segment, "combine_dgrad", received.tokens, received.copies);
  return segment;
}

Segment LayerTimer::permute_backward(const ReceivedTokens& received) {
  Segment segment;
  add_copies(segment, "permute_dgrad", received.tokens, received.copies);
  add_rows_backward(segment, pairs_of(received));
  return segment;
}

Segment LayerTimer::choices_backward(std::uint64_t tokens) {
  Segment segment;
  const auto [choices, pairs] = pairs_of(tokens);
  add_calls(segment, "choices_dgrad", pairs * kWeightBytes + choices * (kInt64Bytes + kWeightBytes), 2, 1);
  return segment;
}

}  // namespace railyard::transformer
