// The ranks of a parallel workload: their places in each dimension of parallelism, and the communicators of ranks that
// differ in one dimension only.
//
// Ranks are numbered in Megatron-LM's order tp-cp-ep-dp-pp: ranks of a tensor-parallel group are adjacent, pipeline
// stages are furthest apart. With sizes TP, CP, EP, DP and places tp, cp, ep, dp, pp:
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

  /// @pre the number of ranks is the product of the sizes
  Mesh(std::vector<Rank*> ranks, const Sizes& sizes);

  std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  std::uint32_t size(Dimension d) const { return sizes_[static_cast<std::size_t>(d)]; }
  Rank& rank(std::uint32_t rank) const { return *ranks_[rank]; }
  /// The place of a rank in a dimension.
  std::uint32_t place(std::uint32_t rank, Dimension d) const { return rank / stride(d) % size(d); }
  /// The rank with another place in one dimension and the same places in all other dimensions.
  std::uint32_t moved(std::uint32_t rank, Dimension d, std::uint32_t place) const {
    return rank + (place - this->place(rank, d)) * stride(d);
  }

  /// Creates the communicators of a dimension, one for each set of ranks that differ only in this dimension. Members
  /// are ordered by their places.
  /// @param stream  index of the stream of each rank in which collectives of this dimension run
  void connect(Dimension d, std::size_t stream, const collective::Request& request, transport::Fabric& fabric);
  /// The communicator of a rank in a dimension. @pre the dimension is connected
  Communicator& communicator(Dimension d, std::uint32_t rank) const {
    return *communicators_[static_cast<std::size_t>(d)][group(rank, d)];
  }
  /// All communicators of a dimension, ordered by their first ranks.
  const std::vector<std::unique_ptr<Communicator>>& communicators(Dimension d) const {
    return communicators_[static_cast<std::size_t>(d)];
  }

 private:
  /// Distance between ranks whose places differ by one.
  std::uint32_t stride(Dimension d) const;
  /// Index of a rank's communicator in a dimension.
  std::uint32_t group(std::uint32_t rank, Dimension d) const {
    return rank / (stride(d) * size(d)) * stride(d) + rank % stride(d);
  }

  std::vector<Rank*> ranks_;
  Sizes sizes_;
  std::array<std::vector<std::unique_ptr<Communicator>>, kDimensions> communicators_;
};

}  // namespace railyard::workload
