// workload.requests: the prompts, for kinds that serve requests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sc_main/scenario/kinds/traces.h"
#include "sc_main/scenario/table/record.h"
#include "workload/inference/requests/request.h"

namespace railyard::scenario {

struct RequestItem {
  double arrival_s = 0;
  std::uint32_t prompt_tokens = 0;
  std::optional<std::uint32_t> output_tokens;
  std::uint32_t priority = 0;
  std::optional<std::string> instance, decode_instance;  ///< names
  std::uint64_t session = 0;
};

struct RequestsSection : TraceSection {
  std::uint32_t count = 1;
  std::uint32_t prompt_tokens = 0;
  std::optional<std::uint32_t> output_tokens;
  std::vector<RequestItem> list;
};

constexpr std::uint32_t kDefaultSteps = 8;

Record<RequestItem> request_item(bool output_is_required);
/// The items by arrival: their places, and the requests. `otherwise_output`: output tokens of items without this key.
std::vector<std::size_t> listed_order(const std::vector<RequestItem>& list);
std::vector<workload::inference::Request> listed_requests(const std::vector<RequestItem>& list,
                                                          std::uint32_t otherwise_output);

/// The forms: a count of equal requests, a list, or a trace.
std::vector<Record<RequestsSection>> request_forms();
/// Requests by arrival. `steps`: decode steps of every request, instead of its output_tokens or the default.
std::vector<workload::inference::Request> resolve_requests(const RequestsSection& requests,
                                                           std::optional<std::uint32_t> steps, const Source& source);

}  // namespace railyard::scenario
