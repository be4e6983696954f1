// Matrices that gtp ranks divide among themselves (generalized tensor parallelism). Beside the programs of the ranks:
//
//   gathers   a slot's forward, backward and recomputed passes are chains of matrices (weight_chain.h)
//   scatters  the gradient of a matrix, summed over the ranks: each rank gets that of its shard. A kernel adds it to the
//             shard's gradients when the next gradient is there, so that the scatter runs beside the products between
//             the two; the last one of a slot is added at once
//
// A product waits for its own gather only. Gradients of data-parallel ranks wait for the kernels that add. Both rules
// are asserted when a job begins (weight_order.h).
//
// With activations: sharded, saved inputs that are alike on tensor-parallel ranks are divided among these, and gathered in
// the same chain and cache, each after the matrix of which it gives the gradient.
//
// Routed experts have groups and streams of their own: `experts_size` adjacent gtp ranks divide fc1 and fc2 of all
// experts of a rank, each in one gather; with experts_size 1, experts are whole.
#pragma once

#include <array>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "gpu/kernels/kernel_timer.h"
#include "workload/parallel/mesh.h"
#include "workload/training/memory/memory_ledger.h"
#include "workload/training/plan/gradient_buckets.h"
#include "workload/training/plan/weight_cache.h"
#include "workload/training/plan/weight_order.h"
#include "workload/training/run/training_jobs.h"
#include "workload/training/run/weight_chain.h"

namespace railyard::workload::training {

class DividedWeights {
 public:
  /// Streams of a rank: gathers, gathers for recomputed layers, scatters.
  struct Streams {
    std::size_t gathers, gathers_again, scatters;
  };

  /// @param experts  streams for those of routed experts, if ranks divide them
  /// @pre gtp ranks divide weights
  DividedWeights(const TrainingSpec& spec, const transformer::ModelShape& model, const gpu::KernelTimer& kernels,
                 const Mesh& mesh, const Streams& streams, const std::optional<Streams>& experts,
                 transport::Fabric& fabric, const TrainingJobs& jobs, RankPrograms& programs, MemoryLedger& memory);

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
  /// Kernels of a slot's step. @throws std::logic_error if their matrix has not landed, or a third gradient is computed
  /// while two are still scattered
  void kernels_begin(std::uint32_t rank, const SlotStep& step, SlotKind kind, Time now);
  void kernels_end(std::uint32_t rank, const SlotStep& step, SlotKind kind);
  void gather_begins(std::uint32_t rank, const SlotStep& step, SlotKind kind, Time now);
  void gathered(std::uint32_t rank, const SlotStep& step, SlotKind kind) { order_.land(rank, copy_of(step, kind)); }
  // The same of saved inputs.
  void input_gather_begins(std::uint32_t rank, const SlotStep& step, Time now);
  void input_gathered(std::uint32_t rank, const SlotStep& step) { order_.land(rank, input_of(step)); }
  void scattered(std::uint32_t rank) { --gradients_[rank]; }
  void added(std::uint32_t rank, const SlotStep& step) { order_.add(rank, part_of(step)); }
  /// @throws std::logic_error if gradients of its layers are not added
  void reduction_begins(std::uint32_t rank, const GradientBucket& bucket);
  void slot_ends(std::uint32_t rank) {
    if (spec_.gtp_shards.keep_gathered == GatheredFor::micro_batch) order_.forget(rank);
  }
  void step_ends(std::uint32_t rank) {
    order_.forget(rank);
    caches_[rank].give_all_back();
  }

  /// Buffers of whole matrices on a rank, in use or not.
  Bytes cache_bytes(std::uint32_t rank) const { return caches_[rank].bytes(); }
  /// All streams of a rank.
  std::vector<std::size_t> streams() const;
  /// The ranks that divide matrices: of routed experts, if they do, and of all others.
  std::vector<const Communicators*> communicators() const;
  /// What a gather or scatter is for.
  enum Use : std::uint32_t { kForward, kRecomputed, kBackward, kScatter, kUses };
  static constexpr std::array<const char*, kUses> kUseNames{"forward", "recomputed", "backward", "gradients"};
  /// Of a matrix, or of its gradient.
  static Use use_of(const SlotStep& step, SlotKind kind);
  /// A number for each use and each layer; the embedding follows the layers, then the head.
  std::uint32_t tag(const SlotStep& step, Use use) const;
  /// Matrices of layers, gathered and scattered in a step of the optimizer on a rank, without padding, over their
  /// elements and the micro-batches. Embedding and head do not count: they have the model's type.
  double bytes_per_element() const;
  /// Of the matrices that a rank gathers in these slots of a step, and of the gradients that it scatters, with padding.
  double bytes_of(const std::vector<Slot>& slots, const SlotPlans& plans, bool experts) const;
  /// Of the saved inputs that it gathers.
  double input_bytes_of(const std::vector<Slot>& slots, const SlotPlans& plans) const;
  const Communicators& inputs() const { return inputs_; }

