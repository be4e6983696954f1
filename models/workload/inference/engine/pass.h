// The kernels and collectives of one forward pass of an instance: what the scheduler has composed, planned layer by layer.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "workload/inference/engine/grid.h"
#include "workload/inference/engine/micro_batches.h"
#include "workload/inference/scheduler/scheduled_batch.h"

namespace railyard::workload::inference {

/// A batch with its kernels and collectives.
struct Pass {
  std::uint32_t index = 0;  ///< index of the chunk or step, for names
  static constexpr std::uint32_t kOnly = ~0u;
  std::uint32_t request = kOnly;  ///< for names, if a run has several requests
  std::uint64_t tokens = 0;
  gpu::SharedChain embedding, head;  ///< null if the pass has none
  /// A step of a layer: kernels, or a collective if `kernels` is null.
  struct Step {
    transformer::LayerPart part = transformer::LayerPart::attention;
    gpu::SharedChain kernels;  ///< of every rank
    collective::Operation operation = collective::Operation::all_reduce;
    Bytes bytes = 0;
    transformer::RankGroup group = transformer::RankGroup::tp;  ///< of the collective
    bool begins_layer = false;                                  ///< of a draft: the host launches its layer
    bool beside_next = false;                                   ///< an exchange of a micro-batch: beside the next step
    bool is_exchange() const { return kernels == nullptr && group == transformer::RankGroup::ep; }
  };
  std::vector<std::vector<Step>> layers;  ///< by the model's kinds of layers
  /// By the model's kinds of layers, those of two micro-batches (micro_batches.h).
  std::vector<std::array<std::vector<Step>, 2>> halves;
  transformer::MicroBatchTurns turns = transformer::MicroBatchTurns::none;  ///< of the halves, if there are any
  std::uint32_t whole_layers = 0;         ///< first ones of a divided pass, which are not
  std::vector<std::vector<Step>> drafts;  ///< passes of the last stage that follow (drafter.h)
  Time draft_launch;                      ///< host time for each of their layers
  Time prepare;                           ///< host time before the first kernel
  Time launch;                            ///< host time for each layer; 0: all layers are launched at once
  double layer_kernels = 0;               ///< kernels of a layer, on average over the model; of a micro-batch as many
  bool host_is_async = false;             ///< prepared at once; else when stage
                                          ///< 0 has finished the previous pass

  bool is_divided() const { return turns != transformer::MicroBatchTurns::none; }
  bool is_divided(std::uint32_t layer) const { return is_divided() && layer >= whole_layers; }
};

std::size_t kernels_of(const std::vector<Pass::Step>& steps);

/// Attention replicas meet in every layer with experts, and wait there for the slowest one. So all ranks get the kernels of a
/// replica that has the longest attention and the most tokens of any; each computes its share of the experts for all tokens.
/// @param padded_tokens  of the CUDA graph that contains everything but attention; 0: the batch's own tokens. With replicas:
/// of a replica
/// @param pads_replicas  the CUDA graph has so many tokens in each replica; otherwise those with fewer are not padded
Pass plan_pass(Grid& grid, const ScheduledBatch& batch, const Host& host, std::uint64_t padded_tokens = 0,
               bool pads_replicas = false);

/// Sets the halves of a pass.
void plan_halves(Pass& pass, Grid& grid, const Halves& halves, transformer::MicroBatchTurns turns);

}  // namespace railyard::workload::inference
