#include "workload/training/plan/weight_order.h"

#include <fmt/format.h>

#include <stdexcept>

namespace railyard::workload::training {

void WeightOrder::use(std::uint32_t rank, const Copy& copy) const {
  if (landed_[rank].count(copy) > 0) return;
  const auto& [layer, linear, pass] = copy;
  throw std::logic_error(fmt::format("rank {}: a product with {}{} begins before the matrix has landed", rank,
                                     transformer::kLinearNames[static_cast<std::size_t>(linear)],
                                     is_of_layer(linear) ? fmt::format(" of layer {}", layer) : ""));
}

void WeightOrder::reduce(std::uint32_t rank, const Part& part, std::uint64_t gradients) {
  const std::uint64_t expected = ++reductions_[rank][part] * gradients;
  if (added_[rank][part] >= expected) return;
  throw std::logic_error(
      fmt::format("rank {}: gradients of layer {} are reduced after {} of {} scattered gradients were added", rank,
                  part.layer, added_[rank][part], expected));
}

}  // namespace railyard::workload::training
