// Measured kernel times of a model's layers, used instead of formulas: the tables of a LLMServingSim profile bundle for
// one degree of tensor parallelism (casys-kaist/LLMServingSim 2.0).
//
// All attention of a pass is one lookup: the prompts as one chunk of their summed tokens and summed context, the decodes
// by their number and mean context. A pass with both kinds is looked up by all four, if the bundle has such rows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/kernels/attention.h"
#include "transformer/decode_skew.h"
#include "transformer/linears.h"
#include "transformer/profile_table.h"

namespace railyard::transformer {

/// What a kernel does that is no product with a matrix of the model.
enum class KernelRole : std::uint8_t {
  other,
  norm,
  rotary,
  attention,
  activation,
  sampling,
  narrowing,    ///< narrows an operand that is no weight, or finds its scale
  weight_cast,  ///< narrows the weights of a product, or finds their scales
  transpose,    ///< of narrow operands
  rearrange,    ///< copies tokens from the order of a sequence-parallel collective to that of activations, or back
  input_gradient_sum,  ///< sums gradients of the common input of several matrices
};

/// The row of a table with the time of a kernel of a layer (or of the head, after the last layer): a product with a
/// matrix, or a kernel with a role.
struct ProfileLayer {
  std::optional<Linear> linear;
  KernelRole role;
  const char* layer;
  bool is_head = false, per_sequence = false;
  bool of_dense_mlp = false;  ///< only dense models: a mixture of experts has a separate table
};
constexpr ProfileLayer kProfileLayers[] = {
    {Linear::embedding, KernelRole::other, "embedding"},
    {{}, KernelRole::norm, "layernorm"},
    {Linear::qkv, KernelRole::other, "qkv_proj"},
    {{}, KernelRole::rotary, "rotary_emb"},
    {Linear::proj, KernelRole::other, "o_proj"},
    {Linear::fc1, KernelRole::other, "gate_up_proj", false, false, true},
    {{}, KernelRole::activation, "act_fn", false, false, true},
    {Linear::fc2, KernelRole::other, "down_proj", false, false, true},
    {{}, KernelRole::norm, "final_layernorm", true},
    {Linear::head, KernelRole::other, "lm_head", true, true},
    {{}, KernelRole::sampling, "sampler", true, true},
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
