#include "sc_main/scenario/kinds/requests.h"

#include <algorithm>
#include <numeric>

#include "sc_main/scenario/table/times.h"

namespace railyard::scenario {

using workload::inference::Request;

namespace {

[[noreturn]] void refuse_request(const Source& source, const std::string& key, const std::string& what) {
  throw InputError(place_of(source.root, key), key + ": " + what);
}

Time arrival_of(const RequestItem& item) {
  constexpr long double kFsPerSecond = 1e15L;
  return long_time(item.arrival_s * kFsPerSecond);
}

}  // namespace

Record<RequestItem> request_item(bool output_is_required) {
  Record<RequestItem> item;
  item.add("arrival_s", &RequestItem::arrival_s, "arrival time from the start of the run").range(0, kLongestRunSeconds);
  item.add("prompt_tokens", &RequestItem::prompt_tokens, "tokens in the prompt").range(1, kMostTokens).required();
  Field& output = item.add("output_tokens", &RequestItem::output_tokens,
                           "tokens of the answer, including the first one, which prefill makes")
                      .range(1, kMostTokens);
  if (output_is_required) output.required();
  return item;
}

std::vector<std::size_t> listed_order(const std::vector<RequestItem>& list) {
  std::vector<std::size_t> order(list.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return arrival_of(list[a]) < arrival_of(list[b]); });
  return order;
}

std::vector<Request> listed_requests(const std::vector<RequestItem>& list, std::uint32_t otherwise_output) {
  std::vector<Request> result;
  for (const std::size_t i : listed_order(list)) {
    const RequestItem& item = list[i];
    result.push_back(
        {arrival_of(item), item.prompt_tokens, item.output_tokens.value_or(otherwise_output), item.priority});
  }
  return result;
}

std::vector<Record<RequestsSection>> request_forms() {
  Record<RequestsSection> fixed;
  fixed.add("count", &RequestsSection::count, "number of equal requests; all arrive at time zero")
      .range(1, kMostRequests);
  fixed.add("prompt_tokens", &RequestsSection::prompt_tokens, "tokens in each prompt").range(1, kMostTokens).required();
  fixed
      .add("output_tokens", &RequestsSection::output_tokens,
           "tokens of each answer, including the first one, which prefill makes")
      .range(1, kMostTokens);

  Record<RequestsSection> list;
  list.list("list", &RequestsSection::list, request_item(false), "one item per request").required();
  return {fixed, list, trace_form<RequestsSection>()};
}

std::vector<Request> resolve_requests(const RequestsSection& requests, std::optional<std::uint32_t> steps,
                                      const Source& source) {
  const std::string key = "workload.requests";
  const NodePtr written_steps = value_at(source.root, "workload.decode.steps");
  const bool is_list = value_at(source.root, key + ".list") != nullptr;
  std::vector<Request> result;
  if (!requests.file.empty()) {
    result = load_trace(requests, place_of(source.root, key + ".file"));
  } else {
    if (is_list && requests.list.empty())
      refuse_request(source, key + ".list", "is empty; accepted: at least one request");
    if (written_steps && !steps) {  // steps are `trace`
      const auto has_output = [](const RequestItem& item) { return item.output_tokens.has_value(); };
      const auto missing = std::find_if_not(requests.list.begin(), requests.list.end(), has_output);
      if (missing != requests.list.end()) {
        refuse_request(source, key + ".list." + std::to_string(missing - requests.list.begin()),
                       "has no output_tokens; workload.decode.steps: trace needs them");
      }
      if (!is_list && !requests.output_tokens)
        refuse_request(source, key, "has no output_tokens; workload.decode.steps: trace needs them");
    }
    const std::uint32_t otherwise_output = kDefaultSteps + 1;
    result = is_list ? listed_requests(requests.list, otherwise_output)
                     : std::vector<Request>(requests.count, {Time(), requests.prompt_tokens,
                                                             requests.output_tokens.value_or(otherwise_output), 0});
  }
  if (steps) {
    for (Request& request : result) request.output_tokens = *steps + 1;
  }
  return result;
}

}  // namespace railyard::scenario
