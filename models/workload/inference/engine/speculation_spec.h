// Speculative decoding of an instance: who proposes drafts, and how an engine runs that. Plain data; no SystemC.
//
//   ngram   drafts follow an earlier place in the request's own tokens that equals its end. The host finds it, so it needs the
//           tokens of a batch before it prepares the next one
//   eagle   one dense layer over embedding and hidden state of the model, with the model's head (Li et al., arXiv 2401.15077)
//   mtp     one layer of the model over the same (DeepSeek-AI, arXiv 2412.19437, section 2.2)
//   draft   a smaller model
//
// Which drafts are right is not computed but drawn (scheduler/acceptance.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "transformer/model_shape.h"

namespace railyard::workload::inference {

enum class DraftMethod : std::uint8_t { ngram, eagle, mtp, draft };
inline constexpr std::array<const char*, 4> kDraftMethodNames{"ngram", "eagle", "mtp", "draft"};

/// What engines do with blocks of drafts that are wrong. The values are in platforms/datasheets/engines, like all of
/// SpeculationRules.
enum class RejectedBlocks : std::uint8_t { keep, free };
inline constexpr std::array<const char*, 2> kRejectedBlocksNames{"keep", "free"};

struct SpeculationRules {
  std::vector<DraftMethod> methods;  ///< none: the engine has no speculative decoding, or none that is modelled
  RejectedBlocks rejected = RejectedBlocks::keep;
  bool draft_graphs =
      false;  ///< draft passes are CUDA graphs as a whole; else the host launches attention in their layers
  double ngram_sequence_us = 0;  ///< of the host: to find the drafts of a sequence
};

struct Speculation {
  DraftMethod method = DraftMethod::ngram;
  /// What draft passes compute: with eagle and mtp one layer, and the model's embedding and head. No layers with ngram.
  transformer::ModelShape model;
  std::uint32_t tp = 1;       ///< ranks that divide it: all of the model's, or each has all of it
  bool draft_graphs = false;  ///< as in SpeculationRules
  /// A product joins the embedding with the hidden state of the pass before: eagle, mtp.
  bool joins_hidden_state = false;
  bool has_own_head = false;  ///< eagle: over a part of the vocabulary

  bool has_model() const { return model.layers > 0; }
};

/// Memory of drafts on a rank of the last stage.
struct DraftMemory {
  Bytes weights = 0;  ///< beside those of the model, whose embedding and head eagle and mtp share
  Bytes kv_per_token = 0;
};
/// @param replicas  of attention: a layer of mtp deals its experts to all of them
DraftMemory draft_memory(const Speculation& speculation, std::uint32_t replicas);

/// The layer of EAGLE for a model: dense, as in published drafts, in the model's data type, as wide as its dense layers, or as
/// the experts of a token together.
transformer::ModelShape eagle_model(const transformer::ModelShape& model);
/// A layer of the model's most common kind.
transformer::ModelShape mtp_model(const transformer::ModelShape& model);

/// Whether a request computes the last block again that it finds in the prefix index: the drafts' layer needs the hidden state
/// of its last token (vLLM V1, single_type_kv_cache_manager.py: use_eagle).
constexpr bool drops_last_hit(DraftMethod method) { return method == DraftMethod::eagle || method == DraftMethod::mtp; }
/// Whether drafts have KV of their own, so a request takes blocks for them before they are verified (v1/core/sched/scheduler.py,
/// num_lookahead_tokens).
constexpr bool has_draft_kv(DraftMethod method) { return method != DraftMethod::ngram; }

}  // namespace railyard::workload::inference
