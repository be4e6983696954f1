#include "transformer/layer_kernels.h"

#include <algorithm>
#include <cmath>

#include "gpu/datasheet.h"
#include "gpu/kernels/attention_mixed.h"
#include "transformer/parameters.h"

namespace railyard::transformer {
namespace {

constexpr double kMinimumActivationBytes = 2;  // activations between kernels have 16 bits, even in narrower models

}  // namespace

void Segment::add(const NamedKernel& kernel) {
  kernels.push_back(kernel);
  seconds += kernel.time.seconds;
  flops += kernel.time.flops;
  bytes += kernel.time.bytes;
}

void Segment::append(const Segment& next) {
  for (const NamedKernel& kernel : next.kernels) add(kernel);
}

std::uint32_t Segment::launches() const {
  std::uint32_t sum = 0;
  for (const NamedKernel& kernel : kernels) sum += kernel.launches * kernel.of_call;
  return sum;
}

std::uint32_t Segment::calls() const {
  std::uint32_t sum = 0;
  for (const NamedKernel& kernel : kernels) sum += kernel.launches;
  return sum;
}

bool multiplies_narrow(const WeightFormat& format, const gpu::GpuDatasheet& gpu) {
  return !format.dequantised && gpu.sm.flop_per_clock[static_cast<std::size_t>(format.dtype)] > 0;
}

std::uint64_t LayerPass::tokens() const {
  std::uint64_t sum = 0;
  for (const auto* sequences : {&prefills, &decodes})
    for (const gpu::AttentionSequence& sequence : *sequences) sum += sequence.tokens;
  return sum;
}

std::string name_of(LayerPart part, const char* kernel) {
  return std::string(kLayerPartNames[static_cast<std::size_t>(part)]) + '.' + kernel;
}

gpu::SharedChain Segment::chain(LayerPart part) const {
  if (kernels.empty()) return nullptr;
  const auto chain = std::make_shared<gpu::KernelChain>();
  for (const NamedKernel& kernel : kernels) chain->add(kernel.time, name_of(part, kernel.name));
  return chain;
}

LayerTimer::LayerTimer(const ModelShape& model, std::uint32_t tp, gpu::KernelTimer& timer,
                       std::shared_ptr<const LayerProfile> profile)
    : model_(model),
      timer_(timer),
      heads_{model.heads / tp, rank_kv_heads(model, tp), model.head_dim, model.kv_dtype},
      ffn_(ceil_div(model.ffn, tp)),
      dense_ffn_(ceil_div(model.dense_ffn, tp)),
      shared_ffn_(ceil_div(model.shared_ffn, tp)),
      vocab_(ceil_div(model.vocab, tp)),
      element_bytes_(std::max(bytes_of(model.dtype), kMinimumActivationBytes)),
      profile_(std::move(profile)) {}

void LayerTimer::set_libraries(gpu::AttentionLibrary attention, const std::vector<gpu::BlockScaledProducts>& products) {
  heads_.library = attention;
  const auto fits = [this](const gpu::BlockScaledProducts& p) {
    return std::find(p.architectures.begin(), p.architectures.end(), timer_.gpu().architecture) !=
           p.architectures.end();
  };
  const auto found = std::find_if(products.begin(), products.end(), fits);
  if (found != products.end()) block_scaled_ = *found;
}

void LayerTimer::set_expert_ranks(const ExpertRanks& ranks) {
  expert_ranks_ = ranks;
  if (ranks.ranks > 1) ffn_ = model_.ffn;
}

bool LayerTimer::runs_block_scaled(const gpu::GemmShape& shape) const {
  const gpu::BlockScaledProducts& b = block_scaled_;
  if (shape.n % b.columns != 0 || shape.k % b.depth != 0) return false;
  const std::uint64_t tokens = shape.m * shape.groups / std::max<std::uint32_t>(1, model_.experts_per_token);
  return shape.groups == 1 || (b.experts_from_tokens > 0 && tokens >= b.experts_from_tokens);
}

void LayerTimer::add_gemm(Segment& segment, const KernelId& id, std::uint64_t m, std::uint64_t n, std::uint64_t k,
                          const std::optional<WeightFormat>& format, std::uint32_t groups) {
  gpu::GemmShape shape{m, n, k, model_.dtype, groups};
  if (format) {
    shape.weight_bytes = format->bytes;
    if (multiplies_narrow(*format, timer_.gpu())) {
      shape.dtype = format->dtype;
      if (format->dynamic) add_quantize(segment, m * groups, k, format->dtype);
      if (format->blocks_of_128 && runs_block_scaled(shape)) shape.gemm_library = block_scaled_.library;
    }
  }
  shape.steady = training_.has_value();
  segment.add(id, timer_.gemm(shape));
}

LayerTimer::Widths LayerTimer::qkv_widths() const {
  if (form().fused.projections) return {qkv_width()};
  const std::uint64_t keys = std::uint64_t(heads_.kv) * heads_.dim;
  return {std::uint64_t(heads_.query) * heads_.dim, keys, keys};
}

LayerTimer::Widths LayerTimer::gate_up_widths(std::uint64_t width) const {
  return form().fused.projections ? Widths{projections() * width} : Widths(projections(), width);
}

void LayerTimer::add_quantize(Segment& segment, std::uint64_t rows, std::uint64_t width, DataType dtype) {
  gpu::KernelSpec spec;
  spec.op = gpu::KernelOp::quantize;
  spec.dtype = dtype;
  spec.tokens = rows;
  spec.width = width;
  segment.add("quantize", gpu::kernel_time(timer_.gpu(), spec));
}

void LayerTimer::add_elementwise(Segment& segment, const KernelId& id, double elements) {
  segment.add(id, timer_.memory_bound(elements * element_bytes_));
}

void LayerTimer::add_rows(Segment& segment, const KernelId& id, gpu::KernelOp op, std::uint64_t tokens,
                          std::uint64_t width, std::optional<DataType> result) {
  gpu::KernelSpec spec;
  spec.op = op;
  spec.dtype = model_.dtype;
  spec.tokens = tokens;
  spec.width = width;
  spec.residual = !form().dropout && form().fused.residual;
  spec.gated = model_.gated_mlp;
  spec.result_dtype = result;
  segment.add(id, gpu::kernel_time(timer_.gpu(), spec));
}

std::uint32_t LayerTimer::norms(LayerPart part) const {
  switch (part) {
    case LayerPart::attention: return (model_.norms + 1) / 2;
    case LayerPart::mlp: return model_.norms / 2;
    case LayerPart::embedding: return model_.embedding_norm ? 1 : 0;
    case LayerPart::head: return 1;
  }
  return 0;
}

void LayerTimer::add_norm(Segment& segment, std::uint64_t tokens, std::optional<DataType> result) {
  const double elements = static_cast<double>(tokens) * model_.hidden;
  if (!form().fused.residual && !form().dropout) add_residual_operator(segment, elements);
  if (!form().fused.norm) return add_norm_operators(segment, elements);
  add_rows(segment, {"rmsnorm", KernelRole::norm}, gpu::KernelOp::norm, tokens, model_.hidden, result);
}

void LayerTimer::add_qk_norm(Segment& segment, std::uint64_t tokens) {
  if (model_.qk_norm == 0) return;
  if (!form().fused.norm)
    return add_norm_operators(segment, static_cast<double>(tokens) * (heads_.query + heads_.kv) * heads_.dim);
  add_width_norm(segment, "qk_norm", tokens * (heads_.query + heads_.kv), heads_.dim);
}

void LayerTimer::add_width_norm(Segment& segment, const KernelId& id, std::uint64_t rows, std::uint64_t width) {
  gpu::KernelSpec spec;
  spec.op = gpu::KernelOp::norm;
  spec.dtype = model_.dtype;
  spec.tokens = rows;
  spec.width = width;
  segment.add(id, gpu::kernel_time(timer_.gpu(), spec));
}

Segment LayerTimer::norm(LayerPart part, std::uint64_t tokens, bool narrow) {
  Segment segment;
  for (std::uint32_t i = 1; i <= norms(part); ++i)
    add_norm(segment, tokens, narrow && i == norms(part) ? std::optional(form().narrow->dtype) : std::nullopt);
  return measured(segment, static_cast<double>(tokens), part == LayerPart::head);
}

Segment LayerTimer::dropout(LayerPart part, std::uint64_t tokens) {
  Segment segment;
  if (!form().dropout) return segment;
  // Embeddings have no residual to read.
  const bool has_residual = part != LayerPart::embedding, reads_residual = has_residual && form().fused.dropout;
  const double numbers = reads_residual ? 3 : 2, elements = static_cast<double>(tokens) * model_.hidden;
  segment.add("dropout", timer_.memory_bound(elements * (numbers * element_bytes_ + kMaskBytes)));
  if (has_residual && !reads_residual) add_residual_operator(segment, elements);
  return segment;
}

Segment LayerTimer::measured(const Segment& formula, double x, bool is_head) {
  if (!profile_) return formula;
  Segment result;
  for (const NamedKernel& kernel : formula.kernels) {
    const auto layer = std::find_if(std::begin(kProfileLayers), std::end(kProfileLayers), [&](const ProfileLayer& l) {
      if (l.is_head != is_head) return false;
      return l.linear ? kernel.use == LinearUse{*l.linear, Product::fprop} : !kernel.use && kernel.role == l.role;
    });
    if (layer == std::end(kProfileLayers)) {
      result.add(kernel);  // attention: its tables have more than one quantity
      continue;
    }
    const auto& table = layer->per_sequence ? profile_->per_sequence : profile_->dense;
    const std::string what = std::string(layer->layer) + (layer->per_sequence ? " sequences" : " tokens");
    result.add(kernel, kernel.time.taking(table.at(layer->layer).at({x}, {what}, profile_use_)));
  }
  return result;
}

gpu::AttentionHeads LayerTimer::attention_heads(const LayerPass& pass) const {
  gpu::AttentionHeads heads = heads_;
  heads.query /= pass.head_ranks;
  heads.kv /= pass.head_ranks;
  heads.window = model_.kinds[pass.kind].window;
  return heads;
}

gpu::KernelTime LayerTimer::attention(const LayerPass& pass) {
  const gpu::GpuDatasheet& gpu = timer_.gpu();
  const gpu::AttentionHeads heads = attention_heads(pass);
  if (!pass.causal) return gpu::prefill_attention_time(gpu, heads, pass.prefills, false);
  gpu::MixedAttention parts = gpu::mixed_attention(gpu, heads, pass.prefills, pass.decodes);
  if (!profile_) return parts.time(gpu);
  if (pass.prefills.empty() || pass.decodes.empty() || !profile_->mixed.empty())
    return parts.time(gpu).taking(profile_->attention_seconds(pass.prefills, pass.decodes, profile_use_));

  // The bundle has each kind only alone. A block of query rows takes as long as the shortest measured chunk.
  std::uint64_t context = 0;
  for (const gpu::AttentionSequence& s : pass.decodes) context += s.kv_start;
  const std::vector<gpu::AttentionSequence> row{{1, context / pass.decodes.size()}};
  const double formula = gpu::mixed_attention(gpu, heads, pass.prefills, row).rows.seconds;
  ProfileUse meant;  // one row is below the shortest chunk on purpose
  const double row_ratio = profile_->attention_seconds(row, {}, meant) / formula;
  parts.rows = parts.rows.taking(parts.rows.seconds * row_ratio);
  parts.prefill = parts.prefill.taking(profile_->attention_seconds(pass.prefills, {}, profile_use_));
  parts.decode = parts.decode.taking(profile_->attention_seconds({}, pass.decodes, profile_use_));
  return parts.time(gpu);
}

Segment LayerTimer::attention_core(const LayerPass& pass) {
  if (model_.latent) return latent_core(pass);
  if (form().attention == AttentionForm::unfused) return unfused_attention(pass);
  Segment segment;
  segment.add({"attention", KernelRole::attention}, attention(pass));
  return segment;
}

Segment LayerTimer::merge_attention(const LayerPass& pass) {
  Segment segment;
  // Reads 16-bit numbers, and reads and writes their sum in fp32 (TransformerEngine, flash_attn_fwd_out_correction).
  segment.add("attention_merge", timer_.memory_bound(static_cast<double>(pass.tokens()) * heads_.query * heads_.dim *
                                                     (element_bytes_ + 2 * kMergedBytes)));
  return segment;
}

Segment LayerTimer::attention_body(const LayerPass& pass) {
  Segment segment = attention_input(pass);
  segment.append(attention_core(pass));
  segment.append(attention_output(pass));
  return segment;
}

Segment LayerTimer::attention_output(const LayerPass& pass) {
  Segment segment;
  const std::uint64_t tokens = pass.dense_tokens();
  const std::uint64_t attended = std::uint64_t(heads_.query) * model_.value_dim();
  add_narrowing(segment, tokens, attended);
  add_projection(segment, Linear::proj, tokens, {model_.hidden}, attended, model_.kinds[pass.kind].attention);
  return measured(segment, static_cast<double>(tokens));
}

Segment LayerTimer::attention_down(std::uint64_t tokens, std::uint32_t kind) {
  return model_.latent ? latent_down(tokens, kind) : Segment();
}

Segment LayerTimer::attention_input(const LayerPass& pass) {
  if (model_.latent) return latent_up(pass);
  Segment segment;
  const std::uint64_t tokens = pass.dense_tokens();
  const double t = static_cast<double>(tokens);
  const LayerShape& layer = model_.kinds[pass.kind];
  add_projection(segment, Linear::qkv, tokens, qkv_widths(), model_.hidden, layer.attention);
  add_qk_norm(segment, tokens);
  if (model_.rotary && !form().fused.rotary) {
    add_rotary_operators(segment, tokens);
  } else if (model_.rotary || !training_) {
    gpu::KernelSpec rotary;
    rotary.op = gpu::KernelOp::rotary;
    rotary.dtype = model_.dtype;
    rotary.tokens = tokens;
    rotary.heads = heads_;
    rotary.kv_cache = true;
    if (!model_.rotary) rotary.heads.query = 0;
    segment.add(model_.rotary ? KernelId("rotary", KernelRole::rotary) : KernelId("kv_write"),
                gpu::kernel_time(timer_.gpu(), rotary));
  }
  return measured(segment, t);
}

void LayerTimer::add_mlp(Segment& segment, std::uint64_t tokens, std::uint64_t width,
                         const std::optional<WeightFormat>& format) {
  add_mlp_first(segment, tokens, width, format);
  add_mlp_second(segment, tokens, width, format);
}

void LayerTimer::add_mlp_first(Segment& segment, std::uint64_t tokens, std::uint64_t width,
                               const std::optional<WeightFormat>& format) {
  add_projection(segment, kMlp.first, tokens, gate_up_widths(width), model_.hidden, format);
  add_activation(segment, tokens, width);
}

void LayerTimer::add_mlp_second(Segment& segment, std::uint64_t tokens, std::uint64_t width,
                                const std::optional<WeightFormat>& format) {
  add_narrowing(segment, tokens, width);
  add_projection(segment, kMlp.second, tokens, {model_.hidden}, width, format);
}

void LayerTimer::add_activation(Segment& segment, std::uint64_t tokens, std::uint64_t width) {
  has_gate_operators()
      ? add_gate_operators(segment, static_cast<double>(tokens) * static_cast<double>(width))
      : add_rows(segment, {"activation", KernelRole::activation}, gpu::KernelOp::activation, tokens, width);
}

}  // namespace railyard::transformer
