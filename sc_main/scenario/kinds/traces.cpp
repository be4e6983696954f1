#include "sc_main/scenario/kinds/traces.h"

#include <algorithm>
#include <limits>

#include "sc_main/scenario/table/times.h"

namespace railyard::scenario {

using workload::inference::Request;

namespace {

/// Ordered by arrival; rows of equal arrival as in the file.
std::vector<TraceRow> read_rows(TraceRows& rows, const TraceSection& trace) {
  const std::size_t max_count = trace.max_count.value_or(std::numeric_limits<std::uint32_t>::max());
  std::vector<TraceRow> all;
  TraceRow row;
  while (all.size() < max_count && rows.next(row)) {
    all.push_back(row);
  }
  if (all.empty()) throw rows.lines.error("the trace has no rows");
  std::stable_sort(all.begin(), all.end(),
                   [](const TraceRow& a, const TraceRow& b) { return a.arrival_ns < b.arrival_ns; });
  return all;
}

std::vector<Request> requests_of(const std::vector<TraceRow>& rows, const TraceSection& trace, const Lines& lines) {
  const bool is_shifted = trace.format == TraceFormat::azure || trace.format == TraceFormat::mooncake;
  const std::int64_t start = is_shifted ? rows.front().arrival_ns : 0;
  if (static_cast<double>(rows.back().arrival_ns - start) / trace.rate_scale > kLongestRunSeconds * 1e9) {
    throw lines.error(
        "the arrivals span more than 5 hours, the limit of a run; set a smaller max_count or a larger rate_scale");
  }
  std::vector<Request> result;
  result.reserve(rows.size());
  constexpr long double kFsPerNs = 1e6L;
  for (const TraceRow& row : rows) {
    const auto after = static_cast<long double>(row.arrival_ns - start);
    result.push_back({long_time(after * kFsPerNs / trace.rate_scale), row.prompt_tokens, row.output_tokens});
  }
  return result;
}

}  // namespace

std::vector<Request> load_trace(const TraceSection& trace, const Origin& where) {
  const auto rows = open_trace(trace.format, trace.file, where);
  return requests_of(read_rows(*rows, trace), trace, rows->lines);
}

}  // namespace railyard::scenario
