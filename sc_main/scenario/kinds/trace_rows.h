// Rows of request traces in the formats of other tools:
// - azure: Azure LLM inference traces (Azure/AzurePublicDataset), CSV with columns TIMESTAMP, ContextTokens and
//   GeneratedTokens;
// - mooncake: Mooncake (kvcache-ai/Mooncake), JSON lines with timestamp in milliseconds, input_length, output_length
//   and hash_ids of blocks of 512 tokens; as ai-dynamo/aiperf and ai-dynamo/dynamo have extended it, session_id and delay in
//   milliseconds after the answer before it in the session; or request_id, wait_for (request_ids whose answers a row waits for), and
//   delay and tool_wait_ms after the last of them;
// - bailian: Qwen on Bailian (alibaba-edu/qwen-bailian-usagetraces-anon), JSON lines with chat_id, parent_chat_id (-1: none),
//   timestamp in seconds, input_length, output_length and hash_ids of blocks of 16 tokens;
// - llmservingsim: LLMServingSim (casys-kaist/LLMServingSim), JSON lines with input_toks, output_toks and
//   arrival_time_ns; optional input_tok_ids and output_tok_ids, or hash_ids of blocks of hash_block_tokens tokens, and
//   client_left_ns, when the client broke off, or null. A line with arrival_time_ns and sub_requests is a session, with a
//   row for each of them; the next one comes tool_duration_ns after the answer;
// - vidur: Vidur (microsoft/vidur), CSV with columns arrived_at in seconds, num_prefill_tokens and num_decode_tokens.
// Columns are found by name; other columns and keys are ignored.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sc_main/scenario/table/lines.h"
#include "workload/inference/requests/request.h"

namespace railyard::scenario {

/// Largest prompt, and largest answer.
constexpr double kMostTokens = 1 << 24;
constexpr double kMostPriority = 1e9;

enum class TraceFormat { azure, mooncake, llmservingsim, vidur, bailian };

/// In the order of TraceFormat.
const std::vector<std::string>& trace_format_names();

struct TraceRow {
  static constexpr std::int64_t kNoArrival = std::numeric_limits<std::int64_t>::min();
  std::int64_t arrival_ns = 0;  ///< from the origin of the trace; kNoArrival: when the rows that it waits for say
  std::uint32_t prompt_tokens = 0, output_tokens = 0;
};

/// What a row says about rows to which it belongs.
struct TraceLink {
  std::optional<std::string> session;  ///< with which it shares its history, and its instance
  std::optional<std::string> name;     ///< by which other rows name it
  /// It waits for the answers of these rows: for those of some names; for the row before it in the file, or in its session.
  std::vector<std::string> after;
  enum class Follows : std::uint8_t { nothing, row, session } follows = Follows::nothing;
  std::int64_t delay_ns = 0;  ///< from the last of these answers to its arrival

  bool is_none() const { return !session && !name && after.empty() && follows == Follows::nothing; }
};

class TraceRows {
 public:
  TraceRows(const std::string& path, const Origin& where) : lines(path, "workload.requests.file", where) {}
  virtual ~TraceRows() = default;

  /// The next row; false at the end. @throws InputError: a row without a valid arrival and token counts
  virtual bool next(TraceRow& row) = 0;
  /// A row; a line can have several.
  struct Place {
    std::uint64_t offset = 0;
    std::int32_t line = 0;
    std::uint32_t part = 0;  ///< of its line
  };
  Place place() const { return {lines.place().offset, lines.place().line, part()}; }
  /// The next row will be the one at this place.
  void go_to(const Place& place) {
    lines.go_to({place.offset, place.line});
    start_line_at(place.part);
  }
  /// Priority of the latest row; 0 without one. @throws InputError: not an integer from 0 to 1e9
  virtual std::uint32_t priority() const { return 0; }
  /// Where it stands. @pre priority() > 0
  virtual Origin priority_place() const { return {}; }
  /// Whether the latest row says when its client leaves, or that it does not; and the time, from the origin of the trace.
  virtual bool tells_leave() const { return false; }
  virtual std::optional<std::int64_t> leave_ns() const { return std::nullopt; }
  /// Where it stands. @pre tells_leave()
  virtual Origin leave_place() const { return {}; }
  /// Content of the prompt of the latest row. @throws InputError: ids that do not fit the row's token counts
  virtual workload::inference::RequestContent content() const { return {}; }
  /// Of the latest row. @throws InputError
  virtual TraceLink link() const { return {}; }
  /// The keys that give a row its name, and name others: "parent_chat_id", "chat_id".
  struct LinkKeys {
    const char *after = "", *name = "";
  };
  virtual LinkKeys link_keys() const { return {}; }

  Lines lines;

 private:
  /// Of the latest row in its line.
  virtual std::uint32_t part() const { return 0; }
  /// The next row will be this one of the next line.
  virtual void start_line_at(std::uint32_t /*part*/) {}
};

/// Opens a trace at its first row. @param where  of the key that names the file
std::unique_ptr<TraceRows> open_trace(TraceFormat format, const std::string& path, const Origin& where);

}  // namespace railyard::scenario
