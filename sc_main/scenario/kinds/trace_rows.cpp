#include "sc_main/scenario/kinds/trace_rows.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "sc_main/scenario/kinds/trace_rows_json.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

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

class CsvRows : public TraceRows {
 public:
  /// The columns: arrival, prompt tokens, output tokens.
  CsvRows(const std::string& path, const Origin& where, std::array<const char*, 3> columns)
      : TraceRows(path, where), columns_(columns), table_(lines, {columns.begin(), columns.end()}, "trace") {}

  bool next(TraceRow& row) override {
    std::vector<std::string> cells;
    if (!table_.next(cells)) return false;
    const auto refuse = [&](const std::string& what) { return lines.error(what); };
    row.arrival_ns = arrival_ns(cells[0]);
    row.prompt_tokens = tokens(columns_[1], cells[1], refuse);
    row.output_tokens = tokens(columns_[2], cells[2], refuse);
    return true;
  }

 protected:
  virtual std::int64_t arrival_ns(const std::string& cell) const = 0;

 private:
  std::array<const char*, 3> columns_;
  CsvColumns table_;
};

class AzureRows : public CsvRows {
 public:
  AzureRows(const std::string& path, const Origin& where)
      : CsvRows(path, where, {"TIMESTAMP", "ContextTokens", "GeneratedTokens"}) {}

 private:
  std::int64_t arrival_ns(const std::string& cell) const override {
    const auto arrival = timestamp_ns(cell);
    if (!arrival) throw lines.error("TIMESTAMP: expected 'YYYY-MM-DD HH:MM:SS.fffffff', got " + in_quotes(cell));
    return *arrival;
  }
};

class VidurRows : public CsvRows {
 public:
  VidurRows(const std::string& path, const Origin& where)
      : CsvRows(path, where, {"arrived_at", "num_prefill_tokens", "num_decode_tokens"}) {}

 private:
  std::int64_t arrival_ns(const std::string& cell) const override {
    constexpr double kLatestSeconds = 1e9;
    double seconds = -1;
    const char* const end = cell.data() + cell.size();
    const auto parsed = std::from_chars(cell.data(), end, seconds);
    if (parsed.ec != std::errc() || parsed.ptr != end || !(seconds >= 0 && seconds < kLatestSeconds))
      throw lines.error("arrived_at: expected seconds, at least 0, got " + in_quotes(cell));
    return std::llround(seconds * static_cast<double>(kNsPerSecond));
  }
};

}  // namespace

const std::vector<std::string>& trace_format_names() {
  static const std::vector<std::string> names{"azure", "mooncake", "llmservingsim", "vidur", "bailian"};
  return names;
}

std::unique_ptr<TraceRows> open_trace(TraceFormat format, const std::string& path, const Origin& where) {
  switch (format) {
    case TraceFormat::azure: return std::make_unique<AzureRows>(path, where);
    case TraceFormat::mooncake: return mooncake_rows(path, where);
    case TraceFormat::llmservingsim: return llmservingsim_rows(path, where);
    case TraceFormat::vidur: return std::make_unique<VidurRows>(path, where);
    case TraceFormat::bailian: return bailian_rows(path, where);
  }
  return nullptr;
}

}  // namespace railyard::scenario
