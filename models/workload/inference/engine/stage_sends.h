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
  /// @param name   of the stage
  /// @param ranks  of the stage
  /// @param least  time of the kernels of any pass on a rank, at least
  StageSends(std::string name, const transport::Fabric& fabric, std::uint32_t ranks, Time least)
      : Horizon(std::move(name)), fabric_(fabric), ranks_(ranks), least_(least) {}

  /// A pass has been emitted, behind the others. @param kernels  their time on a rank, at least
  void emitted(Time kernels) { kernels_.push_back(kernels); }
  /// Rank t begins kernels of its next pass. @param kernels  their time with those that follow, at least
  void begun(std::uint32_t t, Time kernels);
  /// The pass is over on rank t. @param sends  it sends now; arrived() follows
  void left(std::uint32_t t, bool sends);
  /// The last byte that a rank has sent is there.
  void arrived() { --under_way_; }

  /// Time of the kernels of any pass on a rank, at least.
  Time least() const { return least_; }

 private:
  Time next() override;
  struct Rank {
    std::uint64_t passes = 0;  ///< that are over
    bool has_begun = false;    ///< kernels of the next one
    Time not_before;           ///< end of these
  };

  const transport::Fabric& fabric_;
  std::vector<Rank> ranks_;
  Time least_;
  std::deque<Time> kernels_;  ///< of passes that are not over on all ranks
  std::uint64_t first_ = 0;   ///< number of the first of these
  std::uint64_t under_way_ = 0;
};

}  // namespace railyard::workload::inference
