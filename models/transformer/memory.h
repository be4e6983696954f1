// The memory that one rank needs on its GPU. If a model does not fit: by how much, and which mapping fits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "transformer/model_shape.h"
#include "transformer/parameters.h"

namespace railyard::transformer {

struct RankMemory {
  Bytes weights = 0;
  Bytes kv = 0;
  Bytes activations = 0;
  Bytes total() const { return weights + kv + activations; }
};

/// Working buffers of a rank for a pass of `tokens` tokens, reused from layer to layer:
///   tokens x (4 h + max((a + 2g) d + a d, 3 f) / tp) elements
/// (latent attention: compressed vectors, and query, key, value and output of this rank's heads)
/// These are input, residual, normed input and communication buffer, plus the larger of two: the projections and output
/// of attention, or the intermediate of the MLP (both halves of a gated MLP and their product). A mixture of experts
/// keeps k routed copies of the MLP's part, each with h of input and output, and the part of its shared experts. The
/// last stage adds `logit_rows` x V / tp logits in fp32.
Bytes activation_bytes(const ModelShape& model, const Stage& stage, std::uint32_t tp, std::uint64_t tokens,
                       std::uint64_t logit_rows);

/// What a rank must hold at the same time.
struct MemoryLoad {
  std::uint64_t kv_tokens = 0;    ///< tokens of all sequences with resident KV
  std::uint64_t pass_tokens = 0;  ///< tokens of one forward pass: the chunk, or the decode batch
  std::uint64_t logit_rows = 1;
  std::uint64_t sequences = 1;   ///< number of sequences, which share kv_tokens evenly
  std::uint64_t new_tokens = 1;  ///< tokens of a sequence in one pass; a window's keys are kept in addition
};

RankMemory rank_memory(const ModelShape& model, const Stage& stage, std::uint32_t tp, const MemoryLoad& load);

struct MemoryCheck {
  bool fits = true;
  std::uint32_t stage = 0;  ///< the stage that needs most memory
  RankMemory need;          ///< memory of a rank of this stage
  Bytes limit = 0;          ///< capacity x limit ratio
  Bytes exceeds_by = 0;     ///< 0 if the load fits
  /// KV tokens that fit with this mapping; 0: even the weights do not fit. 2^48 if windows bound the KV of every
  /// sequence.
  std::uint64_t most_kv_tokens = 0;
  /// Smallest tp x pp that fits the load (ties: tp nearest to the requested one); 0: none fits.
  std::uint32_t fitting_tp = 0, fitting_pp = 0;
  std::string sentence;  ///< ready for an error message, without a full stop
};

/// Checks every stage of a mapping against `capacity_bytes` x `limit_ratio`.
/// @param stage_layers  number of layers of each stage; the vector's size is pp
MemoryCheck check_memory(const ModelShape& model, const std::vector<std::uint32_t>& stage_layers, std::uint32_t tp,
                         const MemoryLoad& load, double capacity_bytes, double limit_ratio);

}  // namespace railyard::transformer
