// The ranks of a parallel workload: their places in each dimension of parallelism, and the communicators of ranks that differ
// in one dimension only.
//
// Ranks are numbered in Megatron-LM's order tp-cp-ep-dp-pp: tensor-parallel ranks follow each other, pipeline stages are
// furthest apart. With sizes TP, CP, EP, DP and places tp, cp, ep, dp, pp:
//
//   rank = (((pp DP + dp) EP + ep) CP + cp) TP + tp
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "workload/jobs.h"

namespace railyard::workload {

enum class Dimension : std::uint8_t { tp, cp, ep, dp, pp };
constexpr std::size_t kDimensions = 5;

class Mesh {
 public:
  using Sizes = std::array<std::uint32_t, kDimensions>;  ///< by Dimension, each at least 1

  /// @pre as many ranks as the product of the sizes
  Mesh(std::vector<Rank*> ranks, const Sizes& sizes);

  std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  std::uint32_t size(Dimension d) const { return sizes_[static_cast<std::size_t>(d)]; }
  Rank& rank(std::uint32_t rank) const { return *ranks_[rank]; }
  /// Of a rank in a dimension.
  std::uint32_t place(std::uint32_t rank, Dimension d) const { return rank / stride(d) % size(d); }
  /// The rank that has another place in one dimension and the same in all others.
  std::uint32_t moved(std::uint32_t rank, Dimension d, std::uint32_t place) const {
    return rank + (place - this->place(rank, d)) * stride(d);
  }

  /// Makes the communicators of a dimension, one for each set of ranks that differ in it only. Members are in the order of their
  /// places.
  /// @param stream  of each rank, where collectives of this dimension run
  void connect(Dimension d, std::size_t stream, const collective::Request& request, transport::Fabric& fabric);
  /// Of a rank. @pre the dimension is connected
  Communicator& communicator(Dimension d, std::uint32_t rank) const {
    return *communicators_[static_cast<std::size_t>(d)][group(rank, d)];
  }
  /// All of a dimension, by their first ranks.
  const std::vector<std::unique_ptr<Communicator>>& communicators(Dimension d) const {
    return communicators_[static_cast<std::size_t>(d)];
  }

 private:
  /// Between ranks whose places differ by one.
  std::uint32_t stride(Dimension d) const;
  /// Which communicator of a dimension a rank is in.
  std::uint32_t group(std::uint32_t rank, Dimension d) const {
    return rank / (stride(d) * size(d)) * stride(d) + rank % stride(d);
  }

  std::vector<Rank*> ranks_;
  Sizes sizes_;
  std::array<std::vector<std::unique_ptr<Communicator>>, kDimensions> communicators_;
};

}  // namespace railyard::workload
