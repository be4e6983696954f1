// Buffers of a rank for the matrices that it gathers (gtp). A gather takes a buffer of its matrix's shape and type; when
// the product is over, the buffer waits for the next matrix of its kind. So a chain of gathers holds as many buffers of
// a kind as it has such matrices in use and ahead at once, and the cache never shrinks.
#pragma once

#include <cstddef>
#include <map>
#include <tuple>

#include "transformer/linears.h"
#include "workload/training/plan/training_spec.h"

namespace railyard::workload::training {

/// Chains of gathers: matrices of a chain are gathered one after the other. Those of routed experts, of which a layer
/// has two only, have chains of their own, and so have layers that run again in a backward slot.
enum class GatherChain : std::uint8_t {
  pass,
  experts_fc1,
  experts_fc2,
  pass_again,
  experts_fc1_again,
  experts_fc2_again
};
constexpr std::size_t kGatherChains = 6;

constexpr GatherChain chain_of(transformer::Linear linear, bool again) {
  using transformer::Linear;
  const int of_pass = linear == Linear::experts_fc1 ? 1 : linear == Linear::experts_fc2 ? 2 : 0;
  return static_cast<GatherChain>(of_pass + (again ? 3 : 0));
}
constexpr bool is_of_experts(GatherChain chain) { return static_cast<std::size_t>(chain) % 3 > 0; }
/// Matrices of a chain that are gathered before the matrix in use. Of experts: at the most those of one layer.
constexpr std::uint32_t gathered_ahead(GatherChain chain, std::uint32_t prefetch_depth) {
  return is_of_experts(chain) && prefetch_depth > 1 ? 1 : prefetch_depth;
}

class WeightCache {
 public:
  /// What a buffer is for.
  struct Kind {
    transformer::Matrix matrix;  ///< whole, with padding
    DataType type;
    bool along_columns;  ///< a copy for products along the other side of the matrix (narrow types)
    GatherChain chain;

    Bytes bytes() const { return stored_bytes(matrix.elements(), type); }
    bool operator<(const Kind& o) const { return key() < o.key(); }

   private:
    std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, DataType, bool, GatherChain> key() const {
      return {matrix.rows, matrix.columns, matrix.count, type, along_columns, chain};
    }
  };

  /// @return whether there was no buffer, so that the cache has grown
  bool take(const Kind& kind) {
    Buffers& buffers = buffers_[kind];
    if (++buffers.used <= buffers.all) return false;
    buffers.all = buffers.used;
    bytes_ += kind.bytes();
    return true;
  }
  /// @pre taken
  void give_back(const Kind& kind) { --buffers_.at(kind).used; }
  void give_all_back() {
    for (auto& [kind, buffers] : buffers_) buffers.used = 0;
  }
  /// Of all buffers, in use or not.
  Bytes bytes() const { return bytes_; }

 private:
  struct Buffers {
    std::uint32_t used = 0, all = 0;
  };
  std::map<Kind, Buffers> buffers_;
  Bytes bytes_ = 0;
};

/// Buffer of a saved input that tensor-parallel ranks divide.
inline WeightCache::Kind input_buffer(const TrainingSpec& spec, const transformer::ModelShape& model,
                                      transformer::Linear linear) {
  const bool narrow = spec.form.narrow && transformer::is_of_layer(linear);
  return {{spec.rank_tokens(), model.hidden}, narrow ? spec.form.narrow->dtype : model.dtype, false, GatherChain::pass};
}

}  // namespace railyard::workload::training
