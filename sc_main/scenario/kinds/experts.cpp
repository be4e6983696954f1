#include "sc_main/scenario/kinds/experts.h"

#include <nlohmann/json.hpp>

#include "sc_main/scenario/kinds/routing.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

Record<ExpertsSection> experts_record() {
  Record<ExpertsSection> r;
  r.choice("exchange", &ExpertsSection::exchange, words_of(transformer::kExpertExchangeNames),
           "with dp, how replicas exchange tokens. allgather_reducescatter: all tokens to every rank; all_to_all: a "
           "token to "
           "the rank of each of its experts; deepep_low_latency: the same in DeepEP's messages");
  r.custom("routing",
           "how tokens are dealt to experts. uniform: each expert gets the same share; skew: some experts of each "
           "layer are more popular, and all ranks wait for the one with most copies",
           "uniform or {skew, seed}", routing_schema,
           [](ExpertsSection& section, const Node& node, const std::string& path) {
             section.routing = read_routing(node, path);
           })
      .fallback("uniform");
  return r;
}

transformer::ExpertRanks resolve_expert_ranks(std::optional<std::uint32_t> ep, const ExpertsSection& experts,
                                              const workload::inference::Mapping& mapping,
                                              const transformer::ModelShape& model, const std::string& key,
                                              const Source& source) {
  const std::uint32_t ranks = mapping.tp * mapping.dp;
  const std::string at = mapping.dp > 1 && !ep ? ".dp" : ".ep";
  if (mapping.dp > 1 && !ep) ep = ranks;
  if (!ep) return {};
  const auto refuse = [&](const std::string& what) {
    throw InputError(place_of(source.root, key + at), key + at + ": " + std::to_string(*ep) + " " + what);
  };
  if (model.experts == 0)
    refuse("with " + model.name + ", which has no experts; accepted: none" +
           (mapping.dp > 1 ? ", and `count` for instances of their own" : ""));
  if (*ep != ranks)
    refuse("is not tp x dp, " + std::to_string(ranks) +
           "; accepted: tp x dp (experts are dealt whole to these ranks), or none (without dp, tensor parallelism "
           "divides every expert)");
  if (model.experts % *ep != 0)
    refuse("does not divide the " + std::to_string(model.experts) + " experts of " + model.name);
  if (mapping.profile != nullptr)
    refuse("with compute.profile, whose experts are divided by tensor parallelism; accepted: none");
  transformer::ExpertRanks result = transformer::expert_ranks(model, *ep, experts.routing);
  result.exchange = experts.exchange;
  return result;
}

void check_experts_used(bool has_ep, const Source& source) {
  if (has_ep || !value_at(source.root, "workload.experts")) return;
  throw InputError(place_of(source.root, "workload.experts"),
                   "workload.experts: no instance has ep or dp; accepted with these");
}

}  // namespace railyard::scenario
