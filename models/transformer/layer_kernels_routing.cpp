// What training launches around routed experts, in the order of Megatron Core (megatron/core/transformer/moe of
// NVIDIA/Megatron-LM d98e8a6: router.py, moe_utils.py, token_dispatcher.py, experts.py). Each operator is a launch of the
// host; the sizes are what it reads and writes for a token and an expert.
//
//   router     after the product and the choice of experts (router, top_k). Fused: scores and loss of balance. Otherwise
//              operators of PyTorch: sort of the choices, softmax, type; weights of all experts (zeros, copy, scatter) and
//              the map of choices (zeros, to integers, copy, scatter, to bool); for the loss of balance softmax, choice,
//              sort and map once more, two sums over tokens, product, sum, scale, and two that keep it to be printed.
//              More for sigmoid scores, a bias of each expert (with which the router counts its loads), groups of experts, and
//              a factor (DeepSeek-V3: 23 in all); and for a capacity of experts (apply_router_token_dropping())
//   backward   fused: choice, scores, loss, and the sum of both gradients. Otherwise scatter, type, softmax, zeros and
//              scatter of the choice; scale and two products of the loss, its softmax, and the sum of both gradients
//   counts     sums of the map; after the gather of those of all ranks: a rank's part, sums by rank and by expert, and
//              copies of four of them to the host
//   permute    fused: three kernels number the rows (Transformer Engine, pytorch/triton/permutation.py), then rows are
//              copied. Otherwise the map is transposed and sorted, and weights and rows are picked by index
//   sort       fused: a kernel numbers the rows. Otherwise rows are divided and concatenated, 128 parts in a launch
//   combine    otherwise zeros, a sum by index, and type
#include "transformer/layer_kernels.h"
#include "transformer/parameters.h"

