#include "sc_main/scenario/kinds/trace_rows_json.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/table/node.h"

namespace railyard::scenario {

using nlohmann::json;
using workload::inference::RequestContent;

namespace {

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
    if (!values().contains(key)) throw lines.error(std::string(key) + ": is required on each line");
    return values()[key];
  }
  /// An amount of time that can be left out. @param most  below it
  double duration(const char* key, double most) const {
    if (!values().contains(key)) return 0;
    const json& value = values()[key];
    if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() < most))
      throw error_at(key, "expected a time, at least 0, got " + in_quotes(text_of(value)));
    return value.get<double>();
  }
  /// A name of the line that can be left out: a text or an integer.
  std::optional<std::string> named(const char* key) const {
    return row_.contains(key) && !row_[key].is_null() ? std::optional(name_of(key, row_[key])) : std::nullopt;
  }
  std::string name_of(const std::string& key, const json& value) const {
    if (!value.is_string() && !value.is_number_integer())
      throw InputError(place_of(tree(), key),
                       key + ": expected a text or an integer, got " + in_quotes(text_of(value)));
    return value.is_string() ? value.get<std::string>() : value.dump();
  }
  /// The row as a tree with positions. Slower than parse(), so only errors use it. @throws InputError: not valid JSON
  NodePtr tree() const {
    const std::string earlier_lines(static_cast<std::size_t>(lines.place().line - 1), '\n');
    return parse_json(earlier_lines + line_, path_);
  }
  /// An error at a value of the row, such as "hash_ids.3".
  InputError error_at(const std::string& key, const std::string& what) const {
    return InputError(place_of(tree(), within() + key), within() + key + ": " + what);
  }

  /// The list of non-negative integers at `key`.
  std::vector<std::uint64_t> ids(const char* key) const {
    const json& list = values()[key];
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
    RequestContent content{block_tokens, ids("hash_ids"), {}};
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
  /// The object that has the row's values, and its place in the line: "sub_requests.3.".
  virtual const json& values() const { return row_; }
  virtual std::string within() const { return ""; }

  std::string path_, line_;
};

/// Rows with `input_length`, `output_length` and perhaps `hash_ids`.
class HashedRows : public JsonRows {
 public:
  using JsonRows::JsonRows;

  bool next(TraceRow& row) override {
    if (!next_row()) return false;
    if (!row_.is_object()) throw not_an_object();
    const auto refuse = [&](const std::string& what) { return lines.error(what); };
    row.arrival_ns = arrival_ns();
    row.prompt_tokens = prompt_tokens_ = tokens("input_length", text_of(required("input_length")), refuse);
    row.output_tokens = tokens("output_length", text_of(required("output_length")), refuse);
    return true;
  }

  RequestContent content() const override {
    return row_.contains("hash_ids") ? hashed_content(block_tokens(), prompt_tokens_) : RequestContent();
  }

 private:
  virtual std::int64_t arrival_ns() const = 0;
  /// Tokens for which an id stands.
  virtual std::uint32_t block_tokens() const = 0;

  std::uint32_t prompt_tokens_ = 0;
};

class MooncakeRows : public HashedRows {
 public:
  using HashedRows::HashedRows;

  TraceLink link() const override {
    TraceLink link;
    link.session = named("session_id");
    link.name = named("request_id");
    if (row_.contains("wait_for")) {
      const json& names = row_["wait_for"];
      if (!names.is_array())
        throw error_at("wait_for", "expected a list of request_ids, got " + in_quotes(text_of(names)));
      for (const json& name : names)
        link.after.push_back(name_of("wait_for." + std::to_string(link.after.size()), name));
    } else if (link.session && !link.name) {
      link.follows = TraceLink::Follows::session;
    }
    link.delay_ns = std::llround((duration("delay", kLatestMs) + duration("tool_wait_ms", kLatestMs)) * kNsPerMs);
    return link;
  }
  LinkKeys link_keys() const override { return {"wait_for", "request_id"}; }

