// Routed experts in `serving`: `ep` of an instance, and workload.experts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sc_main/scenario/table/record.h"
#include "transformer/model_shape.h"
#include "transformer/routing.h"
#include "workload/inference/engine/mapping.h"
#include "workload/inference/engine/micro_batch_rules.h"

namespace railyard::scenario {

struct ExpertsSection {
  transformer::ExpertExchange exchange = transformer::ExpertExchange::allgather_reducescatter;
  std::optional<transformer::Routing> routing;  ///< none: even, or traced
  std::string routing_file;
  std::optional<std::uint32_t> redundant;
  std::uint32_t micro_batches = 1;
};
Record<ExpertsSection> experts_record();

/// @param ep    as written; none: tensor parallelism divides every expert, or replicas deal them to all their ranks
/// @param key   of the instance
/// @throws InputError  ep is not tp x dp, or does not divide the experts, redundant ones included; a dense model; measured
/// kernel times; more redundant experts than ranks can hold; a file of another model
transformer::ExpertRanks resolve_expert_ranks(std::optional<std::uint32_t> ep, const ExpertsSection& experts,
                                              const workload::inference::Mapping& mapping,
                                              const transformer::ModelShape& model, const std::string& key,
                                              const Source& source);
/// Rules of an engine for steps of two micro-batches: none, if the scenario asks for one.
/// @throws InputError  it asks for two, and the instance has no exchange that hides behind kernels, or the engine has no rules
workload::inference::MicroBatchRules resolve_micro_batches(const ExpertsSection& experts,
                                                           const workload::inference::Mapping& mapping,
                                                           const workload::inference::MicroBatchRules& of_engine,
                                                           const std::string& engine, const Source& source);
/// @throws InputError  workload.experts is written, and no instance has ep or dp
void check_experts_used(bool has_ep, const Source& source);

}  // namespace railyard::scenario
