#include "workload/training/weight_order.h"

#include <fmt/format.h>

#include <stdexcept>

namespace railyard::workload::training {

void WeightOrder::use(std::uint32_t rank, const Copy& copy) const {
  if (landed_[rank].count(copy) > 0) return;
  throw std::logic_error(fmt::format("rank {}: a product with {} of layer {} begins before the matrix has landed", rank,
                                     transformer::kLinearNames[static_cast<std::size_t>(std::get<1>(copy))],
                                     static_cast<std::int32_t>(std::get<0>(copy))));
}

void WeightOrder::reduce(std::uint32_t rank, std::uint32_t layer, std::uint64_t gradients) {
  const std::uint64_t expected = ++reductions_[rank][layer] * gradients;
  if (added_[rank][layer] >= expected) return;
  throw std::logic_error(
      fmt::format("rank {}: gradients of layer {} are reduced after {} of {} scattered gradients were added", rank,
                  layer, added_[rank][layer], expected));
}

}  // namespace railyard::workload::training
