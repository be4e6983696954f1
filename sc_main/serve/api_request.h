// Reads the body of a request of OpenAI's API, in vLLM's dialect: POST /v1/completions and /v1/chat/completions. No HTTP, no SystemC.
//
// Tokens of a text are counted, because there is no tokenizer: kCharactersOfToken characters (Unicode code points) are a token, the last
// one can be shorter. A chat is one token for the role of each message, the tokens of each content by itself, and one token that begins
// the answer. So an answer of n filler tokens is n tokens in a later prompt, too. An id stands for the characters of a token, so prompts that
// begin with the same text share a prefix. Token ids that a client gives are taken as they are.
//
// A simulated model ends no answer by itself. An answer has max_tokens tokens; without max_tokens, as many as vLLM's default for
// completions, and kTokensOfChat for a chat, as if the model had ended it there; with ignore_eos, a chat goes on to the end of the context.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "workload/inference/requests/request.h"

namespace railyard::serve {

constexpr std::uint32_t kCharactersOfToken = 4;
/// max_tokens of /v1/completions without it: OpenAI's API reference, and vLLM's CompletionRequest.
constexpr std::uint32_t kTokensOfCompletion = 16;
constexpr std::uint32_t kTokensOfChat = 256;
/// The text of each token of an answer. It has the characters of a token.
constexpr const char* kFiller = " tok";

/// An error in the API's form. `status` is that of HTTP.
struct ApiError : std::runtime_error {
  ApiError(int status_, std::string type_, const std::string& message, std::string param_ = "")
      : std::runtime_error(message), status(status_), type(std::move(type_)), param(std::move(param_)) {}
  int status;
  std::string type;
  std::string param;  ///< the key that is wrong; "": none
};
ApiError bad_request(const std::string& message, const std::string& param = "");

struct ApiModel {
  std::string name;
  std::uint32_t most_tokens = 0;  ///< of a prompt and its answer: max_model_len
};

enum class ApiCall : std::uint8_t { completion, chat };

struct ApiRequest {
  ApiCall call = ApiCall::completion;
  std::uint32_t prompt_tokens = 0, answer_tokens = 0;
  /// An id for each token of the prompt, and of the answer, for prefix caching.
  workload::inference::RequestContent content;
  bool streams = false;
  bool includes_usage = false;  ///< stream_options.include_usage
  bool ends_by_itself = false;  ///< finish_reason: stop, otherwise length
};

/// @throws ApiError: malformed JSON with its place, an unknown model, a key that is wrong, more tokens than the model takes
ApiRequest parse_request(ApiCall call, const std::string& body, const ApiModel& model);

}  // namespace railyard::serve
