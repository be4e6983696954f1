// Kernels of the part of a layer after attention: a dense MLP or routed experts.
#include <algorithm>
#include <cmath>

#include "transformer/layer_kernels.h"
#include "transformer/parameters.h"

namespace railyard::transformer {

namespace {

const ProfileTable<2>::Names kExpertNames{"activated experts", "moe tokens"};

/// Before the products of an engine's fused experts, small kernels sort the rows by expert and pad each expert's rows to
/// whole blocks (vLLM and SGLang, moe_align_block_size). Fitted together with the products (gemm.cpp).
gpu::KernelTime alignment(gpu::KernelTimer& timer, std::uint64_t rows) {
  constexpr double kSeconds = 12e-6, kIdBytes = 8;
  const gpu::KernelTime ids = timer.memory_bound(kIdBytes * static_cast<double>(rows));
  return ids.taking(std::max(ids.seconds, kSeconds));
}

}  // namespace

Segment LayerTimer::mlp_body(std::uint64_t tokens, std::uint32_t kind) {
  Segment segment;
  const LayerShape& layer = model_.kinds[kind];
  const double t = static_cast<double>(tokens);
  if (!model_.routes(layer)) {
    add_mlp(segment, tokens, dense_ffn(), layer.mlp);
    return measured(segment, t);
  }
  segment = route(tokens);
  segment.append(local_experts(tokens, kind));
  segment.append(combine(tokens));
  if (profile_) {
    const double seconds =
        profile_->experts.at({static_cast<double>(active_experts(tokens)), t}, kExpertNames, profile_use_);
    Segment scaled;
    for (const NamedKernel& kernel : segment.kernels)
      scaled.add(kernel, kernel.time.taking(kernel.time.seconds * seconds / segment.seconds));
    segment = scaled;
  }
  segment.append(shared_experts(tokens, kind));
  return segment;
}

Segment LayerTimer::expert_activation(std::uint64_t tokens, std::uint32_t ep, const RankLoad* load) {
  Segment segment;
  add_activation(segment, experts(tokens, ep, load).routed, ffn_);
  return segment;
}

LayerTimer::Experts LayerTimer::experts(std::uint64_t tokens, std::uint32_t ep, const RankLoad* load) const {
  const std::uint64_t copies = tokens * model_.experts_per_token;
  if (const std::uint32_t ranks = expert_ranks_.ranks; ranks > 1) {
    const double even = static_cast<double>(copies) / ranks;
    const auto own = static_cast<std::uint64_t>(std::ceil(even * expert_ranks_.fullest));
    const std::uint64_t places = model_.experts + std::uint64_t(expert_ranks_.redundant);
    const auto reached = static_cast<std::uint32_t>(
        std::max<std::uint64_t>(1, ceil_div(active_experts(tokens) * places, ranks * std::uint64_t(model_.experts))));
    return {own, reached, ceil_div(own, reached)};
  }
  const std::uint64_t routed =
      load != nullptr ? load->of(copies) : part_of_copies(copies, form().routed ? form().routed->copies() : 1);
  const std::uint32_t active = load == nullptr
                                   ? ceil_div(active_experts(tokens * ep), ep)
                                   : static_cast<std::uint32_t>(std::min<std::uint64_t>(model_.experts / ep, routed));
  return {routed, active, ceil_div(routed, active)};
}

std::uint32_t LayerTimer::active_experts(std::uint64_t tokens) const {
  if (model_.experts == 0) return 0;
  const double chosen = static_cast<double>(model_.experts_per_token) / model_.experts;
  const double missed = std::pow(1.0 - chosen, static_cast<double>(tokens));
  return static_cast<std::uint32_t>(std::lround(model_.experts * (1.0 - missed)));
}

void LayerTimer::add_permutation(Segment& segment, const KernelId& id, std::uint64_t tokens, const RankLoad* load) {
  const std::uint64_t copies = load != nullptr ? part_of_copies(tokens * model_.experts_per_token, load->kept)
                                               : experts(tokens).routed;  // of this rank, with whole ones of inference
  add_copies(segment, id, tokens, copies);
}

void LayerTimer::add_copies(Segment& segment, const KernelId& id, std::uint64_t tokens, std::uint64_t copies) {
  add_elementwise(segment, id, static_cast<double>(tokens + copies) * model_.hidden);
}

void LayerTimer::add_sort(Segment& segment, const KernelId& id, const Experts& experts, std::uint32_t ep) {
  if (ep == 1 || experts.active == 1 || dispatches_once()) return;
  add_elementwise(segment, id, 2 * static_cast<double>(experts.routed) * model_.hidden);
  segment.kernels.back().launches = sort_launches();
}

Segment LayerTimer::route(std::uint64_t tokens) {
  Segment segment = router(tokens);
  segment.append(permute(tokens));
  return segment;
}

Segment LayerTimer::permute(std::uint64_t tokens, const RankLoad* load) {
  Segment segment;
  add_row_numbers(segment, pairs_of(tokens));
  add_permutation(segment, "permute", tokens, load);
  return segment;
}

Segment LayerTimer::router(std::uint64_t tokens) {
  Segment segment;
  add_gemm(segment, "router", tokens, model_.experts + (model_.shared_gate ? 1 : 0), model_.hidden);
  add_elementwise(segment, "top_k", static_cast<double>(tokens) * (model_.experts + 2.0 * model_.experts_per_token));
  add_router_operators(segment, tokens);
  return segment;
}

Segment LayerTimer::local_experts(std::uint64_t tokens, std::uint32_t kind, std::uint32_t ep, const RankLoad* load) {
  Segment segment;
  const std::optional<WeightFormat>& format = model_.kinds[kind].experts;
  const Experts e = experts(tokens, ep, load);
  add_sort(segment, "sort", e, ep);
  if (!training_ && e.active > 1) segment.add("align", alignment(timer_, e.routed));
  Segment products;
  add_narrowing(products, e.routed, model_.hidden);
  add_projection(products, kExpertMlp.first, e.rows, gate_up_widths(ffn_), model_.hidden, format, e.active);
  add_activation(products, e.routed, ffn_);
  add_narrowing(products, e.routed, ffn_);
  add_projection(products, kExpertMlp.second, e.rows, {model_.hidden}, ffn_, format, e.active);
  launch_each(products, e);
  segment.append(products);
  add_sort(segment, "unsort", e, ep);
  return segment;
}

Segment LayerTimer::combine(std::uint64_t tokens, const RankLoad* load) {
  Segment segment;
  add_sum_by_index(segment, tokens);
  add_permutation(segment, "combine", tokens, load);
  return segment;
}

Segment LayerTimer::shared_experts(std::uint64_t tokens, std::uint32_t kind) {
  Segment segment = shared_experts_first(tokens, kind);
  segment.append(shared_experts_second(tokens, kind));
  return segment;
}

Segment LayerTimer::shared_experts_first(std::uint64_t tokens, std::uint32_t kind) {
  Segment segment;
  if (shared_ffn_ == 0) return segment;
  add_narrowing(segment, tokens, model_.hidden);
  add_mlp_first(segment, tokens, shared_ffn_, model_.kinds[kind].mlp);
  return segment;
}

Segment LayerTimer::shared_experts_second(std::uint64_t tokens, std::uint32_t kind) {
  Segment segment;
  if (shared_ffn_ > 0) add_mlp_second(segment, tokens, shared_ffn_, model_.kinds[kind].mlp);
  return segment;
}

Segment LayerTimer::whole_shared_experts(std::uint64_t tokens, std::uint32_t kind) {
  Segment segment;
  if (model_.shared_ffn == 0) return segment;
  add_narrowing(segment, tokens, model_.hidden);
  add_mlp(segment, tokens, model_.shared_ffn, model_.kinds[kind].mlp);
  return segment;
}

}  // namespace railyard::transformer