 private:
  static constexpr double kNsPerMs = 1e6, kLatestMs = 1e12;

  std::uint32_t block_tokens() const override { return 512; }

  std::int64_t arrival_ns() const override {
    if (!row_.contains("timestamp") && !link().is_none()) return TraceRow::kNoArrival;
    const json& timestamp = required("timestamp");
    if (!timestamp.is_number() || timestamp.get<double>() < 0 || !(timestamp.get<double>() < kLatestMs))
      throw lines.error("timestamp: expected milliseconds, got " + in_quotes(text_of(timestamp)));
    constexpr std::int64_t kWholeNsPerMs = 1'000'000;
    return timestamp.is_number_integer() ? timestamp.get<std::int64_t>() * kWholeNsPerMs
                                         : static_cast<std::int64_t>(timestamp.get<double>() * kNsPerMs);
  }
};

class BailianRows : public HashedRows {
 public:
  using HashedRows::HashedRows;

  TraceLink link() const override {
    TraceLink link;
    link.name = name_of("chat_id", required("chat_id"));
    if (const auto parent = named("parent_chat_id"); parent && *parent != "-1") link.after.push_back(*parent);
    return link;
  }
  LinkKeys link_keys() const override { return {"parent_chat_id", "chat_id"}; }

 private:
  std::uint32_t block_tokens() const override { return 16; }

  std::int64_t arrival_ns() const override {
    const json& timestamp = required("timestamp");
    constexpr double kLatestSeconds = 1e9;
    if (!timestamp.is_number() || !(timestamp.get<double>() >= 0 && timestamp.get<double>() < kLatestSeconds))
      throw lines.error("timestamp: expected seconds, got " + in_quotes(text_of(timestamp)));
    return std::llround(timestamp.get<double>() * static_cast<double>(kNsPerSecond));
  }
};

class LlmServingSimRows : public JsonRows {
 public:
  using JsonRows::JsonRows;

  bool next(TraceRow& row) override {
    if (++part_ >= parts_) {
      if (!next_row()) return false;
      if (row_.is_discarded()) tree();  // throws the error with its column
      if (!row_.is_object()) throw not_an_object();
      parts_ = count_parts();
      part_ = std::exchange(first_part_, 0);
      if (part_ >= parts_) throw lines.error("the trace has changed since the start of the run");
    }
    row.arrival_ns = arrival_ns();
    row.prompt_tokens = count("input_toks");
    row.output_tokens = count("output_toks");
    lengths_ = row;
    return true;
  }

  RequestContent content() const override {
    std::vector<std::uint64_t> answer;
    if (values().contains("output_tok_ids")) answer = ids_of("output_tok_ids", "output_toks", lengths_.output_tokens);
    if (values().contains("input_tok_ids")) {
      RequestContent content{1, ids_of("input_tok_ids", "input_toks", lengths_.prompt_tokens), {}};
      content.ids.insert(content.ids.end(), answer.begin(), answer.end());
      return content;
    }
    if (!values().contains("hash_ids")) return {};
    if (!values().contains("hash_block_tokens")) throw error_at("hash_ids", "needs hash_block_tokens beside it");
    return hashed_content(count("hash_block_tokens"), lengths_.prompt_tokens);
  }

  bool tells_leave() const override { return !is_session() && row_.contains("client_left_ns"); }
  std::optional<std::int64_t> leave_ns() const override {
    if (!tells_leave() || row_["client_left_ns"].is_null()) return std::nullopt;
    const json& left = row_["client_left_ns"];
    if (!left.is_number_integer() || left.get<std::int64_t>() < arrival_ns())
      throw error_at("client_left_ns", "expected whole nanoseconds, not before arrival_time_ns, or null, got " +
                                           in_quotes(text_of(left)));
    return left.get<std::int64_t>();
  }
  Origin leave_place() const override { return place_of(tree(), "client_left_ns"); }

