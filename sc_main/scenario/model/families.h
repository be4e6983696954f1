// Properties that a HuggingFace config.json implies by its model_type: the conventions of each family's implementation
// in the transformers library. Keys of a config override them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace railyard::scenario {

/// A bias: the key that sets it ("": none), and its default.
struct BiasRule {
  const char* key = "";
  bool otherwise = false;
};

enum class QkNorm : std::uint8_t {
  none,
  per_head,
  per_width
};  ///< one vector for all heads, or one vector for the whole width
enum class Positions : std::uint8_t { rotary, learned, alibi };

/// The layers to which `sliding_window` applies, if there is no `layer_types`.
enum class WindowRule : std::uint8_t {
  none,  ///< the family does not use the key
  all,
  from_layer,   ///< `use_sliding_window`: layers from `max_window_layers` on
  every_other,  ///< the first, the third, ...
  pattern,      ///< all except each `sliding_window_pattern`th
};

/// Rule for the dense layers of a mixture of experts.
enum class SparseRule : std::uint8_t {
  all,
  step,
  first
};  ///< step: decoder_sparse_step and mlp_only_layers; first: first_k_dense_replace

struct Family {
  std::vector<const char*> types;  ///< model_type
  bool gated_mlp = true;
  bool tied_embeddings = false;  ///< default without tie_word_embeddings
  BiasRule qkv, output, mlp, head;
  std::uint32_t norms = 2;
  std::uint32_t norm_vectors = 1;
  QkNorm qk_norm = QkNorm::none;
  const char* qk_norm_key = "";  ///< "": always
  Positions positions = Positions::rotary;
  bool keeps_residual = true;        ///< vLLM's implementation (make_empty_intermediate_tensors_factory)
  std::uint32_t first_position = 0;  ///< number of rows before the first learned position
  WindowRule window = WindowRule::none;
  SparseRule sparse = SparseRule::all;
  std::vector<std::pair<const char*, double>> defaults;  ///< sizes that configs can omit
};

/// The family of a model_type; for "", Llama's conventions. Null if the model_type is unknown.
const Family* family_of(const std::string& type);
std::vector<std::string> family_names();
/// The model_type of which `type` seems to be a misspelling; "" if none. Another number or ending (llama4, nemotron_h) is
/// the name of another architecture, not a misspelling.
std::string meant_family(const std::string& type);

}  // namespace railyard::scenario
