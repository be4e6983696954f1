#include "sc_main/scenario/kinds/traces.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/table/lines.h"
#include "sc_main/scenario/table/times.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using workload::inference::Request;

namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

struct Row {
  std::int64_t arrival_ns = 0;  ///< from the origin of the trace
  std::uint32_t prompt_tokens = 0, output_tokens = 0;
};

std::uint32_t tokens(const Lines& lines, const std::string& column, const std::string& text) {
  const bool is_number =
      !text.empty() && text.size() <= 12 && text.find_first_not_of("0123456789") == std::string::npos;
  const double value = is_number ? std::stod(text) : 0;
  if (!is_number) throw lines.error(column + ": expected an integer, got " + in_quotes(text));
  if (value < 1 || value > kMostTokens)
    throw lines.error(column + ": " + in_quotes(text) + " is out of range; accepted: 1 to " + number_text(kMostTokens));
  return static_cast<std::uint32_t>(value);
}

/// Days since 1970-01-01 in the Gregorian calendar. Years start in March, so that leap days come last.
std::int64_t days_from_epoch(std::int64_t year, std::int64_t month, std::int64_t day) {
  year -= month <= 2;
  const std::int64_t era = year / 400;
  const std::int64_t year_of_era = year - era * 400;
  const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  constexpr std::int64_t kDaysPerEra = 146097, kEpoch = 719468;
  return era * kDaysPerEra + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - kEpoch;
}

/// Parses 'YYYY-MM-DD HH:MM:SS[.fffffffff]', with an optional '+00:00', to nanoseconds since 1970.
std::optional<std::int64_t> timestamp_ns(std::string text) {
  const std::string utc = "+00:00";
  if (text.size() > utc.size() && text.compare(text.size() - utc.size(), utc.size(), utc) == 0)
    text.resize(text.size() - utc.size());
  const std::string pattern = "dddd-dd-dd dd:dd:dd";
  constexpr std::size_t kMostFraction = 9;
  if (text.size() < pattern.size()) return std::nullopt;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (pattern[i] == 'd' ? !is_digit : text[i] != pattern[i]) return std::nullopt;
  }
  const auto number = [&](std::size_t at, std::size_t length) { return std::stoll(text.substr(at, length)); };
  const std::int64_t year = number(0, 4), month = number(5, 2), day = number(8, 2), hour = number(11, 2),
                     minute = number(14, 2), second = number(17, 2);
  constexpr std::int64_t kFirstYear = 1970, kLastYear = 2200;  // nanoseconds since 1970 must fit into 64 bits
  if (year < kFirstYear || year > kLastYear || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 ||
      minute > 59 || second > 60)
    return std::nullopt;
  std::string fraction = text.substr(pattern.size());
  if (!fraction.empty()) {
    if (fraction[0] != '.' || fraction.size() < 2 || fraction.size() > kMostFraction + 1 ||
        fraction.find_first_not_of("0123456789", 1) != std::string::npos) {
      return std::nullopt;
    }
    fraction = fraction.substr(1);
  }
  fraction.resize(kMostFraction, '0');
  const std::int64_t seconds = ((days_from_epoch(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
  return seconds * kNsPerSecond + std::stoll(fraction);
}

std::vector<Row> read_azure(Lines& lines, std::size_t max_count) {
  CsvColumns table(lines, {"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, "trace");
  std::vector<std::string> cells;
  std::vector<Row> rows;
  while (rows.size() < max_count && table.next(cells)) {
    const auto arrival = timestamp_ns(cells[0]);
    if (!arrival) throw lines.error("TIMESTAMP: expected 'YYYY-MM-DD HH:MM:SS.fffffff', got " + in_quotes(cells[0]));
    rows.push_back({*arrival, tokens(lines, "ContextTokens", cells[1]), tokens(lines, "GeneratedTokens", cells[2])});
  }
  return rows;
}

std::vector<Row> read_mooncake(Lines& lines, std::size_t max_count) {
  std::vector<Row> rows;
  std::string line;
  while (rows.size() < max_count && lines.next(line)) {
    const nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
    if (!row.is_object()) throw lines.error("expected a JSON object on each line, got " + in_quotes(line));
    const auto field = [&](const char* key) {
      if (!row.contains(key)) throw lines.error(std::string(key) + ": is required on each line");
      return row[key];
    };
    const auto count = [&](const char* key) {
      const nlohmann::json value = field(key);
      return tokens(lines, key, value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
    };
    const nlohmann::json timestamp = field("timestamp");
    constexpr double kLatestMs = 1e12;
    if (!timestamp.is_number() || timestamp.get<double>() < 0 || !(timestamp.get<double>() < kLatestMs)) {
      throw lines.error("timestamp: expected milliseconds, got " +
                        in_quotes(timestamp.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
    }
    constexpr double kNsPerMs = 1e6;
    constexpr std::int64_t kWholeNsPerMs = 1'000'000;
    const std::int64_t arrival = timestamp.is_number_integer()
                                     ? timestamp.get<std::int64_t>() * kWholeNsPerMs
                                     : static_cast<std::int64_t>(timestamp.get<double>() * kNsPerMs);
    rows.push_back({arrival, count("input_length"), count("output_length")});
  }
  return rows;
}

}  // namespace

std::vector<Request> load_trace(const RequestsSection& requests, const std::string& path, const Origin& where) {
  Lines lines(path, "workload.requests.file", where);
  const std::size_t max_count = requests.max_count.value_or(std::numeric_limits<std::uint32_t>::max());
  std::vector<Row> rows =
      requests.format == TraceFormat::azure ? read_azure(lines, max_count) : read_mooncake(lines, max_count);
  if (rows.empty()) throw lines.error("the trace has no rows");
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.arrival_ns < b.arrival_ns; });
  const std::int64_t start = rows.front().arrival_ns;
  if (static_cast<double>(rows.back().arrival_ns - start) / requests.rate_scale > kLongestRunSeconds * 1e9) {
    throw lines.error(
        "the arrivals span more than 5 hours, the limit of a run; set a smaller max_count or a larger rate_scale");
  }
  std::vector<Request> result;
  result.reserve(rows.size());
  constexpr long double kFsPerNs = 1e6L;
  for (const Row& row : rows) {
    const auto after = static_cast<long double>(row.arrival_ns - start);
    result.push_back({long_time(after * kFsPerNs / requests.rate_scale), row.prompt_tokens, row.output_tokens});
  }
  return result;
}

}  // namespace railyard::scenario
