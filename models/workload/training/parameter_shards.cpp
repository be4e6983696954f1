#include "workload/training/parameter_shards.h"

namespace railyard::workload::training {

ParameterShards::ParameterShards(const TrainingSpec& spec, const transformer::ModelShape& model, const Mesh& mesh,
                                 const Communicators& weights, const TrainingJobs& jobs, RankPrograms& programs)
    : spec_(spec), model_(model), jobs_(jobs), programs_(programs), weights_at_(spec.pp()), ends_(mesh.size()) {
  for (const auto& communicator : weights.all())
    if (communicator->size() > 1)
      weights_at_[mesh.place(communicator->rank(0).number, Dimension::pp)].push_back(communicator.get());
}

void ParameterShards::end_layer(const std::vector<std::uint32_t>& ranks) {
  for (const std::uint32_t rank : ranks) {
    ends_[rank].push_back(programs_.last(rank));
    if (ends_[rank].size() > spec_.prefetch_layers + 1) ends_[rank].pop_front();
  }
}

Bytes ParameterShards::weight_bytes(std::uint32_t layer, bool is_head) const {
  const transformer::Stage part = layer == SlotStep::kEnds ? transformer::Stage{0, !is_head, is_head, 0}
                                                           : transformer::Stage{1, false, false, layer};
  return rank_weight_bytes(model_, part, spec_.tp());
}

void ParameterShards::gather(std::uint32_t p, std::uint32_t slot, std::uint32_t layer, bool is_head) {
  const Bytes bytes = weight_bytes(layer, is_head);
  const std::uint32_t detail = layer == SlotStep::kEnds ? TrainingJobs::kEndsDetail : layer;
  for (Communicator* communicator : weights_at_[p]) {
    std::vector<JobRef> after;
    for (const Rank* rank : communicator->ranks()) {
      const std::deque<JobRef>& ends = ends_[rank->number];
      after.push_back(ends.size() > spec_.prefetch_layers ? ends.front() : JobRef());
    }
    const std::vector<JobRef>& jobs =
        programs_.start(*communicator, collective::Operation::all_gather, bytes,
                        jobs_.label(TrainingJobs::kLayerGather, slot, detail, communicator->rank(0).number), after);
    for (std::size_t m = 0; m < jobs.size(); ++m) programs_.wait_for(communicator->rank(m).number, jobs[m]);
  }
}

}  // namespace railyard::workload::training
