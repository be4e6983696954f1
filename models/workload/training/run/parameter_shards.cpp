#include "workload/training/run/parameter_shards.h"

#include <numeric>

namespace railyard::workload::training {

ParameterShards::ParameterShards(const TrainingSpec& spec, const transformer::ModelShape& model, const Mesh& mesh,
                                 const Communicators& weights, const Communicators& experts, const TrainingJobs& jobs,
                                 RankPrograms& programs)
    : spec_(spec),
      model_(model),
      jobs_(jobs),
      ranks_(mesh.size()),
      chain_(spec.prefetch_layers, mesh.size(), programs),
      weights_at_(spec.pp()),
      experts_at_(spec.pp()) {
  std::iota(ranks_.begin(), ranks_.end(), 0u);
  for (const auto& [communicators, at] : {std::pair{&weights, &weights_at_}, {&experts, &experts_at_}})
    for (const auto& communicator : communicators->all())
      if (communicator->members() > 1)
        (*at)[mesh.coordinate(communicator->rank(0).number, Dimension::pp)].push_back(communicator.get());
}

void ParameterShards::begin_step() {
  chain_.restart(ranks_);
  chain_.next_unit(ranks_);
}

void ParameterShards::gather(std::uint32_t p, std::uint32_t slot, std::uint32_t layer, bool is_head) {
  const transformer::Stage part = layer == SlotStep::kEnds ? transformer::Stage{0, !is_head, is_head, 0}
                                                           : transformer::Stage{1, false, false, layer};
  const transformer::RankParameters weights = rank_parameters(model_, part, spec_.tp(), spec_.ep());
  const auto bytes = static_cast<Bytes>(bytes_of(model_.dtype));
  const std::uint32_t detail = layer == SlotStep::kEnds ? TrainingJobs::kEndsDetail : layer;
  for (Communicator* communicator : weights_at_[p])
    chain_.gather(*communicator, weights.common * bytes,
                  jobs_.label(TrainingJobs::kLayerGather, slot, detail, communicator->rank(0).number));
  if (weights.experts == 0) return;
  for (Communicator* communicator : experts_at_[p])
    chain_.gather(*communicator, weights.experts * bytes,
                  jobs_.label(TrainingJobs::kExpertGather, slot, detail, communicator->rank(0).number));
}

}  // namespace railyard::workload::training
