#include "workload/inference/engine/mapping.h"

namespace railyard::workload::inference {

Bytes weight_bytes(const transformer::ModelShape& model, const transformer::Stage& stage, const Mapping& mapping) {
  const Bytes one_of_each = transformer::rank_weight_bytes(model, stage, mapping.tp, mapping.dp);
  const transformer::ExpertRanks& experts = mapping.experts;
  if (experts.redundant == 0) return one_of_each;
  return one_of_each + ceil_div(transformer::expert_weight_bytes(model, stage) * experts.redundant, experts.ranks);
}

}  // namespace railyard::workload::inference