  TraceLink link() const override {
    if (!is_session()) return {};
    TraceLink link;
    link.session = named("session_id").value_or("line " + std::to_string(lines.place().line));
    if (part_ == 0) return link;
    link.follows = TraceLink::Follows::row;
    link.delay_ns = tool_duration_ns(part_ - 1);
    return link;
  }

 private:
  bool is_session() const { return row_.contains("sub_requests"); }
  const json& values() const override { return is_session() ? row_["sub_requests"][part_] : row_; }
  std::string within() const override { return is_session() ? "sub_requests." + std::to_string(part_) + "." : ""; }
  std::uint32_t part() const override { return part_; }
  void start_line_at(std::uint32_t part) override {
    parts_ = 0;
    first_part_ = part;
  }

  std::uint32_t count_parts() const {
    if (!is_session()) return 1;
    const json& requests = row_["sub_requests"];
    const auto is_object = [](const json& value) { return value.is_object(); };
    if (!requests.is_array() || requests.empty() || !std::all_of(requests.begin(), requests.end(), is_object))
      throw InputError(place_of(tree(), "sub_requests"),
                       "sub_requests: expected a list of requests, at least one, got " +
                           in_quotes(text_of(requests).substr(0, kMostShown)));
    return static_cast<std::uint32_t>(requests.size());
  }
  std::int64_t arrival_ns() const {
    if (!row_.contains("arrival_time_ns")) throw lines.error("arrival_time_ns: is required on each line");
    const json& arrival = row_["arrival_time_ns"];
    if (!arrival.is_number() || !(arrival.get<double>() >= 0 && arrival.get<double>() < kLatestNs))
      throw InputError(place_of(tree(), "arrival_time_ns"),
                       "arrival_time_ns: expected nanoseconds, at least 0, got " + in_quotes(text_of(arrival)));
    return arrival.is_number_integer() ? arrival.get<std::int64_t>() : std::llround(arrival.get<double>());
  }
  std::int64_t tool_duration_ns(std::uint32_t part) const {
    const json& request = row_["sub_requests"][part];
    if (!request.contains("tool_duration_ns")) return 0;
    const json& duration = request["tool_duration_ns"];
    if (!duration.is_number() || !(duration.get<double>() >= 0 && duration.get<double>() < kLatestNs)) {
      const std::string key = "sub_requests." + std::to_string(part) + ".tool_duration_ns";
      throw InputError(place_of(tree(), key),
                       key + ": expected nanoseconds, at least 0, got " + in_quotes(text_of(duration)));
    }
    return duration.is_number_integer() ? duration.get<std::int64_t>() : std::llround(duration.get<double>());
  }
  std::uint32_t count(const char* key) const {
    return tokens(key, text_of(required(key)),
                  [&](const std::string& what) { return InputError(place_of(tree(), within() + key), what); });
  }
  std::vector<std::uint64_t> ids_of(const char* key, const char* length_key, std::uint32_t length) const {
    std::vector<std::uint64_t> result = ids(key);
    if (result.size() != length)
      throw error_at(key, "expected " + std::to_string(length) + " ids, as " + length_key + " says, got " +
                              std::to_string(result.size()));
    return result;
  }

  static constexpr double kLatestNs = 1e18;
  static constexpr std::size_t kMostShown = 60;

  TraceRow lengths_;
  std::uint32_t part_ = 0, parts_ = 0, first_part_ = 0;
};

}  // namespace

std::unique_ptr<TraceRows> mooncake_rows(const std::string& path, const Origin& where) {
  return std::make_unique<MooncakeRows>(path, where);
}

std::unique_ptr<TraceRows> bailian_rows(const std::string& path, const Origin& where) {
  return std::make_unique<BailianRows>(path, where);
}

std::unique_ptr<TraceRows> llmservingsim_rows(const std::string& path, const Origin& where) {
  return std::make_unique<LlmServingSimRows>(path, where);
}

}  // namespace railyard::scenario
