#include "workload/training/run/weight_chain.h"

namespace railyard::workload::training {

void WeightChain::restart(const std::vector<std::uint32_t>& ranks) {
  for (const std::uint32_t rank : ranks) begins_[rank].assign(ahead_, programs_.last(rank));
}

void WeightChain::next_unit(const std::vector<std::uint32_t>& ranks) {
  for (const std::uint32_t rank : ranks) {
    begins_[rank].push_back(programs_.last(rank));
    if (begins_[rank].size() > ahead_ + 1) begins_[rank].pop_front();
  }
}

std::vector<JobRef> WeightChain::starts(const Communicator& communicator) const {
  std::vector<JobRef> after;
  for (const Rank* rank : communicator.ranks()) {
    const std::deque<JobRef>& begins = begins_[rank->number];
    after.push_back(begins.size() > ahead_ ? begins.front() : JobRef());
  }
  return after;
}

void WeightChain::gather(Communicator& communicator, Bytes bytes, const JobLabel& label,
                         const std::vector<JobRef>& after) {
  const std::vector<JobRef>& jobs =
      programs_.start(communicator, collective::Operation::all_gather, bytes, label, after);
  for (std::size_t m = 0; m < jobs.size(); ++m) programs_.wait_for(communicator.rank(m).number, jobs[m]);
}

}  // namespace railyard::workload::training
