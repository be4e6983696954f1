// The kernels of the backward pass of a layer.
#include "transformer/layer_kernels.h"

namespace railyard::transformer {

Segment PartBackward::joined() const {
  Segment all = body;
  all.append(input_dgrad);
  all.append(input_wgrad);
  return all;
}

Segment LayerTimer::gemm_dgrad(Direction direction, const KernelId& id, std::uint64_t m, const Widths& n,
                               std::uint64_t k, std::uint32_t groups, Operands operands) {
  Segment segment;
  if (!has_dgrad(direction)) return segment;
  if (operands == Operands::wide) {
    add_gemm(segment, id, m, k, n.front(), std::nullopt, groups);
    return segment;
  }
  std::vector<gpu::KernelTime> times;
  for (const std::uint64_t width : n) {
    add_weight_cast(segment, k, width, groups);
    times.push_back(steady_gemm({m, k, width, projection_type(), groups}));
  }
  segment.add(id, gpu::joined(times));
  if (n.size() > 1)
    add_elementwise(segment, {"input_gradient_sum", KernelRole::input_gradient_sum},
                    static_cast<double>(n.size() + 1) * static_cast<double>(m * k) * groups);
  if (id.use) add_adapter_dgrad(segment, id.use->linear, m, n, k);
  return segment;
}

Segment LayerTimer::gemm_wgrad(Direction direction, const KernelId& id, std::uint64_t m, const Widths& n,
                               std::uint64_t k, std::uint32_t groups, Operands operands) {
  Segment segment;
  if (!has_wgrad(direction)) return segment;
  if (form().adapters) {
    if (id.use) add_adapter_wgrad(segment, id.use->linear, m, n, k);
    return segment;
  }
  double elements = 0;
  std::vector<gpu::KernelTime> times;
  for (const std::uint64_t width : n) {
    gpu::KernelSpec spec;
    spec.dtype = operands == Operands::projection ? projection_type() : model_.dtype;
    spec.m = k;
    spec.n = width;
    spec.k = m;
    spec.groups = groups;
    set_kernel(spec);
    set_gradient(spec);
    if (multiplies_in_turn(groups)) {
      spec.groups = 1;
      times.insert(times.end(), groups, gpu::kernel_time(timer_.gpu(), spec));
    } else {
      times.push_back(gpu::kernel_time(timer_.gpu(), spec));
    }
    elements += static_cast<double>(width) * static_cast<double>(k) * groups;
  }
  segment.add(id, gpu::joined(times));
  add_gradient_sum(segment, elements);
  return segment;
}

void LayerTimer::set_gradient(gpu::GemmShape& wgrad) const {
  switch (form().gradient_sum) {
    case GradientSum::product: wgrad.result_dtype = form().gradients, wgrad.accumulate = true; break;
    case GradientSum::kernel: wgrad.result_dtype = model_.dtype; break;
    case GradientSum::after_reduce: wgrad.result_dtype = DataType::tf32; break;  // 32 bits
  }
}

void LayerTimer::add_gradient_sum(Segment& segment, double elements) {
  if (form().gradient_sum != GradientSum::kernel) return;
  segment.add("gradient_sum",
              timer_.memory_bound(elements * element_bytes_, 2 * elements * bytes_of(form().gradients)));
}

void LayerTimer::add_bias_wgrad(Segment& segment, Direction direction, const KernelId& id, double elements) {
  if (has_wgrad(direction) && !form().adapters) add_elementwise(segment, id, elements);
}

Segment LayerTimer::dropout_backward(LayerPart part, std::uint64_t tokens, Direction direction) {
  Segment segment;
  const double elements = static_cast<double>(tokens) * model_.hidden;
  // Reads the gradient of the output and the mask, writes the gradient of the input. The residual's gradient is the
  // output's.
  if (form().dropout && has_dgrad(direction))
    segment.add("dropout_dgrad", timer_.memory_bound(elements * (2 * element_bytes_ + kMaskBytes)));
  if (part == LayerPart::attention && model_.output_bias)
    add_bias_wgrad(segment, direction, "o_proj_bias_wgrad", elements);
  if (part == LayerPart::mlp && model_.mlp_bias) add_bias_wgrad(segment, direction, "down_bias_wgrad", elements);
  return segment;
}

Segment LayerTimer::norm_backward(LayerPart part, std::uint64_t tokens) {
  Segment segment;
  // A norm reads the gradient of its output, and its input, and writes the gradient of its input. This one is added to
  // that of the residual stream, which begins after the embedding and ends before the head.
  constexpr double kTensors = 3, kResidual = 1;
  const double elements = static_cast<double>(tokens) * model_.hidden;
  const FusedKernels& fused = form().fused;
  const bool has_residual = part == LayerPart::attention || part == LayerPart::mlp;
  const bool adds = has_residual && fused.norm && fused.residual;
  for (std::uint32_t i = 0; i < norms(part); ++i) {
    if (fused.norm) {
      add_elementwise(segment, "rmsnorm_dgrad", (kTensors + (adds ? kResidual : 0)) * elements);
    } else {
      add_norm_operators(segment, elements, true);
    }
    if (has_residual && !adds) add_residual_operator(segment, elements, true);
  }
  return segment;
}

Segment LayerTimer::attention_core_backward(const LayerPass& pass) {
  if (form().attention == AttentionForm::unfused) return unfused_attention_backward(pass);
  Segment segment;
  const gpu::AttentionHeads heads = model_.latent ? expanded_heads() : attention_heads(pass);
  segment.add("attention_dgrad", gpu::prefill_attention_time(timer_.gpu(), heads, pass.prefills, pass.causal,
                                                             gpu::AttentionPass::backward));
  return segment;
}

PartBackward LayerTimer::attention_backward(const LayerPass& pass, Direction direction) {
  PartBackward part = attention_input_backward(pass, direction);
  Segment body = attention_output_backward(pass, direction);
  if (has_dgrad(direction)) body.append(attention_core_backward(pass));
  body.append(part.body);
  part.body = std::move(body);
  return part;
}

Segment LayerTimer::merge_attention_backward(const LayerPass& pass) {
  Segment segment;
  // Queries of this pass, and twice as many keys and values: two are read, their sum is written.
  const double numbers = static_cast<double>(pass.tokens()) * (heads_.query + 2 * 2.0 * heads_.kv) * heads_.dim;
  add_elementwise(segment, "attention_merge_dgrad", 3 * numbers);
  return segment;
}

Segment LayerTimer::attention_output_backward(const LayerPass& pass, Direction direction) {
  const std::uint64_t tokens = pass.tokens(), attended = std::uint64_t(heads_.query) * model_.value_dim();
  Segment segment = gemm_dgrad(direction, {Linear::proj, Product::dgrad}, tokens, {model_.hidden}, attended);
  segment.append(gemm_wgrad(direction, {Linear::proj, Product::wgrad}, tokens, {model_.hidden}, attended));
  return segment;
}

Segment LayerTimer::attention_down_backward(std::uint64_t tokens, Direction direction) {
  return model_.latent ? latent_down_backward(tokens, direction) : Segment();
}

PartBackward LayerTimer::attention_input_backward(const LayerPass& pass, Direction direction) {
  if (model_.latent) return latent_up_backward(pass, direction);
  const std::uint64_t tokens = pass.tokens();
  PartBackward part;
  const double rotated = 2.0 * static_cast<double>(tokens) * (heads_.query + heads_.kv) * heads_.dim;
  if (has_dgrad(direction) && model_.rotary)
    form().fused.rotary ? add_elementwise(part.body, "rotary_dgrad", rotated)
                        : add_rotary_operators(part.body, tokens, true);
  if (has_dgrad(direction)) add_narrowing(part.body, tokens, qkv_width());
  part.input_dgrad = gemm_dgrad(direction, {Linear::qkv, Product::dgrad}, tokens, qkv_widths(), model_.hidden);
  part.input_wgrad = gemm_wgrad(direction, {Linear::qkv, Product::wgrad}, tokens, qkv_widths(), model_.hidden);
  if (model_.qkv_bias)
    add_bias_wgrad(part.input_wgrad, direction, "qkv_bias_wgrad",
                   static_cast<double>(tokens) * static_cast<double>(qkv_width()));
  return part;
}

gpu::KernelTime LayerTimer::product(const LinearUse& use, std::uint32_t kind, std::uint64_t tokens,
                                    std::uint32_t most_sms) {
  const Matrix matrix = matrix_of(model_, use.linear, model_.heads / heads_.query, kind);
  Widths rows{matrix.rows};
  if (use.linear == Linear::qkv) rows = qkv_widths();
  if (use.linear == Linear::fc1) rows = gate_up_widths(matrix.rows / projections());
  std::vector<gpu::KernelTime> times;
  for (const std::uint64_t width : rows) {
    gpu::GemmShape shape{tokens, width, matrix.columns, projection_type()};
    if (use.product == Product::dgrad) std::swap(shape.n, shape.k);
    if (use.product == Product::wgrad) {
      shape.m = matrix.columns;
      shape.k = tokens;
      set_gradient(shape);
    }
    shape.most_sms = most_sms;
    times.push_back(steady_gemm(shape));
  }
  return gpu::joined(times);
}

Segment LayerTimer::rearrange(Bytes bytes) {
  Segment segment;
  segment.add({"rearrange", KernelRole::rearrange}, timer_.memory_bound(2 * static_cast<double>(bytes)));
  return segment;
}

PartBackward LayerTimer::mlp_backward(const Mlp& mlp, const Experts& e, std::uint64_t width, Direction direction) {
  PartBackward part;
  part.body.append(gemm_dgrad(direction, {mlp.second, Product::dgrad}, e.rows, {model_.hidden}, width, e.active));
  part.body.append(gemm_wgrad(direction, {mlp.second, Product::wgrad}, e.rows, {model_.hidden}, width, e.active));
  // The gradient of the result, the two factors (or the one input), and their gradients.
  const double activated = static_cast<double>(e.routed) * static_cast<double>(width);
  if (has_dgrad(direction))
    has_gate_operators()
        ? add_gate_operators(part.body, activated, true)
        : add_elementwise(part.body, "activation_dgrad", static_cast<double>(2 * projections() + 1) * activated);
  const std::uint64_t widened = projections() * width;
  if (has_dgrad(direction)) add_narrowing(part.body, e.routed, widened);
  part.input_dgrad =
      gemm_dgrad(direction, {mlp.first, Product::dgrad}, e.rows, gate_up_widths(width), model_.hidden, e.active);
  part.input_wgrad =
      gemm_wgrad(direction, {mlp.first, Product::wgrad}, e.rows, gate_up_widths(width), model_.hidden, e.active);
  if (model_.mlp_bias)
    add_bias_wgrad(part.input_wgrad, direction, "gate_up_bias_wgrad",
                   static_cast<double>(e.routed) * static_cast<double>(widened));
  return part;
}

Segment LayerTimer::whole_mlp_backward(const Mlp& mlp, const Experts& e, std::uint64_t width, Direction direction) {
  Segment segment;
  if (has_dgrad(direction)) add_narrowing(segment, e.routed, model_.hidden);
  segment.append(mlp_backward(mlp, e, width, direction).joined());
  return segment;
}

PartBackward LayerTimer::mlp_backward(std::uint64_t tokens, std::uint32_t kind, Direction direction) {
  const Experts all{tokens, 1, tokens};
  if (!model_.routes(model_.kinds[kind])) return mlp_backward(kMlp, all, dense_ffn(), direction);
  PartBackward part;
  part.body = shared_experts_backward(tokens, direction);
  part.body.append(combine_backward(tokens, direction));
  part.body.append(local_experts_backward(tokens, direction));
  part.body.append(route_backward(tokens, direction));
  return part;
}

Segment LayerTimer::shared_experts_backward(std::uint64_t tokens, Direction direction) {
  return shared_ffn_ > 0 ? whole_mlp_backward(kMlp, {tokens, 1, tokens}, shared_ffn_, direction) : Segment();
}

Segment LayerTimer::shared_experts_second_backward(std::uint64_t tokens, Direction direction) {
  Segment segment;
  if (shared_ffn_ == 0) return segment;
  if (has_dgrad(direction)) add_narrowing(segment, tokens, model_.hidden);
  segment.append(mlp_backward(kMlp, {tokens, 1, tokens}, shared_ffn_, direction).body);
  return segment;
}

Segment LayerTimer::shared_experts_first_backward(std::uint64_t tokens, Direction direction) {
  if (shared_ffn_ == 0) return {};
  PartBackward part = mlp_backward(kMlp, {tokens, 1, tokens}, shared_ffn_, direction);
  part.body = {};
  return part.joined();
}

Segment LayerTimer::combine_backward(std::uint64_t tokens, Direction direction, const RankLoad* load) {
  Segment segment;
  if (!has_dgrad(direction)) return segment;
  add_sum_by_index(segment, tokens);
  add_permutation(segment, "combine_dgrad", tokens, load);
  return segment;
}

Segment LayerTimer::local_experts_backward(std::uint64_t tokens, Direction direction, std::uint32_t ep,
                                           const RankLoad* load) {
  Segment segment;
  const Experts e = experts(tokens, ep, load);
  if (has_dgrad(direction)) add_sort(segment, "unsort_dgrad", e, ep);
  Segment products = whole_mlp_backward(kExpertMlp, e, ffn_, direction);
  launch_each(products, e);
  segment.append(products);
  if (has_dgrad(direction)) add_sort(segment, "sort_dgrad", e, ep);
  return segment;
}

Segment LayerTimer::route_backward(std::uint64_t tokens, Direction direction, const RankLoad* load) {
  Segment segment;
  if (has_dgrad(direction)) {
    add_permutation(segment, "permute_dgrad", tokens, load);
    add_rows_backward(segment, pairs_of(tokens));
  }
  segment.append(router_backward(tokens, direction));
  return segment;
}

Segment LayerTimer::router_backward(std::uint64_t tokens, Direction direction) {
  Segment segment;
  if (has_dgrad(direction)) add_router_operators_backward(segment, tokens);
  segment.append(gemm_dgrad(direction, "router_dgrad", tokens, {model_.experts}, model_.hidden, 1, Operands::wide));
  segment.append(gemm_wgrad(direction, "router_wgrad", tokens, {model_.experts}, model_.hidden, 1, Operands::wide));
  return segment;
}

}  // namespace railyard::transformer
