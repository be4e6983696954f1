// workload.requests of the kind `serving`: generated requests, a list, or a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sc_main/scenario/kinds/requests.h"
#include "workload/inference/requests/request_generator.h"
#include "workload/inference/requests/session_generator.h"
#include "workload/inference/service/serving_spec.h"

namespace railyard::scenario {

struct StageSection {
  double rate_per_s = 0, duration_s = 0;
};

struct SessionsSection {
  workload::inference::TokensDistribution turns, growth_tokens;
  double think_s = 0;
  std::uint32_t system_tokens = 0, subagents = 0;
};

struct ServingRequestsSection : TraceSection {
  std::optional<std::uint32_t> count;
  workload::inference::ArrivalProcess arrivals = workload::inference::ArrivalProcess::at_once;
  std::optional<double> rate_per_s;
  std::vector<StageSection> stages;
  double burstiness_ratio = 1;
  std::uint32_t concurrency = 0;
  workload::inference::TokensDistribution prompt_tokens, output_tokens;
  std::optional<workload::inference::SharedPrefix> prefix;
  std::optional<SessionsSection> sessions;
  std::vector<RequestItem> list;
};

struct ServingRequests {
  workload::inference::RequestSourceMaker make_source;

  using Longest = workload::inference::Longest;
  /// The longest prompt, and the largest sum of prompt and answer, for checks of memory. None if the distribution of the
  /// lengths has no bound.
  std::optional<Longest> prompt, prompt_and_output;
  /// The first priority other than 0.
  struct Priority {
    std::string key;
    Origin where;
  };
  std::optional<Priority> priority;
  bool has_contents = false;  ///< some requests tell the contents of their prompts
  bool has_sessions = false;  ///< some belong together, and follow each other
  bool has_leaves = false;    ///< clients may leave before they have their answer
  void include(std::uint64_t prompt_tokens, std::uint64_t output_tokens, const Origin& where);
};

/// Names of instances among which a fixed router finds those of a request.
struct InstanceNames {
  std::vector<std::string> prompts;  ///< colocated, or prefill
  std::vector<std::string> answers;  ///< decode
};

std::vector<Record<ServingRequestsSection>> serving_request_forms();
/// @throws InputError: keys that do not fit together, and any error of a trace
/// @param is_fixed  the router needs requests that say where they go
ServingRequests resolve_serving_requests(const ServingRequestsSection& written, const InstanceNames& names,
                                         bool is_fixed, std::uint64_t seed, const Source& source);

}  // namespace railyard::scenario
