// How the ends of an attention or MLP part give its products their narrow operands (narrow_products.h): the input of the
// first projection comes from the norm, and backward the gradient of the last projection's result from the residual
// stream. With sequence parallelism, each rank narrows its own tokens and the ranks gather narrow numbers; ranks agree
// on the scale of a tensor first (TransformerEngine, linear.py, amax reduction of Float8CurrentScalingQuantizer).
#pragma once

#include "transformer/step_list.h"

namespace railyard::transformer {

/// Whether the part's first projection reads the output of the norm, and its last one writes the residual stream: not
/// in a mixture of experts.
bool has_narrow_ends(const ModelShape& model, LayerPart part, std::uint32_t kind);

/// Norm and gather before the part. Without a timer only collectives, less those of scales.
void add_part_input(StepList& steps, LayerTimer* timer, const ModelShape& model, LayerPart part, std::uint32_t kind);
/// Backward: gather of the gradient of the part's output.
void add_part_gradient(StepList& steps, LayerTimer& timer, const ModelShape& model, LayerPart part, std::uint32_t kind);
/// Puts a transposed copy of the part's input, if there is none yet, before its wgrad product.
void add_input_transpose(PartBackward& kernels, const StepList& steps, LayerTimer& timer, const ModelShape& model,
                         LayerPart part, std::uint32_t kind);

}  // namespace railyard::transformer
