// Measured kernel times of a model's layers, used instead of formulas: the tables of a LLMServingSim profile bundle for
// one degree of tensor parallelism (casys-kaist/LLMServingSim 2.0).
//
// All attention of a pass is one lookup: the prompts as one chunk of their summed tokens and summed context, the decodes
// by their number and mean context. A pass with both kinds is looked up by all four, if the bundle has such rows.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gpu/kernels/attention.h"
#include "transformer/decode_skew.h"
#include "transformer/profile_table.h"

namespace railyard::transformer {

/// The row of a table with the time of a kernel of a layer (or of the head, after the last layer).
struct ProfileLayer {
  const char* kernel;
  const char* layer;
  bool is_head = false, per_sequence = false;
  bool of_dense_mlp = false;  ///< only dense models: a mixture of experts has a separate table
};
constexpr ProfileLayer kProfileLayers[] = {
    {"embedding", "embedding"},
    {"rmsnorm", "layernorm"},
    {"qkv", "qkv_proj"},
    {"rotary", "rotary_emb"},
    {"o_proj", "o_proj"},
    {"gate_up", "gate_up_proj", false, false, true},
    {"activation", "act_fn", false, false, true},
    {"down", "down_proj", false, false, true},
    {"rmsnorm", "final_layernorm", true},
    {"lm_head", "lm_head", true, true},
    {"sampling", "sampler", true, true},
};

struct LayerProfile {
  using Sequences = std::vector<gpu::AttentionSequence>;

  std::string path;                                     ///< name of the bundle's folder
  std::string hardware;                                 ///< from meta.yaml, or ""
  std::map<std::string, ProfileTable<1>> dense;         ///< by layer; over tokens
  std::map<std::string, ProfileTable<1>> per_sequence;  ///< by layer; over sequences
  ProfileTable<2> prefill;                              ///< over tokens and the tokens before them
  ProfileTable<2> decode;                               ///< over sequences and their context
  ProfileTable<4> mixed;                                ///< over all four; may be empty
  ProfileTable<2> experts;                              ///< over active experts and tokens; empty for a dense model
  DecodeSkew skew;

  /// Attention of these sequences in one kernel. @pre one list is empty, or there are mixed times
  double attention_seconds(const Sequences& prefills, const Sequences& decodes, ProfileUse& use) const;
};

}  // namespace railyard::transformer
