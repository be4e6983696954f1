// workload.requests as a trace: arrival times and token counts of real traffic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sc_main/scenario/kinds/trace_rows.h"
#include "sc_main/scenario/table/record.h"

namespace railyard::scenario {

constexpr double kMostRequests = 1e6;

struct TraceSection {
  TraceFormat format = TraceFormat::azure;
  std::string file;
  std::optional<std::uint32_t> max_count;
  double rate_scale = 1;
};

/// The keys. Section: a struct derived from TraceSection.
template <class Section>
Record<Section> trace_form() {
  Record<Section> trace;
  trace
      .choice("format", &TraceSection::format, trace_format_names(),
              "format of the trace: Azure LLM inference CSV, Mooncake JSONL, LLMServingSim JSONL, Vidur CSV, or "
              "Qwen-Bailian "
              "JSONL")
      .required();
  trace.add("file", &TraceSection::file, "file of the trace").is_path().required();
  trace.add("max_count", &TraceSection::max_count, "use only this many rows, from the start of the trace")
      .range(1, kMostRequests)
      .fallback("all rows");
  trace.add("rate_scale", &TraceSection::rate_scale, "factor on the request rate; times after an answer stay")
      .above(0, 1e6);
  return trace;
}

/// The first `max_count` rows by arrival, with times divided by rate_scale. Azure's, Mooncake's and Bailian's traces have dates or
/// an origin of their own, so their earliest request arrives at time zero; the others count from the start of the run.
/// @param where  of the key that names the file; errors of reading refer to it
std::vector<workload::inference::Request> load_trace(const TraceSection& trace, const Origin& where);

struct ServingRequests;
/// The same requests with the contents of their prompts, each after the answers for which it waits. All rows are checked, but
/// memory holds only 32 bytes for each request, and about 100 more if requests wait for others: the content of a prompt is read
/// again from the file when the request is taken.
ServingRequests stream_trace(const TraceSection& trace, const Origin& where);

}  // namespace railyard::scenario
