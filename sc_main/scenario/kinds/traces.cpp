#include "sc_main/scenario/kinds/traces.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "sc_main/scenario/kinds/serving_requests.h"
#include "sc_main/scenario/kinds/trace_sessions.h"
#include "sc_main/scenario/table/times.h"

namespace railyard::scenario {

using workload::inference::Request;
using workload::inference::RequestContent;
using workload::inference::RequestSource;

namespace {

struct PlacedRow {
  TraceRow row;
  TraceRows::Place place;
};
static_assert(sizeof(PlacedRow) <= 32,
              "all that is kept of a request that has not arrived, and belongs to no other one");

/// The rows of a trace by arrival; rows of equal arrival as in the file.
class SortedRows {
 public:
  /// @param has_content  checks the contents of prompts
  SortedRows(TraceRows& reader, const TraceSection& trace, bool has_content)
      : rate_scale_(trace.rate_scale), sessions_(trace.file) {
    const std::size_t max_count = trace.max_count.value_or(std::numeric_limits<std::uint32_t>::max());
    TraceRow row;
    while (rows_.size() < max_count && reader.next(row)) {
      if (reader.priority() > 0 && !priority_) priority_ = reader.priority_place();
      if (has_content && !reader.content().ids.empty()) has_contents_ = true;
      if (reader.tells_leave() && !leave_) leave_ = reader.leave_place();
      reader.leave_ns();  // checks it
      sessions_.add(reader.link(), row, reader);
      rows_.push_back({row, reader.place()});
    }
    if (rows_.empty()) throw reader.lines.error("the trace has no rows");
    rows_.shrink_to_fit();
    sort(reader.link_keys());
    if (!sessions_.empty()) has_contents_ = true;
    const bool is_shifted = trace.format == TraceFormat::azure || trace.format == TraceFormat::mooncake ||
                            trace.format == TraceFormat::bailian;
    if (is_shifted) start_ns_ = rows_.front().row.arrival_ns;
    if (static_cast<double>(rows_.back().row.arrival_ns - start_ns_) / rate_scale_ > kLongestRunSeconds * 1e9) {
      throw reader.lines.error(
          "the arrivals span more than 5 hours, the limit of a run; set a smaller max_count or a larger rate_scale");
    }
  }

  const std::vector<PlacedRow>& rows() const { return rows_; }
  const TraceSessions& sessions() const { return sessions_; }
  /// Some rows tell the contents of their prompts.
  bool has_contents() const { return has_contents_; }
  /// The first priority other than 0.
  const std::optional<Origin>& priority() const { return priority_; }
  /// The first row that says whether its client leaves.
  const std::optional<Origin>& leave() const { return leave_; }
  /// The earliest one, if the row waits for others.
  Time arrival(std::size_t place) const {
    constexpr long double kFsPerNs = 1e6L;
    const auto after = static_cast<long double>(rows_[place].row.arrival_ns - start_ns_);
    return long_time(after * kFsPerNs / rate_scale_);
  }
  std::int64_t row_arrival_ns(std::size_t place) const { return rows_[place].row.arrival_ns; }
  Request request(std::size_t place) const {
    return {arrival(place), rows_[place].row.prompt_tokens, rows_[place].row.output_tokens};
  }

 private:
  void sort(const TraceRows::LinkKeys& keys) {
    std::vector<TraceRow*> in_file;
    for (PlacedRow& row : rows_) in_file.push_back(&row.row);
    sessions_.close(std::move(in_file), keys);
    const auto arrives_before = [](const PlacedRow& a, const PlacedRow& b) {
      return a.row.arrival_ns < b.row.arrival_ns;
    };
    if (!sessions_.empty()) {
      std::vector<std::uint32_t> order(rows_.size()), now(rows_.size());
      std::iota(order.begin(), order.end(), 0u);
      std::stable_sort(order.begin(), order.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return arrives_before(rows_[a], rows_[b]); });
      for (std::uint32_t place = 0; place < order.size(); ++place) now[order[place]] = place;
      sessions_.renumber(now);
    }
    std::stable_sort(rows_.begin(), rows_.end(), arrives_before);
  }