 private:
  using Linear = transformer::Linear;
  enum GroupOf : std::size_t { kAllOthers, kExperts, kGroups };
  static GroupOf group_of(Linear linear) { return is_of_experts(linear) ? kExperts : kAllOthers; }
  /// Communicators of the ranks that divide a matrix.
  struct Group {
    Streams streams{};
    Communicators gathers, gathers_again, scatters;
  };
  /// A scatter whose result is not added yet.
  struct Scatter {
    std::uint32_t slot, detail;
    const SlotStep* step;
    std::vector<std::pair<std::uint32_t, JobRef>> jobs;  ///< by rank
  };
  /// A gathered matrix: layer, matrix, and whether it is along columns, where that differs.
  using Gathered = std::tuple<std::uint32_t, Linear, bool>;
  /// Of a pass, or of all passes that a kept matrix serves.
  WeightOrder::Copy copy_of(const SlotStep& step, SlotKind kind) const;
  static WeightOrder::Part part_of(const SlotStep& step) { return {step.layer, is_of_experts(step.use->linear)}; }
  /// Whether ranks divide the matrix of a step.
  bool divides(const SlotStep& step) const { return step.use && division_.of(step.use->linear) > 1; }
  /// Whether the product needs the matrix along columns, as another copy.
  bool along_columns(const SlotStep& step) const;
  /// Of a pipeline rank, for each of the two groups.
  struct GroupPlace {
    std::vector<Communicator*> gathers, gathers_again, scatters;
  };
  /// Of a pipeline rank.
  struct Place {
    std::vector<std::uint32_t> ranks;
    std::array<GroupPlace, kGroups> groups;
    std::vector<Communicator*> inputs;
    std::array<std::optional<std::pair<std::uint32_t, Linear>>, kGatherChains> used;  ///< layer, matrix
    std::array<bool, kGatherChains> has;                                              ///< it is gathered
    std::optional<Scatter> pending;
    std::set<Gathered> kept;  ///< until the end of the step
  };
  /// Whether a step computes a gradient from a saved input that is gathered.
  bool gathers_input(const SlotStep& step) const;
  static WeightOrder::Copy input_of(const SlotStep& step) { return {step.layer, step.use->linear, kUses}; }
  WeightCache::Kind input_buffer_of(const SlotStep& step) const;
  void gather_input(Place& place, std::uint32_t slot, std::uint32_t detail, const SlotStep& step);
  void connect(GroupOf group, const std::vector<std::vector<std::uint32_t>>& sets, const Streams& streams,
               const Mesh& mesh, transport::Fabric& fabric);
  GatherChain chain_of(const SlotStep& step, SlotKind kind) const {
    return training::chain_of(step.use->linear, use_of(step, kind) == kRecomputed);
  }
  WeightCache::Kind buffer_of(const SlotStep& step, SlotKind kind) const;
  transformer::Matrix matrix_of(const SlotStep& step) const;
  /// Counts a gather or scatter on the ranks of a pipeline rank.
  void count(const SlotStep& step);
  /// Whether a product finds its matrix in memory. If not, the matrix will be there.
  bool is_kept(std::set<Gathered>& kept, const SlotStep& step) const;
  /// Bytes of a whole matrix or gradient: its padded shards.
  Bytes moved_bytes(const SlotStep& step) const {
    return division_.of(step.use->linear) * stored_bytes(shard_elements(step), type_of(*step.use));
  }
  std::uint64_t shard_elements(const SlotStep& step) const {
    return division_.shard(matrix_of(step), step.use->linear).elements();
  }
  /// Gradients are scattered in the model's type.
  DataType type_of(const transformer::LinearUse& use) const {
    return use.product == transformer::Product::wgrad ? model_.dtype : spec_.gathered(use.linear, model_.dtype);
  }
  /// Makes the shards of a matrix narrow, before its gather. Experts have one kernel for all.
  /// @param after, return  by member
  std::vector<JobRef> cast_shards(Communicator& gathers, std::size_t stream, const SlotStep& step,
                                  std::vector<JobRef> after, std::uint32_t slot, std::uint32_t detail);
  const SlotStep* add(Place& place);

  const TrainingSpec& spec_;
  const transformer::ModelShape& model_;
  const transformer::Division division_;
  const gpu::KernelTimer& kernels_;
  const TrainingJobs& jobs_;
  RankPrograms& programs_;
  MemoryLedger& memory_;
  std::array<Group, kGroups> groups_;
  Communicators inputs_;             ///< of tensor-parallel ranks, if saved inputs are divided
  std::vector<WeightChain> chains_;  ///< by GatherChain
  std::vector<Place> places_;        ///< by pipeline rank
  WeightOrder order_;
  std::vector<WeightCache> caches_;         ///< by rank
  std::vector<std::uint32_t> gradients_;    ///< by rank: whole ones, computed or scattered
  std::vector<std::uint32_t> parts_ended_;  ///< by rank: kernels of the product that runs in parts
  double moved_bytes_ = 0;                  ///< one rank of each pipeline rank, without padding
};

}  // namespace railyard::workload::training
