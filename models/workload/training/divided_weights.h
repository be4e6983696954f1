// Matrices that gtp ranks divide among themselves (generalized tensor parallelism). Beside the programs of the ranks:
//
//   gathers   a slot's forward, backward and recomputed passes are chains of matrices (weight_chain.h)
//   scatters  the gradient of a matrix, summed over the ranks: each rank gets that of its shard. A kernel adds it to the
//             shard's gradients when the next gradient is there, so that the scatter runs beside the products between
//             the two; the last one of a slot is added at once
//
// A product waits for its own gather only. Gradients of data-parallel ranks wait for the kernels that add. Both is
// asserted when jobs begin (weight_order.h).
#pragma once

#include <array>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "gpu/kernels/kernel_timer.h"
#include "transformer/linears.h"
#include "workload/parallel/mesh.h"
#include "workload/training/gradient_buckets.h"
#include "workload/training/training_jobs.h"
#include "workload/training/weight_chain.h"
#include "workload/training/weight_order.h"

namespace railyard::workload::training {

class DividedWeights {
 public:
  /// Streams of a rank: gathers, gathers for recomputed layers, scatters.
  struct Streams {
    std::size_t gathers, gathers_again, scatters;
  };

  /// @pre gtp ranks divide weights
  DividedWeights(const TrainingSpec& spec, const transformer::ModelShape& model, const gpu::KernelTimer& kernels,
                 const Mesh& mesh, const Streams& streams, transport::Fabric& fabric, const TrainingJobs& jobs,
                 RankPrograms& programs);

  /// Of the optimizer.
  void begin_step();
  // Around the jobs of a slot of a pipeline rank.
  void begin_slot(std::uint32_t pipeline_rank);
  void before_step(std::uint32_t pipeline_rank, std::uint32_t slot, std::uint32_t detail, const SlotStep& step,
                   SlotKind kind);
  /// @return the step whose gradients the latest job of each rank adds
  const SlotStep* after_step(std::uint32_t pipeline_rank, std::uint32_t slot, std::uint32_t detail,
                             const SlotStep& step);
  const SlotStep* end_slot(std::uint32_t pipeline_rank);

  // Of jobs, when they begin or end.
  /// Kernels of a slot's step. @throws std::logic_error if their matrix has not landed
  void kernels_begin(std::uint32_t rank, const SlotStep& step, SlotKind kind) const;
  void gathered(std::uint32_t rank, const SlotStep& step, SlotKind kind) { order_.land(rank, copy_of(step, kind)); }
  void added(std::uint32_t rank, const SlotStep& step) { order_.add(rank, step.layer); }
  /// @throws std::logic_error if gradients of its layers are not added
  void reduction_begins(std::uint32_t rank, const GradientBucket& bucket);
  void slot_ends(std::uint32_t rank) {
    if (spec_.gtp_shards.keep_gathered == GatheredFor::micro_batch) order_.forget(rank);
  }
  void step_ends(std::uint32_t rank) { order_.forget(rank); }

  std::array<std::size_t, 3> streams() const { return {streams_.gathers, streams_.gathers_again, streams_.scatters}; }
  const Communicators& gathers() const { return gathers_; }
  const Communicators& scatters() const { return scatters_; }
  /// What a gather or scatter is for.
  enum Use : std::uint32_t { kForward, kRecomputed, kBackward, kScatter, kUses };
  static constexpr std::array<const char*, kUses> kUseNames{"forward", "recomputed", "backward", "gradients"};
  static Use use_of(const SlotStep& step, SlotKind kind);
  /// A number for each use and each layer; the embedding follows the layers, then the head.
  std::uint32_t tag(const SlotStep& step, Use use) const;
  /// Matrices of layers, gathered and scattered in a step of the optimizer on a rank, without padding, over their
  /// elements and the micro-batches. Embedding and head do not count: they have the model's type.
  double bytes_per_element() const;
  /// Of the matrices that a rank gathers in these slots of a step, and of the gradients that it scatters, with padding.
  double bytes_of(const std::vector<Slot>& slots, const SlotPlans& plans) const;

 private:
  using Linear = transformer::Linear;
  enum Chain : std::size_t { kPass, kAgain };
  /// A scatter whose result is not added yet.
  struct Scatter {
    std::uint32_t slot, detail;
    const SlotStep* step;
    std::vector<JobRef> jobs;  ///< in the order of the pipeline rank's ranks
  };
  /// A gathered matrix: layer, matrix, and whether it is along columns, where that differs.
  using Gathered = std::tuple<std::uint32_t, Linear, bool>;
  /// Of a pass, or of all passes that a kept matrix serves.
  WeightOrder::Copy copy_of(const SlotStep& step, SlotKind kind) const;
  /// Whether the product needs the matrix along columns, as another copy.
  bool along_columns(const SlotStep& step) const;
  /// Of a pipeline rank.
  struct Place {
    std::vector<std::uint32_t> ranks;
    std::vector<Communicator*> gathers, gathers_again, scatters;
    std::array<std::optional<std::pair<std::uint32_t, Linear>>, 2> used;  ///< by chain: layer, matrix
    std::array<bool, 2> has;                                              ///< by chain: it is gathered
    std::optional<Scatter> pending;
    std::set<Gathered> kept;  ///< until the end of the step
  };
  /// Counts a gather or scatter on the ranks of a pipeline rank.
  void count(const transformer::LinearUse& use);
  /// Whether a product finds its matrix in memory. If not, the matrix will be there.
  bool is_kept(std::set<Gathered>& kept, const SlotStep& step) const;
  /// Bytes of a whole matrix or gradient: its padded shards.
  Bytes whole_bytes(Linear linear, DataType type) const {
    return spec_.gtp() * stored_bytes(shard_elements(linear), type);
  }
  Bytes moved_bytes(const transformer::LinearUse& use) const { return whole_bytes(use.linear, type_of(use)); }
  /// Gradients are scattered in the model's type.
  DataType type_of(const transformer::LinearUse& use) const {
    return use.product == transformer::Product::wgrad ? model_.dtype : spec_.gathered(use.linear, model_.dtype);
  }
  /// Makes the shards of a matrix narrow, before its gather.
  /// @param after, return  by member
  std::vector<JobRef> cast_shards(Communicator& gathers, std::size_t stream, const SlotStep& step,
                                  std::vector<JobRef> after, std::uint32_t slot, std::uint32_t detail);
  std::uint64_t shard_elements(transformer::Linear linear) const;
  const SlotStep* add(Place& place);

  const TrainingSpec& spec_;
  const transformer::ModelShape& model_;
  const gpu::KernelTimer& kernels_;
  const TrainingJobs& jobs_;
  RankPrograms& programs_;
  const Streams streams_;
  Communicators gathers_, gathers_again_, scatters_;
  std::array<WeightChain, 2> chains_;
  std::vector<Place> places_;  ///< by pipeline rank
  WeightOrder order_;
  double moved_bytes_ = 0;  ///< one rank of each pipeline rank, without padding
};

}  // namespace railyard::workload::training