  double rate_scale_;
  std::int64_t start_ns_ = 0;
  std::vector<PlacedRow> rows_;
  TraceSessions sessions_;
  std::optional<Origin> priority_, leave_;
  bool has_contents_ = false;
};

class TraceSource : public RequestSource {
 public:
  TraceSource(std::unique_ptr<TraceRows> reader, std::shared_ptr<const SortedRows> sorted)
      : reader_(std::move(reader)), sorted_(std::move(sorted)) {
    if (sessions().empty()) return;
    for (std::uint32_t row = 0; row < count(); ++row) awaited_.push_back(sessions().awaited(row));
  }

  std::optional<Time> next_arrival() override {
    while (next_ < count() && waits(next_)) ++next_;
    if (is_ready_next()) return ready_.top().at;
    if (next_ == count()) return std::nullopt;
    return sorted_->arrival(next_);
  }
  Arrival take() override {
    next_arrival();
    Ready next{{}, next_, {}};
    if (is_ready_next()) {
      next = ready_.top();
      ready_.pop();
    } else {
      next.at = sorted_->arrival(next_++);
    }
    read(next.row);
    Arrival arrival{sorted_->request(next.row), {}, next.after};
    arrival.request.arrival = next.at;
    arrival.request.priority = reader_->priority();
    if (const auto leave_ns = reader_->leave_ns())
      arrival.request.leaves =
          next.at + Time::ns(static_cast<std::uint64_t>(*leave_ns - sorted_->row_arrival_ns(next.row)));
    if (sessions().empty()) {
      arrival.content = reader_->content();
    } else {
      arrival.request.session = sessions().session(next.row);
      arrival.content = content(next.row);
      if (!sessions().followers(next.row).empty()) row_of_.emplace(taken_, next.row);
    }
    ++taken_;
    return arrival;
  }
  std::uint32_t done(std::uint32_t request, Time now) override {
    const auto found = row_of_.find(request);
    if (found == row_of_.end()) return 0;
    const std::uint32_t row = found->second;
    row_of_.erase(found);
    std::uint32_t caused = 0;
    for (const std::uint32_t follower : sessions().followers(row)) {
      if (--awaited_[follower] > 0) continue;
      const Time after = now + Time::ns(static_cast<std::uint64_t>(sessions().delay_ns(follower)));
      const Time earliest = sorted_->arrival(follower);
      const bool is_cause = earliest <= after;
      ready_.push({later(earliest, after), follower, is_cause ? std::optional(request) : std::nullopt});
      caused += is_cause ? 1 : 0;
    }
    return caused;
  }
  bool follows_answers() const override { return !sessions().empty(); }
  std::uint32_t count() const override { return static_cast<std::uint32_t>(sorted_->rows().size()); }

 private:
  /// A row that has waited, and for whom its arrival depends.
  struct Ready {
    Time at;
    std::uint32_t row = 0;
    std::optional<std::uint32_t> after;
  };
  struct ArrivesLater {
    bool operator()(const Ready& a, const Ready& b) const { return a.at != b.at ? b.at < a.at : a.row > b.row; }
  };

