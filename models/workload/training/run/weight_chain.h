// Gathers of weights just in time. The programs of ranks use units of weights (a layer, or one matrix) one after the
// other. A unit is gathered beside the programs; its gather begins when the unit `ahead` units before begins, and the
// programs wait for the gather of a unit before they use the unit. Without units ahead, each gather is exposed.
#pragma once

#include <deque>
#include <vector>

#include "workload/program/rank_programs.h"

namespace railyard::workload::training {

class WeightChain {
 public:
  WeightChain(std::uint32_t ahead, std::uint32_t ranks, RankPrograms& programs)
      : ahead_(ahead), programs_(programs), begins_(ranks) {}

  /// A new chain: its first gathers begin after all that the programs of these ranks have.
  void restart(const std::vector<std::uint32_t>& ranks);
  /// The programs of these ranks come to their next unit.
  void next_unit(const std::vector<std::uint32_t>& ranks);
  /// The jobs after which the gather of the unit begins, by member.
  std::vector<JobRef> starts(const Communicator& communicator) const;
  /// Gathers the unit; the programs of the members wait for that.
  void gather(Communicator& communicator, Bytes bytes, const JobLabel& label) {
    gather(communicator, bytes, label, starts(communicator));
  }
  /// The same, after other jobs. @param after  by member
  void gather(Communicator& communicator, Bytes bytes, const JobLabel& label, const std::vector<JobRef>& after);

 private:
  const std::uint32_t ahead_;
  RankPrograms& programs_;
  std::vector<std::deque<JobRef>> begins_;  ///< by rank: the jobs before the latest units, the oldest first
};

}  // namespace railyard::workload::training
