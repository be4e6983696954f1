// The steps of a layer with its products coupled to their tensor-parallel collectives, as tp_overlap says.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transformer/layer_plan.h"
#include "workload/training/plan/training_spec.h"

namespace railyard::workload::training {

/// A step of the layer's plan. With `coupled`, it is a collective and the product before or after it.
struct CoupledStep {
  transformer::LayerStep layer;
  std::shared_ptr<const linear::ProductPlan> coupled;
  std::optional<transformer::LinearUse> use;  ///< of the coupled product
  double flops = 0;                           ///< of the coupled product
  std::uint32_t comm_sms = 0;                 ///< of a bulk collective; 0: the library's choice

  explicit CoupledStep(transformer::LayerStep step) : layer(std::move(step)) {}
};

/// An all-gather and the product that begins the kernels after it, or a reduce-scatter and the product that ends the
/// kernels before it, become one step if tp_overlap has a method for the product. Bulk collectives get their SMs, and
/// the products beside them leave these free.
/// If activations are [batch, sequence, hidden], a product overlapped with its gather leaves tokens in the order of ranks.
/// Gathered gradients, and gathered inputs that are kept, are then copied for the weight's gradient, whose two operands need
/// one order (PyTorch, torch/_inductor/fx_passes/micro_pipeline_tp.py: return_A, a view that the wgrad product reshapes).
/// @param kind  of the layer
/// @param keeps_input  gathered inputs are kept for the backward pass
/// @param timer  of the model on the tensor-parallel rank
std::vector<CoupledStep> coupled_steps(const std::vector<transformer::LayerStep>& steps, std::uint32_t kind,
                                       bool keeps_input, const TrainingSpec& spec, transformer::LayerTimer& timer);

}  // namespace railyard::workload::training