  const TraceSessions& sessions() const { return sorted_->sessions(); }
  bool waits(std::uint32_t row) const { return !sessions().empty() && sessions().awaited(row) > 0; }
  bool is_ready_next() const {
    return !ready_.empty() && (next_ == count() || ready_.top().at <= sorted_->arrival(next_));
  }
  void read(std::uint32_t row) {
    const auto& [expected, place] = sorted_->rows()[row];
    reader_->go_to(place);
    TraceRow now;
    const bool is_row = reader_->next(now);
    if (!is_row || now.prompt_tokens != expected.prompt_tokens || now.output_tokens != expected.output_tokens)
      throw reader_->lines.error("the trace has changed since the start of the run");
  }
  /// Of the row that has been read, with its answer, as far as it is known.
  RequestContent content(std::uint32_t row) {
    RequestContent content = reader_->content();
    if (content.ids.empty()) return by_lengths(row);
    if (content.block_tokens > 1) add_answer(content, row);
    return content;
  }
  /// Without ids: a prompt that is long enough begins with the earlier prompt of its session and its answer; a shorter one has
  /// nothing in common with it.
  RequestContent by_lengths(std::uint32_t row) const {
    constexpr std::uint64_t kUnlikeOthers = 1ull << 63;
    std::vector<std::uint32_t> history{row};
    while (sessions().history(history.back()) != TraceSessions::kNone)
      history.push_back(sessions().history(history.back()));
    RequestContent content;
    for (auto one = history.rbegin(); one != history.rend(); ++one) {
      const TraceRow& lengths = sorted_->rows()[*one].row;
      if (lengths.prompt_tokens < content.described()) content = {};
      content.add(kUnlikeOthers + 2ull * *one, lengths.prompt_tokens - content.described());
      content.add(kUnlikeOthers + 2ull * *one + 1, lengths.output_tokens);
    }
    return content;
  }
  /// The next prompt of the session has the ids of the answer, too, if it begins with this prompt.
  void add_answer(RequestContent& content, std::uint32_t row) {
    const std::uint64_t tokens = sorted_->request(row).prompt_tokens + sorted_->request(row).output_tokens;
    for (const std::uint32_t follower : sessions().followers(row)) {
      if (sessions().history(follower) != row || sorted_->request(follower).prompt_tokens < tokens) continue;
      read(follower);
      const RequestContent next = reader_->content();
      if (next.block_tokens != content.block_tokens || next.ids.size() < content.ids.size() ||
          !std::equal(content.ids.begin(), content.ids.end(), next.ids.begin()))
        continue;
      const std::size_t known = std::min<std::size_t>(next.ids.size(), tokens / content.block_tokens);
      RequestContent with_answer;
      for (std::size_t i = 0; i < known; ++i) with_answer.add(next.ids[i], content.block_tokens);
      content = std::move(with_answer);
      return;
    }
  }

  std::unique_ptr<TraceRows> reader_;
  std::shared_ptr<const SortedRows> sorted_;
  std::uint32_t next_ = 0;  ///< of the rows that wait for no other
  std::uint32_t taken_ = 0;
  std::vector<std::uint32_t> awaited_;  ///< answers for which a row still waits
  std::priority_queue<Ready, std::vector<Ready>, ArrivesLater> ready_;
  std::unordered_map<std::uint32_t, std::uint32_t> row_of_;  ///< of requests on the way for which others wait
};

}  // namespace

std::vector<Request> load_trace(const TraceSection& trace, const Origin& where) {
  const auto reader = open_trace(trace.format, trace.file, where);
  const SortedRows sorted(*reader, trace, false);
  if (sorted.priority())
    throw InputError(*sorted.priority(),
                     "priority: does not apply here; accepted with workload.kind: serving and policy: priority");
  if (sorted.leave())
    throw InputError(*sorted.leave(),
                     "client_left_ns: does not apply here; accepted with workload.kind: serving and a paged KV cache");
  if (!sorted.sessions().empty())
    throw InputError(
        sorted.sessions().place(),
        "sessions: a request that waits for an answer does not apply here; accepted with workload.kind: serving");
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
  result.has_sessions = !sorted->sessions().empty();
  result.has_leaves = sorted->leave().has_value();
  if (sorted->priority()) result.priority = {"priority", *sorted->priority()};
  for (const auto& [row, place] : sorted->rows())
    result.include(row.prompt_tokens, row.output_tokens, {trace.file, place.line, 1});
  result.make_source = [=] {
    return std::make_unique<TraceSource>(open_trace(trace.format, trace.file, where), sorted);
  };
  return result;
}

}  // namespace railyard::scenario