namespace railyard::transformer {

namespace {

using Sizes = std::vector<double>;

const Sizes kRouterFused{9, 4};
const Sizes kRouter{0, 0, 0, 4, 8, 0, 4, 8, 8, 0, 5, 8, 4, 0, 4, 8, 8, 0, 5, 1, 4, 0, 0, 0, 0, 0};
// Beside these, or in place of a softmax. Sigmoid: to fp32, sigmoid, sum, epsilon and quotient, for choices and loss
const Sizes kSigmoid{6, 8, 0, 0, 6, 8, 4, 0};
const Sizes kBias{8, 0, 1, 0};                      // added; scores gathered; loads of experts counted, and added
const Sizes kGroups{4, 0, 0, 0, 0, 0, 4, 5, 2, 9};  // best experts of each (choice, sort), sum, groups, mask of experts
const Sizes kScale{0};
const Sizes kDropping{4, 4, 0, 5, 9};  // choice for each expert; mask: zeros, scatter, to bool; weights
const Sizes kDroppingMap{3};
const Sizes kRouterFusedBackward{8, 8, 8, 12};
const Sizes kRouterBackward{0, 0, 0, 4, 0, 0, 8, 8, 12, 12};
// Of the divisor (quotients, sign, product, sum), the sum of both gradients, sigmoid, type; of choices and loss
const Sizes kSigmoidBackward{0, 0, 0, 0, 0, 0, 12, 6, 12, 12, 8, 12, 4, 12, 12, 6};
const Sizes kDroppingBackward{9};
const Sizes kCounts{1, 0, 0};
const Sizes kCountsOfRanks(8, 0);  // a part, three sums, four copies
const Sizes kRowNumbers{5, 8, 8};
const Sizes kRowsByIndex{2, 10, 10, 10, 10, 0, 8, 0};
const Sizes kRowsPadded{2, 2, 10, 10, 10, 10, 0, 8, 0, 0, 0, 0};  // sorted for each expert, cut, and weights by number
const Sizes kRowsByIndexBackward{0, 8, 0};

void add(Sizes& sizes, bool has, const Sizes& more) {
  if (has) sizes.insert(sizes.end(), more.begin(), more.end());
}

constexpr double kIndexBytes = 8;               // of a choice
constexpr std::uint64_t kPartsOfALaunch = 128;  // PyTorch, aten/src/ATen/native/cuda/Shape.cu: CAT_ARRAY_BATCH_SIZE

}  // namespace

LayerTimer::Pairs LayerTimer::pairs_of(std::uint64_t tokens) const {
  return {static_cast<double>(tokens) * model_.experts_per_token, static_cast<double>(tokens) * model_.experts};
}

void LayerTimer::add_routing(Segment& segment, const KernelId& id, const Pairs& of, const Sizes& pair_bytes) {
  std::vector<gpu::KernelTime> times;
  for (const double bytes : pair_bytes)
    times.push_back(timer_.memory_bound(bytes * of.pairs + kIndexBytes * of.choices));
  segment.add(NamedKernel(id, gpu::joined(times), static_cast<std::uint32_t>(times.size())));
}

void LayerTimer::add_router_operators(Segment& segment, std::uint64_t tokens) {
  if (!form().routed) return;
  const RouterForm& router = model_.router;
  const bool fused = form().routed->router_fused;
  Sizes sizes = fused ? kRouterFused : kRouter;
  add(sizes, !fused && router.sigmoid, kSigmoid);
  add(sizes, !fused && router.groups > 1, kGroups);
  add(sizes, !fused && router.scaled, kScale);
  add(sizes, !fused && router.bias, kBias);
  add(sizes, form().routed->capacity.has_value(), kDropping);
  add(sizes, form().routed->capacity && !form().routed->pads, kDroppingMap);
  add_routing(segment, "router_operators", pairs_of(tokens), sizes);
}

void LayerTimer::add_router_operators_backward(Segment& segment, std::uint64_t tokens) {
  if (!form().routed) return;
  const bool fused = form().routed->router_fused;
  Sizes sizes = fused ? kRouterFusedBackward : kRouterBackward;
  add(sizes, !fused && model_.router.sigmoid, kSigmoidBackward);
  add(sizes, !fused && model_.router.scaled, kScale);
  add(sizes, form().routed->capacity.has_value(), kDroppingBackward);
  add_routing(segment, "router_operators_dgrad", pairs_of(tokens), sizes);
}

void LayerTimer::add_row_numbers(Segment& segment, const Pairs& of) {
  if (!form().routed) return;
  add_routing(segment, "row_numbers", of,
              form().routed->permute_fused ? kRowNumbers
              : form().routed->pads        ? kRowsPadded
                                           : kRowsByIndex);
}

void LayerTimer::add_sum_by_index(Segment& segment, std::uint64_t tokens) {
  if (!form().routed || form().routed->permute_fused) return;
  const double numbers = static_cast<double>(tokens) * model_.hidden;
  add_elementwise(segment, "combine_zeros", numbers);
  add_elementwise(segment, "combine_type", 2 * numbers);
}

void LayerTimer::add_rows_backward(Segment& segment, const Pairs& of) {
  if (form().routed && !form().routed->permute_fused)
    add_routing(segment, "row_numbers_dgrad", of, kRowsByIndexBackward);
}

Segment LayerTimer::count_copies(std::uint64_t tokens) {
  Segment segment;
  if (waits_for_counts()) add_routing(segment, "counts", pairs_of(tokens), kCounts);
  return segment;
}

Segment LayerTimer::counts_of_ranks() {
  Segment segment;
  if (waits_for_counts()) add_routing(segment, "counts_of_ranks", pairs_of(model_.experts), kCountsOfRanks);
  return segment;
}

std::uint32_t LayerTimer::sort_launches() const {
  if (!form().routed) return 1;
  constexpr std::uint32_t kNumbersAndRows = 2;
  if (form().routed->permute_fused || form().routed->pads) return kNumbersAndRows;   // padded: of rows, and weights
  return static_cast<std::uint32_t>(2 * ceil_div(model_.experts, kPartsOfALaunch));  // of rows, and of their weights
}

void LayerTimer::launch_each(Segment& segment, const Experts& experts) const {
  if (!form().routed || form().routed->products == ExpertProducts::grouped) return;
  for (NamedKernel& kernel : segment.kernels)
    if (kernel.use || kernel.role == KernelRole::narrowing || kernel.role == KernelRole::weight_cast)
      kernel.of_call = experts.active;
}

}  // namespace railyard::transformer
