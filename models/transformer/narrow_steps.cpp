#include "transformer/narrow_steps.h"

namespace railyard::transformer {

namespace {

constexpr Bytes kScaleBytes = 4;  // fp32

void add_narrow(StepList& steps, LayerTimer& timer, LayerPart part, std::uint64_t tokens, std::uint32_t copies) {
  if (timer.form().narrow->finds_amax()) {
    steps.add(part, timer.hidden_amax(tokens));
    if (steps.sequence_parallel()) steps.add(part, collective::Operation::all_reduce, kScaleBytes);
  }
  steps.add(part, timer.cast_hidden(tokens, copies));
}

/// Attention and MLP that share a norm share its narrow output.
bool has_norm(const ModelShape& model, LayerPart part) { return part == LayerPart::attention || model.norms > 1; }

/// The kernel that narrows the output of the norm leaves the transposed copy to the backward pass.
bool transposes_input_later(const NarrowProducts& narrow, const StepList& steps) {
  return narrow.transposes() && (narrow.norm_narrows() || steps.sequence_parallel());
}

}  // namespace

bool has_narrow_ends(const ModelShape& model, LayerPart part, std::uint32_t kind) {
  return part == LayerPart::attention || (part == LayerPart::mlp && !model.routes(model.kinds[kind]));
}

void add_part_input(StepList& steps, LayerTimer* timer, const ModelShape& model, LayerPart part, std::uint32_t kind) {
  const bool narrow_ends = has_narrow_ends(model, part, kind);
  const bool is_latent = part == LayerPart::attention && model.latent;  // the input is read before it is gathered
  std::optional<NarrowProducts> narrow;
  if (timer != nullptr && narrow_ends) narrow = timer->form().narrow;
  if (timer != nullptr) steps.add(part, timer->norm(part, steps.divided_tokens(), narrow && narrow->norm_narrows()));
  const bool casts = narrow && !narrow->norm_narrows() && has_norm(model, part);
  const auto cast = [&](std::uint64_t tokens) {
    add_narrow(steps, *timer, part, tokens, transposes_input_later(*narrow, steps) ? 1 : narrow->copies());
  };
  if (casts && (narrow->gathers_narrow() || is_latent)) cast(steps.divided_tokens());
  if (is_latent) {
    if (timer != nullptr) steps.add(part, timer->attention_down(steps.divided_tokens(), kind));
    steps.gather_input(part);
    return;
  }
  narrow_ends ? steps.gather_narrow(part) : steps.gather(part);
  if (casts && !narrow->gathers_narrow()) cast(steps.tokens());
}

void add_part_gradient(StepList& steps, LayerTimer& timer, const ModelShape& model, LayerPart part,
                       std::uint32_t kind) {
  const std::optional<NarrowProducts> narrow = timer.form().narrow;
  if (!narrow || !has_narrow_ends(model, part, kind)) return steps.gather(part);
  const bool transposes_later = narrow->transposes() && steps.sequence_parallel();
  const std::uint32_t copies = transposes_later ? 1 : narrow->copies();
  if (narrow->gathers_narrow()) add_narrow(steps, timer, part, steps.divided_tokens(), copies);
  steps.gather_narrow(part, copies);
  if (!narrow->gathers_narrow()) add_narrow(steps, timer, part, steps.tokens(), copies);
  if (transposes_later) steps.add(part, timer.transpose_hidden(steps.tokens()));
}

void add_input_transpose(PartBackward& kernels, const StepList& steps, LayerTimer& timer, const ModelShape& model,
                         LayerPart part, std::uint32_t kind) {
  const std::optional<NarrowProducts> narrow = timer.form().narrow;
  if (!narrow || kernels.input_wgrad.kernels.empty() || !has_narrow_ends(model, part, kind)) return;
  if (!transposes_input_later(*narrow, steps) || !has_norm(model, part)) return;
  // With latent attention, it is the input of products that see a rank's own tokens.
  const bool is_latent = part == LayerPart::attention && model.latent;
  Segment wgrad = timer.transpose_hidden(is_latent ? steps.divided_tokens() : steps.tokens());
  wgrad.append(kernels.input_wgrad);
  kernels.input_wgrad = std::move(wgrad);
}

}  // namespace railyard::transformer
