#include "sc_main/scenario/kinds/traces.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "sc_main/scenario/kinds/serving_requests.h"
#include "sc_main/scenario/table/times.h"

namespace railyard::scenario {

using workload::inference::Request;
using workload::inference::RequestSource;

namespace {

struct PlacedRow {
  TraceRow row;
  Lines::Place place;
};
static_assert(sizeof(PlacedRow) <= 32, "all that is kept of a request that has not arrived");

/// The rows of a trace by arrival; rows of equal arrival as in the file.
class SortedRows {
 public:
  /// @param has_content  checks the contents of prompts
  SortedRows(TraceRows& reader, const TraceSection& trace, bool has_content) : rate_scale_(trace.rate_scale) {
    const std::size_t max_count = trace.max_count.value_or(std::numeric_limits<std::uint32_t>::max());
    TraceRow row;
    while (rows_.size() < max_count && reader.next(row)) {
      if (reader.priority() > 0 && !priority_) priority_ = reader.priority_place();
      if (has_content && !reader.content().ids.empty()) has_contents_ = true;
      rows_.push_back({row, reader.lines.place()});
    }
    if (rows_.empty()) throw reader.lines.error("the trace has no rows");
    rows_.shrink_to_fit();
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const PlacedRow& a, const PlacedRow& b) { return a.row.arrival_ns < b.row.arrival_ns; });
    const bool is_shifted = trace.format == TraceFormat::azure || trace.format == TraceFormat::mooncake;
    if (is_shifted) start_ns_ = rows_.front().row.arrival_ns;
    if (static_cast<double>(rows_.back().row.arrival_ns - start_ns_) / rate_scale_ > kLongestRunSeconds * 1e9) {
      throw reader.lines.error(
          "the arrivals span more than 5 hours, the limit of a run; set a smaller max_count or a larger rate_scale");
    }
  }

  const std::vector<PlacedRow>& rows() const { return rows_; }
  /// Some rows tell the contents of their prompts.
  bool has_contents() const { return has_contents_; }
  /// The first priority other than 0.
  const std::optional<Origin>& priority() const { return priority_; }
  Time arrival(std::size_t place) const {
    constexpr long double kFsPerNs = 1e6L;
    const auto after = static_cast<long double>(rows_[place].row.arrival_ns - start_ns_);
    return long_time(after * kFsPerNs / rate_scale_);
  }
  Request request(std::size_t place) const {
    return {arrival(place), rows_[place].row.prompt_tokens, rows_[place].row.output_tokens};
  }

 private:
  double rate_scale_;
  std::int64_t start_ns_ = 0;
  std::vector<PlacedRow> rows_;
  std::optional<Origin> priority_;
  bool has_contents_ = false;
};

class TraceSource : public RequestSource {
 public:
  TraceSource(std::unique_ptr<TraceRows> reader, std::shared_ptr<const SortedRows> sorted)
      : reader_(std::move(reader)), sorted_(std::move(sorted)) {}

  std::optional<Time> next_arrival() override {
    if (taken_ == count()) return std::nullopt;
    return sorted_->arrival(taken_);
  }
  Arrival take() override {
    const auto& [expected, place] = sorted_->rows()[taken_];
    reader_->lines.go_to(place);
    TraceRow row;
    const bool is_row = reader_->next(row);
    if (!is_row || row.prompt_tokens != expected.prompt_tokens || row.output_tokens != expected.output_tokens)
      throw reader_->lines.error("the trace has changed since the start of the run");
    Request request = sorted_->request(taken_++);
    request.priority = reader_->priority();
    return {request, reader_->content(), {}};
  }
  bool done(std::uint32_t, Time) override { return false; }
  std::uint32_t count() const override { return static_cast<std::uint32_t>(sorted_->rows().size()); }

 private:
  std::unique_ptr<TraceRows> reader_;
  std::shared_ptr<const SortedRows> sorted_;
  std::uint32_t taken_ = 0;
};

}  // namespace

std::vector<Request> load_trace(const TraceSection& trace, const Origin& where) {
  const auto reader = open_trace(trace.format, trace.file, where);
  const SortedRows sorted(*reader, trace, false);
  if (sorted.priority())
    throw InputError(*sorted.priority(),
                     "priority: does not apply here; accepted with workload.kind: serving and policy: priority");
  std::vector<Request> requests;
  requests.reserve(sorted.rows().size());
  for (std::size_t i = 0; i < sorted.rows().size(); ++i) requests.push_back(sorted.request(i));
  return requests;
}

ServingRequests stream_trace(const TraceSection& trace, const Origin& where) {
  const auto reader = open_trace(trace.format, trace.file, where);
  const auto sorted = std::make_shared<const SortedRows>(*reader, trace, true);
  ServingRequests result;
  result.has_contents = sorted->has_contents();
  if (sorted->priority()) result.priority = {"priority", *sorted->priority()};
  for (const auto& [row, place] : sorted->rows())
    result.include(row.prompt_tokens, row.output_tokens, {trace.file, place.line, 1});
  result.make_source = [=] {
    return std::make_unique<TraceSource>(open_trace(trace.format, trace.file, where), sorted);
  };
  return result;
}

}  // namespace railyard::scenario
