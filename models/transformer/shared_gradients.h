// Parameters of which tensor-parallel ranks hold copies and compute parts of the gradients. Megatron-LM adds the parts once a
// step (finalize_model_grads.py, _allreduce_layernorm_grads). No SystemC.
#pragma once

#include <cstdint>

#include "transformer/parameters.h"

namespace railyard::transformer {

/// Of a stage, on each rank. With sequence_parallel: norms, routers, the matrices of latent attention that are not divided, and biases of output projections and of the MLP's
/// last matrix, which see 1 / tp of the tokens; otherwise norms of queries and keys, which see 1 / tp of the heads.
std::uint64_t shared_gradients(const ModelShape& model, const Stage& stage, bool sequence_parallel);

/// Elements on each rank of the matrix that first and last stage of a model with tied embeddings both hold.
std::uint64_t tied_gradients(const ModelShape& model, std::uint32_t tp);

}  // namespace railyard::transformer
