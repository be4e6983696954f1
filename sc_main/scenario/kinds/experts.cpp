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
           "layer are more popular, and all ranks wait for the one with most copies; a file: LAYER,TOKENS OF EXPERT "
           "0,... for each layer, as traced",
           kRoutingType, routing_schema,
           [](ExpertsSection& section, const Node& node, const std::string& path) {
             section.routing = read_routing(node, path, section.routing_file);
           })
      .is_path(Field::Path::unless_name)
      .fallback("uniform");
  r.add("redundant", &ExpertsSection::redundant,
        "places for experts, beside one of each. Experts are then placed on ranks by their share of tokens, popular "
        "ones several times (DeepSeek's EPLB); 0: once each")
      .range(0, 1u << 16)
      .fallback("none: consecutive experts on a rank");
  r.add("micro_batches", &ExpertsSection::micro_batches,
        "2: a step is divided in two, whose exchanges hide behind the kernels of the other half (--enable-dbo, "
        "two-batch overlap)")
      .range(1, 2);
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
  const std::uint64_t redundant = experts.redundant.value_or(0), most = std::uint64_t(model.experts) * (*ep - 1);
  if ((model.experts + redundant) % *ep != 0)
    refuse("does not divide the " + std::to_string(model.experts) + " experts of " + model.name +
           (redundant > 0 ? " and " + std::to_string(redundant) + " redundant ones" : ""));
  if (redundant > most)
    throw InputError(place_of(source.root, "workload.experts.redundant"),
                     "workload.experts.redundant: " + std::to_string(redundant) + " are more than " +
                         std::to_string(*ep) + " ranks can hold; accepted: up to " + std::to_string(most));
  if (mapping.profile != nullptr)
    refuse("with compute.profile, whose experts are divided by tensor parallelism; accepted: none");
  std::optional<transformer::Routing> routing = experts.routing;
  if (!experts.routing_file.empty())
    routing = traced_routing(experts.routing_file, "workload.experts.routing", model, source);
  transformer::ExpertRanks result = transformer::expert_ranks(model, *ep, routing, experts.redundant);
  result.exchange = experts.exchange;
  return result;
}

workload::inference::MicroBatchRules resolve_micro_batches(const ExpertsSection& experts,
                                                           const workload::inference::Mapping& mapping,
                                                           const workload::inference::MicroBatchRules& of_engine,
                                                           const std::string& engine, const Source& source) {
  using transformer::ExpertExchange;
  if (experts.micro_batches == 1) return {};
  const std::string key = "workload.experts.micro_batches";
  const auto refuse = [&](const std::string& with, const std::string& accepted) {
    throw InputError(place_of(source.root, key), key + ": 2 with " + with + "; accepted: " + accepted);
  };
  if (mapping.dp == 1) refuse("dp 1, whose ranks exchange no tokens", "dp of 2 or more, or 1 micro-batch");
  if (experts.exchange != ExpertExchange::deepep_low_latency)
    refuse(std::string("exchange ") + transformer::kExpertExchangeNames[static_cast<std::size_t>(experts.exchange)] +
               ", which takes SMs until its end",
           "exchange deepep_low_latency, or 1 micro-batch");
  if (of_engine.turns == transformer::MicroBatchTurns::none)
    refuse("engine " + engine + ", which has no steps of two micro-batches", "vllm-0.19, sglang-0.5, or 1 micro-batch");
  return of_engine;
}

void check_experts_used(bool has_ep, const Source& source) {
  if (has_ep || !value_at(source.root, "workload.experts")) return;
  throw InputError(place_of(source.root, "workload.experts"),
                   "workload.experts: no instance has ep or dp; accepted with these");
}

}  // namespace railyard::scenario
