#include "transformer/decode_skew.h"

#include <algorithm>

namespace railyard::transformer {

double DecodeSkew::alpha(const Batch& batch) const {
  if (alphas_.empty()) return default_alpha_;
  Batch class_of = batch;
  for (std::size_t i = 1; i < kQuantities; ++i) {
    const auto edge = std::lower_bound(edges_[i].begin(), edges_[i].end(), batch[i]);
    class_of[i] = edge == edges_[i].end() ? edges_[i].back() : *edge;
  }
  const auto found = alphas_.find(class_of);
  return found == alphas_.end() ? default_alpha_ : found->second;
}

}  // namespace railyard::transformer
