// Writes answers of OpenAI's API as JSON: completions, chunks of a stream, models, errors. No HTTP, no SystemC.
//
// The key `railyard` of an answer has simulated times, in seconds from the start of the run: `arrival_s`, `first_token_s`, `end_s`,
// `token_s` (of a chunk: its token), and `ttft_s`, `behind_s` and the request's number in requests.csv.
#pragma once

#include <optional>
#include <string>

#include "sc_main/serve/answer.h"

namespace railyard::serve {

/// Of an answer that is not a stream.
std::string completion_text(const Answer& answer, const AnswerFacts& facts, const ApiModel& model);

/// The events of a stream, each with its empty line.
class ChunkWriter {
 public:
  ChunkWriter(const ApiRequest& request, const AnswerFacts& facts, const ApiModel& model);
  /// Of a chat, before the first token.
  std::string role_text() const;
  /// A token. @param last  of the last token, with which the chunk has the reason for the end, and all times; otherwise null
  std::string token_text(Time at, const AnswerFacts* last);
  /// After the last token: usage, if the request asks for it, and the end of the stream.
  std::string end_text(const AnswerFacts& facts) const;
  std::string error_text(const ApiError& error) const;

 private:
  const ApiRequest& request_;
  const ApiModel& model_;
  std::string id_;
  long created_s_;
  std::optional<Time> first_;
};

std::string models_text(const ApiModel& model, long created_s);
std::string error_text(const ApiError& error);

}  // namespace railyard::serve
