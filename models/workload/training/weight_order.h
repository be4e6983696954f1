// Asserts what ranks that divide matrices (gtp) rely on: a product begins after its matrix has landed, and a bucket is
// reduced after the last scattered gradient of its layers was added. A run in which this is not so has wrong waits.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "transformer/linears.h"

namespace railyard::workload::training {

class WeightOrder {
 public:
  /// A gathered matrix: layer, matrix, and a number that tells gathers of the same matrix apart.
  using Copy = std::tuple<std::uint32_t, transformer::Linear, std::uint32_t>;

  explicit WeightOrder(std::uint32_t ranks) : landed_(ranks), added_(ranks), reductions_(ranks) {}

  void land(std::uint32_t rank, const Copy& copy) { landed_[rank].insert(copy); }
  /// @throws std::logic_error if the matrix has not landed
  void use(std::uint32_t rank, const Copy& copy) const;
  /// The rank gives its gathered matrices up.
  void forget(std::uint32_t rank) { landed_[rank].clear(); }

  /// A scattered gradient of a matrix of this layer is part of the shard's gradients.
  void add(std::uint32_t rank, std::uint32_t layer) { ++added_[rank][layer]; }
  /// A reduction of the layer's bucket begins. @param gradients  added for each of its reductions
  /// @throws std::logic_error if one of them is missing
  void reduce(std::uint32_t rank, std::uint32_t layer, std::uint64_t gradients);

 private:
  std::vector<std::set<Copy>> landed_;                                      ///< by rank
  std::vector<std::map<std::uint32_t, std::uint64_t>> added_, reductions_;  ///< by rank, then layer
};

}  // namespace railyard::workload::training
