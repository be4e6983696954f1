// The room `parallel` numbers ranks. Mesh has their coordinates in each dimension of parallelism (sizes.h), and which
// copies of a folded mesh run; Communicators are the groups of ranks that differ in some dimensions. Training and
// inference (Grid) build theirs from it.
//
// The ranks of a parallel workload: their places in each dimension of parallelism, and the communicators of ranks that
// differ in some dimensions only.
//
// Ranks are numbered along the dimensions in an order that the workload chooses, innermost first. Megatron-LM's order
// is tp-cp-ep-dp-pp: ranks of a tensor-parallel group are adjacent, pipeline stages are furthest apart. Ranks that
// divide weights (gtp) come next to tp. With sizes TP, GTP, CP, EP, DP and places tp, gtp, cp, ep, dp, pp:
//
//   rank = ((((pp DP + dp) EP + ep) CP + cp) GTP + gtp) TP + tp
//
// A folded mesh divides the places in dp into copies of equal size. Only the ranks of some copies run; each other copy does
// what one of these does. Communicators over dp know of all.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "workload/jobs.h"
#include "workload/parallel/sizes.h"

namespace railyard::workload {

/// One communicator for each set of ranks that differ only in some dimensions.
class Communicators {
 public:
  /// @param groups  the ranks of each communicator, in the order of its members; every rank of the mesh occurs once
  void add(std::unique_ptr<Communicator> communicator, const std::vector<std::uint32_t>& ranks);
  /// The communicator of a rank.
  Communicator& of(std::uint32_t rank) const { return *all_[of_[rank].first]; }
  /// The place of a rank in its communicator.
  std::uint32_t member(std::uint32_t rank) const { return of_[rank].second; }
  /// Ordered by their first ranks.
  const std::vector<std::unique_ptr<Communicator>>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<Communicator>> all_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> of_;  ///< by rank: number of the communicator, place in it
};

/// Divides each set into sets of so many adjacent members. @pre `size` divides the sizes
std::vector<std::vector<std::uint32_t>> adjacent(const std::vector<std::vector<std::uint32_t>>& sets,
                                                 std::uint32_t size);
/// The members with the same place in each of these.
std::vector<std::vector<std::uint32_t>> across(const std::vector<std::vector<std::uint32_t>>& sets, std::uint32_t size);

class Mesh {
 public:
  /// @param sizes  of the ranks that run  @pre the number of ranks is the product of the sizes
  Mesh(std::vector<Rank*> ranks, const MeshSizes& sizes, const RankOrder& order = kMegatronOrder, Copies copies = {});

  std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  std::uint32_t size(Dimension d) const { return sizes_[static_cast<std::size_t>(d)]; }
  Rank& rank(std::uint32_t rank) const { return *ranks_[rank]; }
  /// The place of a rank in a dimension.
  std::uint32_t coordinate(std::uint32_t rank, Dimension d) const { return rank / stride(d) % size(d); }
  /// The rank with another place in one dimension and the same places in all other dimensions.
  std::uint32_t moved(std::uint32_t rank, Dimension d, std::uint32_t place) const {
    return rank + (place - this->coordinate(rank, d)) * stride(d);
  }
  /// How many ranks of the whole mesh do what this rank does. 1 if it is the same number for all ranks.
  std::uint32_t stands_for(std::uint32_t rank) const;
  /// The sets of ranks that differ only in these dimensions. Members are in the order of their numbers, sets in the
  /// order of their first ranks.
  std::vector<std::vector<std::uint32_t>> groups(const std::vector<Dimension>& dimensions) const;

  /// Creates a communicator for each set of ranks. It knows of no copies. @pre every rank is in one set; of a folded mesh,
  /// no set extends over dp
  /// @param stream  index of the stream of each rank in which these collectives run
  Communicators connect_sets(const std::vector<std::vector<std::uint32_t>>& sets, std::size_t stream,
                             const collective::CollectiveRequest& request, transport::Fabric& fabric) const;
  /// Of groups(). @param apart  only members that are so many apart; of a folded mesh, within a copy
  Communicators connect(const std::vector<Dimension>& dimensions, std::size_t stream,
                        const collective::CollectiveRequest& request, transport::Fabric& fabric,
                        std::uint32_t apart = 1) const;

 private:
  /// Places in dp of a copy.
  std::uint32_t size_of_copy() const { return size(Dimension::dp) / running(copies_); }
  /// The members of a folded communicator over dp: these ranks and their copies, in the order of the whole mesh.
  std::vector<collective::FoldedMember> with_copies(const std::vector<std::uint32_t>& ranks) const;
  /// Distance between ranks whose places differ by one.
  std::uint32_t stride(Dimension d) const { return strides_[static_cast<std::size_t>(d)]; }

  std::vector<Rank*> ranks_;
  MeshSizes sizes_, strides_;
  RankOrder order_;
  Copies copies_;
};

}  // namespace railyard::workload
