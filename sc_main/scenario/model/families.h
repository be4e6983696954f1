// What a HuggingFace config.json leaves to its model_type: the conventions of each family's implementation in the
// transformers library, from which its configs differ by keys.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace railyard::scenario {

/// A bias: the key that says so ("" where none does), and what holds without it.
struct BiasRule {
  const char* key = "";
  bool otherwise = false;
};

enum class QkNorm : std::uint8_t {
  none,
  per_head,
  per_width
};  ///< one vector for all heads, or one for the whole width
enum class Positions : std::uint8_t { rotary, learned, alibi };

/// Which layers `sliding_window` is about, where no `layer_types` says.
enum class WindowRule : std::uint8_t {
  none,  ///< the family does not use the key
  all,
  from_layer,   ///< `use_sliding_window`: layers from `max_window_layers` on
  every_other,  ///< the first, the third, ...
  pattern,      ///< all but each `sliding_window_pattern`th
};

/// Which layers of a mixture of experts are dense.
enum class SparseRule : std::uint8_t {
  all,
  step,
  first
};  ///< decoder_sparse_step and mlp_only_layers, or first_k_dense_replace

struct Family {
  std::vector<const char*> types;  ///< model_type
  bool gated_mlp = true;
  bool tied_embeddings = false;  ///< without tie_word_embeddings
  BiasRule qkv, output, mlp, head;
  std::uint32_t norms = 2;
  std::uint32_t norm_vectors = 1;
  QkNorm qk_norm = QkNorm::none;
  const char* qk_norm_key = "";  ///< "": always
  Positions positions = Positions::rotary;
  std::uint32_t first_position = 0;  ///< rows before the first learned position
  WindowRule window = WindowRule::none;
  SparseRule sparse = SparseRule::all;
  std::vector<std::pair<const char*, double>> defaults;  ///< of sizes that configs leave out
};

/// The family of a model_type; of "", Llama's conventions. Null where it is not known.
const Family* family_of(const std::string& type);
std::vector<std::string> family_names();

}  // namespace railyard::scenario
