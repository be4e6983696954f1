// Buckets of gradients: parameters whose gradients are reduced in one collective over the data-parallel ranks, as in
// Megatron-LM's distributed data parallel and PyTorch's DDP. A bucket has whole layers, in the order in which the
// backward pass produces their gradients, and at least `least_parameters` of a model-parallel rank. With expert
// parallelism, experts have buckets of their own, because fewer ranks hold the same experts. If ranks divide matrices
// (gtp), buckets have the gradients of shards; what they do not divide is in buckets of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transformer/adapters.h"

namespace railyard::workload::training {

struct GradientBucket {
  std::uint64_t parameters = 0;       ///< of one rank
  std::uint64_t matrices = 0;         ///< of them: elements of the matrices of layers, if ranks do not divide matrices
  std::vector<std::uint32_t> layers;  ///< of the model, in the order of the backward pass; none: ends only
  std::uint32_t stage = 0;            ///< virtual stage of the last of these layers and ends
  bool experts = false;               ///< parameters of experts that other ranks hold than all else
  bool whole = false;                 ///< parameters that ranks do not divide although they divide matrices (gtp)
};

/// @param stages  virtual stages of a rank, in the order in which their last backward slots run
/// @param tp, ep  tensor-parallel and expert-parallel ranks
/// @param division  of matrices (gtp)
/// @param least_parameters  of a bucket; 0: one bucket
/// @param adapters  only these are trained; with none, everything is
std::vector<GradientBucket> gradient_buckets(const transformer::ModelShape& model,
                                             const std::vector<std::pair<std::uint32_t, transformer::Stage>>& stages,
                                             std::uint32_t tp, std::uint32_t ep, const transformer::Division& division,
                                             std::uint64_t least_parameters,
                                             const std::optional<transformer::Adapters>& adapters);

}  // namespace railyard::workload::training
