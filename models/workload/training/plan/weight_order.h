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

  /// Matrices of a layer whose gradients are reduced together: those of its routed experts, or all others.
  struct Part {
    std::uint32_t layer;
    bool experts;
    bool operator<(const Part& o) const { return std::tie(layer, experts) < std::tie(o.layer, o.experts); }
  };
  /// A scattered gradient of a matrix of this part is in the shard's gradients.
  void add(std::uint32_t rank, const Part& part) { ++added_[rank][part]; }
  /// A reduction of the part's bucket begins. @param gradients  added for each of its reductions
  /// @throws std::logic_error if one of them is missing
  void reduce(std::uint32_t rank, const Part& part, std::uint64_t gradients);

 private:
  std::vector<std::set<Copy>> landed_;                             ///< by rank
  std::vector<std::map<Part, std::uint64_t>> added_, reductions_;  ///< by rank
};

}  // namespace railyard::workload::training
