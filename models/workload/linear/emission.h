// Makes jobs of the plan of a coupled product (coupled_product.h): on each rank of a group, products and what ends them
// in the rank's program, shards and other collectives in streams beside it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "workload/linear/coupled_product.h"
#include "workload/program/rank_programs.h"

namespace railyard::workload::linear {

/// The streams of each rank. A rank sends and receives at the same time; receives of shards by SMs have their own.
struct Streams {
  std::size_t compute = 0, send = 0, receive = 0;
};

/// Tensor-parallel ranks with the communicators that their coupled products use.
class CoupledRanks {
 public:
  /// @param request  properties of all collectives
  /// @param same     replays are shared with it (Communicator::share_reuse()); null: nothing is replayed
  CoupledRanks(std::vector<Rank*> ranks, Streams streams, const collective::CollectiveRequest& request,
               transport::Fabric& fabric, const Communicator* same = nullptr);

  const std::vector<Rank*>& ranks() const { return ranks_; }
  /// For collectives of at most so many CTAs: userbuffers, or NCCL's Simple protocol. 0: NCCL's choice of both.
  /// @param root  of a reduce
  Communicator& communicator(bool beside, std::uint32_t sms, std::uint32_t root = 0);
  /// Whether the ranks reach each other over NVLink. @pre the machine is elaborated
  bool nvlink() { return communicator(false, 0).site().nvlink; }

  /// @param rank  position in ranks(); of a collective: 0
  using Labels = std::function<JobLabel(const Action& action, bool first, bool last, std::uint32_t rank)>;
  /// Emits the plan after the jobs that the ranks' programs have so far. `first` and `last` mark the plan's outermost
  /// jobs in the programs.
  void emit(const ProductPlan& plan, RankPrograms& programs, const Labels& labels);

 private:
  /// Of two ranks: the first sends shards to the second by SMs.
  Communicator& pair(std::uint32_t from, std::uint32_t to, std::uint32_t sms);
  /// @param after  its launch is added
  /// @param ready  when the receiver may receive
  JobRef emit_shard(const Action& action, std::uint32_t rank, RankPrograms& programs, const Labels& labels,
                    std::vector<JobRef>& after, const std::vector<JobRef>& ready);

  std::vector<Rank*> ranks_;
  const Streams streams_;
  const collective::CollectiveRequest request_;
  transport::Fabric& fabric_;
  const Communicator* const same_;
  std::map<std::tuple<bool, std::uint32_t, std::uint32_t>, std::unique_ptr<Communicator>> communicators_;
  std::map<std::array<std::uint32_t, 3>, std::unique_ptr<Communicator>> pairs_;
  // Kept to avoid allocations:
  std::vector<std::vector<JobRef>> start_;  ///< by rank: what the program waits for before the plan
  std::vector<JobRef> jobs_;                ///< by action and rank
  std::vector<JobRef> waits_;               ///< of an action of a rank
};

}  // namespace railyard::workload::linear
