#include "sc_main/scenario/kinds/trace_rows.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/table/node.h"
#include "sc_main/scenario/table/record.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using nlohmann::json;
using workload::inference::RequestContent;

namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

/// @param refuse  makes an error of a text
template <class Refuse>
std::uint32_t tokens(const std::string& column, const std::string& text, const Refuse& refuse) {
  const bool is_number =
      !text.empty() && text.size() <= 12 && text.find_first_not_of("0123456789") == std::string::npos;
  const double value = is_number ? std::stod(text) : 0;
  if (!is_number) throw refuse(column + ": expected an integer, got " + in_quotes(text));
  if (value < 1 || value > kMostTokens)
    throw refuse(column + ": " + in_quotes(text) + " is out of range; accepted: 1 to " + number_text(kMostTokens));
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

std::string text_of(const json& value) { return value.dump(-1, ' ', true, json::error_handler_t::replace); }

class JsonRows : public TraceRows {
 public:
  JsonRows(const std::string& path, const Origin& where) : TraceRows(path, where), path_(path) {}

  std::uint32_t priority() const override {
    if (!row_.contains("priority")) return 0;
    const json& priority = row_["priority"];
    if (!priority.is_number_unsigned() || priority.get<std::uint64_t>() > static_cast<std::uint64_t>(kMostPriority))
      throw error_at("priority", "expected an integer from 0 to " + number_text(kMostPriority) + ", got " +
                                     in_quotes(text_of(priority)));
    return priority.get<std::uint32_t>();
  }
  Origin priority_place() const override { return place_of(tree(), "priority"); }

 protected:
  /// Reads a line; if it is not JSON, the row is not an object.
  bool next_row() {
    if (!lines.next(line_)) return false;
    row_ = json::parse(line_, nullptr, false);
    return true;
  }
  InputError not_an_object() const {
    return lines.error("expected a JSON object on each line, got " + in_quotes(line_));
  }
  const json& required(const char* key) const {
    if (!row_.contains(key)) throw lines.error(std::string(key) + ": is required on each line");
    return row_[key];
  }
  /// The row as a tree with positions. Slower than parse(), so only errors use it. @throws InputError: not valid JSON
  NodePtr tree() const {
    const std::string earlier_lines(static_cast<std::size_t>(lines.place().line - 1), '\n');
    return parse_json(earlier_lines + line_, path_);
  }
  /// An error at a value of the row, such as "hash_ids.3".
  InputError error_at(const std::string& key, const std::string& what) const {
    return InputError(place_of(tree(), key), key + ": " + what);
  }

  /// The list of non-negative integers at `key`.
  std::vector<std::uint64_t> ids(const char* key) const {
    const json& list = row_[key];
    if (!list.is_array()) throw error_at(key, "expected a list of integers, got " + in_quotes(text_of(list)));
    std::vector<std::uint64_t> result;
    result.reserve(list.size());
    for (const json& id : list) {
      if (!id.is_number_unsigned())
        throw error_at(key + ("." + std::to_string(result.size())),
                       "expected an integer, at least 0, got " + in_quotes(text_of(id)));
      result.push_back(id.get<std::uint64_t>());
    }
    return result;
  }
  /// Content by hash_ids. The id of a last block that the prompt does not fill is left out.
  RequestContent hashed_content(std::uint32_t block_tokens, std::uint32_t prompt_tokens) const {
    RequestContent content{block_tokens, ids("hash_ids")};
    const std::uint32_t needed = prompt_tokens / block_tokens;
    if (content.ids.size() < needed)
      throw error_at("hash_ids", "a prompt of " + std::to_string(prompt_tokens) + " tokens needs at least " +
                                     std::to_string(needed) + " ids of " + std::to_string(block_tokens) +
                                     " tokens, got " + std::to_string(content.ids.size()));
    content.ids.resize(needed);
    return content;
  }

  json row_;

 private:
  std::string path_, line_;
};

class MooncakeRows : public JsonRows {
 public:
  using JsonRows::JsonRows;

  bool next(TraceRow& row) override {
    if (!next_row()) return false;
    if (!row_.is_object()) throw not_an_object();
    const auto refuse = [&](const std::string& what) { return lines.error(what); };
    const json& timestamp = required("timestamp");
    constexpr double kLatestMs = 1e12;
    if (!timestamp.is_number() || timestamp.get<double>() < 0 || !(timestamp.get<double>() < kLatestMs))
      throw lines.error("timestamp: expected milliseconds, got " + in_quotes(text_of(timestamp)));
    constexpr double kNsPerMs = 1e6;
    constexpr std::int64_t kWholeNsPerMs = 1'000'000;
    row.arrival_ns = timestamp.is_number_integer() ? timestamp.get<std::int64_t>() * kWholeNsPerMs
                                                   : static_cast<std::int64_t>(timestamp.get<double>() * kNsPerMs);
    row.prompt_tokens = prompt_tokens_ = tokens("input_length", text_of(required("input_length")), refuse);
    row.output_tokens = tokens("output_length", text_of(required("output_length")), refuse);
    return true;
  }

  RequestContent content() const override {
    constexpr std::uint32_t kBlockTokens = 512;
    return row_.contains("hash_ids") ? hashed_content(kBlockTokens, prompt_tokens_) : RequestContent();
  }

 private:
  std::uint32_t prompt_tokens_ = 0;
};

class LlmServingSimRows : public JsonRows {
 public:
  using JsonRows::JsonRows;

  bool next(TraceRow& row) override {
    if (!next_row()) return false;
    if (row_.is_discarded()) tree();  // throws the error with its column
    if (!row_.is_object()) throw not_an_object();
    if (row_.contains("sub_requests"))
      throw error_at("sub_requests",
                     "sessions are not supported; accepted: rows with input_toks, output_toks and arrival_time_ns");
    const json& arrival = required("arrival_time_ns");
    constexpr double kLatestNs = 1e18;
    if (!arrival.is_number() || !(arrival.get<double>() >= 0 && arrival.get<double>() < kLatestNs))
      throw error_at("arrival_time_ns", "expected nanoseconds, at least 0, got " + in_quotes(text_of(arrival)));
    row.arrival_ns = arrival.is_number_integer() ? arrival.get<std::int64_t>() : std::llround(arrival.get<double>());
    row.prompt_tokens = count("input_toks");
    row.output_tokens = count("output_toks");
    lengths_ = row;
    return true;
  }

  RequestContent content() const override {
    std::vector<std::uint64_t> answer;
    if (row_.contains("output_tok_ids")) answer = ids_of("output_tok_ids", "output_toks", lengths_.output_tokens);
    if (row_.contains("input_tok_ids")) {
      RequestContent content{1, ids_of("input_tok_ids", "input_toks", lengths_.prompt_tokens)};
      content.ids.insert(content.ids.end(), answer.begin(), answer.end());
      return content;
    }
    if (!row_.contains("hash_ids")) return {};
    if (!row_.contains("hash_block_tokens")) throw error_at("hash_ids", "needs hash_block_tokens beside it");
    return hashed_content(count("hash_block_tokens"), lengths_.prompt_tokens);
  }

 private:
  std::uint32_t count(const char* key) const {
    return tokens(key, text_of(required(key)),
                  [&](const std::string& what) { return InputError(place_of(tree(), key), what); });
  }
  std::vector<std::uint64_t> ids_of(const char* key, const char* length_key, std::uint32_t length) const {
    std::vector<std::uint64_t> result = ids(key);
    if (result.size() != length)
      throw error_at(key, "expected " + std::to_string(length) + " ids, as " + length_key + " says, got " +
                              std::to_string(result.size()));
    return result;
  }

  TraceRow lengths_;
};

}  // namespace

const std::vector<std::string>& trace_format_names() {
  static const std::vector<std::string> names{"azure", "mooncake", "llmservingsim", "vidur"};
  return names;
}

std::unique_ptr<TraceRows> open_trace(TraceFormat format, const std::string& path, const Origin& where) {
  switch (format) {
    case TraceFormat::azure: return std::make_unique<AzureRows>(path, where);
    case TraceFormat::mooncake: return std::make_unique<MooncakeRows>(path, where);
    case TraceFormat::llmservingsim: return std::make_unique<LlmServingSimRows>(path, where);
    case TraceFormat::vidur: return std::make_unique<VidurRows>(path, where);
  }
  return nullptr;
}

}  // namespace railyard::scenario
