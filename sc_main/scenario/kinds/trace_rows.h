// Rows of request traces in the formats of other tools:
// - azure: Azure LLM inference traces (Azure/AzurePublicDataset), CSV with columns TIMESTAMP, ContextTokens and
//   GeneratedTokens;
// - mooncake: Mooncake (kvcache-ai/Mooncake), JSON lines with timestamp in milliseconds, input_length, output_length
//   and hash_ids of blocks of 512 tokens;
// - llmservingsim: LLMServingSim (casys-kaist/LLMServingSim), JSON lines with input_toks, output_toks and
//   arrival_time_ns; optional input_tok_ids and output_tok_ids, or hash_ids of blocks of hash_block_tokens tokens. Rows
//   with sub_requests are refused;
// - vidur: Vidur (microsoft/vidur), CSV with columns arrived_at in seconds, num_prefill_tokens and num_decode_tokens.
// Columns are found by name; other columns and keys are ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sc_main/scenario/table/lines.h"
#include "workload/inference/requests/request.h"

namespace railyard::scenario {

/// Largest prompt, and largest answer.
constexpr double kMostTokens = 1 << 24;
constexpr double kMostPriority = 1e9;

enum class TraceFormat { azure, mooncake, llmservingsim, vidur };

/// In the order of TraceFormat.
const std::vector<std::string>& trace_format_names();

struct TraceRow {
  std::int64_t arrival_ns = 0;  ///< from the origin of the trace
  std::uint32_t prompt_tokens = 0, output_tokens = 0;
};

class TraceRows {
 public:
  TraceRows(const std::string& path, const Origin& where) : lines(path, "workload.requests.file", where) {}
  virtual ~TraceRows() = default;

  /// The next row; false at the end. @throws InputError: a row without a valid arrival and token counts
  virtual bool next(TraceRow& row) = 0;
  /// Priority of the latest row; 0 without one. @throws InputError: not an integer from 0 to 1e9
  virtual std::uint32_t priority() const { return 0; }
  /// Where it stands. @pre priority() > 0
  virtual Origin priority_place() const { return {}; }
  /// Content of the prompt of the latest row. @throws InputError: ids that do not fit the row's token counts
  virtual workload::inference::RequestContent content() const { return {}; }

  Lines lines;
};

/// Opens a trace at its first row. @param where  of the key that names the file
std::unique_ptr<TraceRows> open_trace(TraceFormat format, const std::string& path, const Origin& where);

}  // namespace railyard::scenario
