#include "workload/training/parameter_shards.h"

namespace railyard::workload::training {

ParameterShards::ParameterShards(const TrainingSpec& spec, const transformer::ModelShape& model, const Mesh& mesh,
                                 const Communicators& weights, const TrainingJobs& jobs, RankPrograms& programs)
    : spec_(spec),
      model_(model),
      jobs_(jobs),
      chain_(spec.prefetch_layers, mesh.size(), programs),
      weights_at_(spec.pp()) {
  for (const auto& communicator : weights.all())
    if (communicator->size() > 1)
      weights_at_[mesh.place(communicator->rank(0).number, Dimension::pp)].push_back(communicator.get());
}

Bytes ParameterShards::weight_bytes(std::uint32_t layer, bool is_head) const {
  const transformer::Stage part = layer == SlotStep::kEnds ? transformer::Stage{0, !is_head, is_head, 0}
                                                           : transformer::Stage{1, false, false, layer};
  return rank_weight_bytes(model_, part, spec_.tp());
}

void ParameterShards::gather(std::uint32_t p, std::uint32_t slot, std::uint32_t layer, bool is_head) {
  const Bytes bytes = weight_bytes(layer, is_head);
  const std::uint32_t detail = layer == SlotStep::kEnds ? TrainingJobs::kEndsDetail : layer;
  for (Communicator* communicator : weights_at_[p])
    chain_.gather(*communicator, bytes,
                  jobs_.label(TrainingJobs::kLayerGather, slot, detail, communicator->rank(0).number));
}

}  // namespace railyard::workload::training
