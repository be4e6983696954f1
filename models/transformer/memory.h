// What one rank keeps in GPU memory, and the answer to a model that does not fit: by how much, and what would.
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
/// These are input, residual, normed input and communication buffer, and then the larger of two: the attention's
/// projections and output, or the MLP's intermediate (both halves of a gated MLP and their product). A mixture of
/// experts keeps k routed copies of the MLP's part with their h of input and output, and its shared experts' part. The
/// last stage adds `logit_rows` x V / tp logits in fp32.
Bytes activation_bytes(const ModelShape& model, const Stage& stage, std::uint32_t tp, std::uint64_t tokens,
                       std::uint64_t logit_rows);

/// What a rank has to hold at once.
struct MemoryLoad {
  std::uint64_t kv_tokens = 0;    ///< of all sequences whose KV is resident together
  std::uint64_t pass_tokens = 0;  ///< of one forward pass: the chunk, or the decode batch
  std::uint64_t logit_rows = 1;
  std::uint64_t sequences = 1;   ///< that share kv_tokens evenly
  std::uint64_t new_tokens = 1;  ///< of a sequence in one pass, beside which a window's keys are kept
};

RankMemory rank_memory(const ModelShape& model, const Stage& stage, std::uint32_t tp, const MemoryLoad& load);

struct MemoryCheck {
  bool fits = true;
  std::uint32_t stage = 0;  ///< the stage that needs most
  RankMemory need;          ///< of a rank of that stage
  Bytes limit = 0;          ///< capacity x limit ratio
  Bytes exceeds_by = 0;     ///< 0 when it fits
  /// KV tokens that fit with this mapping; 0: not even the weights do. 2^48 where windows bound the KV of any sequence.
  std::uint64_t most_kv_tokens = 0;
  /// Smallest tp x pp that fits the load (ties: tp nearest to the asked one); 0: none.
  std::uint32_t fitting_tp = 0, fitting_pp = 0;
  std::string sentence;  ///< ready for an error message, without a full stop
};

/// Checks every stage of a mapping against `capacity_bytes` x `limit_ratio`.
/// @param stage_layers layers of each stage; their number is pp
MemoryCheck check_memory(const ModelShape& model, const std::vector<std::uint32_t>& stage_layers, std::uint32_t tp,
                         const MemoryLoad& load, double capacity_bytes, double limit_ratio);

}  // namespace railyard::transformer
