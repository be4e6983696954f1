// What a pipeline rank does in the slots of its virtual stages: the steps of its layers, of the embedding and of the
// head, on each rank of a tensor-parallel group. Times of kernels come from the layer's plan
// (transformer/layer_plan.h); all slots of one virtual stage and kind are equal. If tokens are not routed evenly, each
// expert-parallel rank has plans of its own: the same steps, with kernels and bytes that differ.
#pragma once

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "transformer/layer_plan.h"
#include "transformer/parameters.h"
#include "workload/training/plan/coupled_steps.h"
#include "workload/training/plan/training_spec.h"
#include "workload/training/schedule/schedule.h"

namespace railyard::workload::training {

/// Kernels of one rank, or a collective of one of its groups.
struct SlotStep {
  static constexpr std::uint32_t kEnds = ~0u;

  gpu::SharedChain kernels;  ///< null: a collective, or a collective and its product
  collective::Operation operation = collective::Operation::all_reduce;
  Bytes bytes = 0;              ///< of a collective, as nccl-tests counts
  std::uint32_t layer = kEnds;  ///< layer of the model; kEnds: embedding or head
  transformer::LayerPart part = transformer::LayerPart::attention;
  bool beside_next = false;    ///< a collective that runs beside the next step; the step after that waits for both
  std::uint32_t launches = 0;  ///< kernels that the host launches one by one
  transformer::RankGroup group = transformer::RankGroup::tp;  ///< of a collective
  std::optional<transformer::LinearUse> use;                  ///< gtp: each product with a matrix is a step of its own
  std::shared_ptr<const linear::ProductPlan> coupled;         ///< the collective together with the product of `use`
  std::uint32_t comm_sms = 0;      ///< of a collective beside kernels; 0: the library's choice
  collective::Shares shares = {};  ///< of an all-to-all
  std::uint32_t calls = 0;         ///< of the framework in a layer with experts, beside launches
  transformer::HostWait host_waits = transformer::HostWait::none;
  collective::TokenExchange tokens = {};  ///< of an all-to-all
};

struct SlotPlan {
  std::vector<SlotStep> steps;
  double kernels_s = 0;  ///< kernels of a rank, alone on its GPU
  double flops = 0;      ///< of a rank
};

class SlotPlans {
 public:
  /// @param timers  by group of the machine  @pre they have the model and tp of the spec
  SlotPlans(const transformer::ModelShape& model, const TrainingSpec& spec,
            std::vector<transformer::LayerTimer>& timers);
  /// @param plans  by virtual stage and SlotKind
  SlotPlans(std::vector<transformer::Stage> stages, std::vector<std::array<SlotPlan, 4>> plans)
      : stages_(std::move(stages)), plans_{std::move(plans)} {}

  /// @param place  expert-parallel rank
  const SlotPlan& plan(SlotKind kind, std::uint32_t stage, std::uint32_t place = 0) const {
    return plans_[place < places() ? place : 0][stage][static_cast<std::size_t>(kind)];
  }
  /// Of the expert-parallel rank whose kernels take longest.
  const SlotPlan& slowest(SlotKind kind, std::uint32_t stage) const;
  /// Expert-parallel ranks whose plans differ; 1: all have the same.
  std::uint32_t places() const { return static_cast<std::uint32_t>(plans_.size()); }
  const transformer::Stage& stage(std::uint32_t stage) const { return stages_[stage]; }
  std::uint32_t stages() const { return static_cast<std::uint32_t>(stages_.size()); }

 private:
  using StagePlans = std::vector<std::array<SlotPlan, 4>>;  // by virtual stage and SlotKind

  std::vector<transformer::Stage> stages_;  ///< by virtual stage
  std::vector<StagePlans> plans_;           ///< by expert-parallel rank
};

}  // namespace railyard::workload::training
