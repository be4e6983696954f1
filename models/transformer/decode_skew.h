// Decodes of unequal context take longer than as many decodes of the mean context. The time lies alpha of the way from
// the time at the mean context to the time at the longest context. A LLMServingSim profile bundle has a fitted alpha for
// each class of batches (casys-kaist/LLMServingSim 2.0, skew_fit.csv).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <vector>

namespace railyard::transformer {

class DecodeSkew {
 public:
  static constexpr std::size_t kQuantities = 5;
  /// By quantity: prompt tokens in the batch; decodes; (mean - shortest) / (longest - shortest) of their contexts, which
  /// is the share of long ones if there are only two lengths; their longest context; context of the prompts.
  using Batch = std::array<double, kQuantities>;

  explicit DecodeSkew(double default_alpha = 0) : default_alpha_(default_alpha) {}

  /// @param class_of  upper edges of a class, which belong to the class; the number of prompt tokens is exact
  /// @return false if there is already an alpha for this class
  bool add(const Batch& class_of, double alpha) {
    for (std::size_t i = 0; i < kQuantities; ++i) {
      const auto place = std::lower_bound(edges_[i].begin(), edges_[i].end(), class_of[i]);
      if (place == edges_[i].end() || *place != class_of[i]) edges_[i].insert(place, class_of[i]);
    }
    return alphas_.emplace(class_of, alpha).second;
  }
  /// The alpha of the batch's class, or the default. The last class of a quantity has no upper edge.
  double alpha(const Batch& batch) const;

 private:
  double default_alpha_;
  std::array<std::vector<double>, kQuantities> edges_;  ///< in order
  std::map<Batch, double> alphas_;
};

}  // namespace railyard::transformer
