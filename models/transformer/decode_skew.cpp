#include "transformer/decode_skew.h"

#include <algorithm>

namespace railyard::transformer {

bool DecodeSkew::add(const Batch& class_of, double alpha) {
  for (std::size_t i = 0; i < kQuantities; ++i) {
    const auto place = std::lower_bound(edges_[i].begin(), edges_[i].end(), class_of[i]);
    if (place == edges_[i].end() || *place != class_of[i]) edges_[i].insert(place, class_of[i]);
  }
  return alphas_.emplace(class_of, alpha).second;
}

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
