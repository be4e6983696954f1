// When a stage of a pipeline sends: activations to the next stage, or sampled token ids to the first one. A rank sends when its
// part of a pass is over, and not before: its kernels run one after the other, each at least as long as if it had the GPU alone.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "transport/fabric.h"
#include "transport/horizon.h"

namespace railyard::workload::inference {

class StageSends final : public transport::Horizon {
 public:
  /// Time of the kernels of a pass on a rank, at least.
  struct Least {
    Time all;
    Time after_kv;  ///< of those after the last attention of the stage
  };

  /// @param name   of the stage
  /// @param ranks  of the stage
  /// @param least  of any pass
  StageSends(std::string name, const transport::Fabric& fabric, std::uint32_t ranks, const Least& least)
      : Horizon(std::move(name)), fabric_(fabric), ranks_(ranks), least_(least) {}

  /// A pass has been emitted, behind the others.
  void emitted(const Least& kernels) { kernels_.push_back(kernels); }
  /// Rank t begins kernels of its next pass. @param kernels  their time with those that follow, at least
  void begun(std::uint32_t t, Time kernels);
  /// The pass is over on rank t. @param sends  it sends now; arrived() follows
  void left(std::uint32_t t, bool sends);
  /// The last byte that a rank has sent is there.
  void arrived() { --under_way_; }

  /// Of any pass.
  const Least& least() const { return least_; }
  /// A rank has the KV of a pass, which it does not have by now, not before.
  Time next_kv() const;

 private:
  Time next() override;
  /// Kernels of the next pass of a rank.
  const Least& next_of(std::uint64_t passes) const;
  struct Rank {
    std::uint64_t passes = 0;  ///< that are over
    bool has_begun = false;    ///< kernels of the next one
    Time not_before;           ///< end of these
  };

  const transport::Fabric& fabric_;
  std::vector<Rank> ranks_;
  Least least_;
  std::deque<Least> kernels_;  ///< of passes that are not over on all ranks
  std::uint64_t first_ = 0;    ///< number of the first of these
  std::uint64_t under_way_ = 0;
};

}  // namespace railyard::workload::inference
