#include "sc_main/serve/api_request.h"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/printable.h"

namespace railyard::serve {

using nlohmann::json;

namespace {

using Ids = std::vector<std::uint64_t>;

constexpr std::size_t kLongestQuote = 100;

std::string quoted(const json& value) {
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace), kLongestQuote);
}

[[noreturn]] void refuse(const std::string& key, const std::string& what) { throw bad_request(key + ": " + what, key); }

/// FNV-1a, folded to 32 bits, which keep the record of a run small.
std::uint64_t id_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return (hash ^ hash >> 32) & 0xffffffffu;
}

void add_text(std::string_view text, Ids& ids) {
  std::size_t begin = 0, characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins_character = (static_cast<unsigned char>(text[i]) & 0xc0u) != 0x80u;  // in UTF-8
    if (!begins_character || characters++ < kCharactersOfToken) continue;
    ids.push_back(id_of(text.substr(begin, i - begin)));
    begin = i;
    characters = 1;
  }
  if (begin < text.size()) ids.push_back(id_of(text.substr(begin)));
}

void add_role(const std::string& role, Ids& ids) { ids.push_back(id_of("role " + role)); }

void add_given(const json& list, const std::string& key, Ids& ids) {
  constexpr std::uint64_t kLargestId = 0x7fffffff;
  ids.reserve(list.size());
  for (const json& id : list) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kLargestId)
      refuse(fmt::format("{}.{}", key, ids.size()), "expected a token id, at least 0, got " + quoted(id));
    ids.push_back(id.get<std::uint64_t>());
  }
}

const json* find(const json& of, const char* key) {
  const auto found = of.find(key);
  return found == of.end() || found->is_null() ? nullptr : &*found;
}

bool flag(const json& of, const char* key, const std::string& path) {
  const json* value = find(of, key);
  if (value == nullptr) return false;
  if (!value->is_boolean()) refuse(path, "expected true or false, got " + quoted(*value));
  return value->get<bool>();
}

std::optional<std::uint64_t> count(const json& of, const char* key, std::uint64_t least) {
  const json* value = find(of, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned() || value->get<std::uint64_t>() < least)
    refuse(key, fmt::format("expected an integer, at least {}, got {}", least, quoted(*value)));
  return value->get<std::uint64_t>();
}

/// Keys that ask for something that is not simulated, with the values that ask for nothing.
void check_unsupported(const json& body) {
  for (const char* key : {"n", "best_of"})
    if (count(body, key, 1).value_or(1) != 1) refuse(key, "several answers are not simulated; accepted: 1");
  for (const char* key : {"echo", "logprobs", "use_beam_search"})
    if (const json* value = find(body, key); value != nullptr && *value != false)
      refuse(key, "is not simulated; accepted: nothing, or false");
  if (find(body, "prompt_logprobs") != nullptr || find(body, "prompt_embeds") != nullptr)
    refuse(find(body, "prompt_embeds") != nullptr ? "prompt_embeds" : "prompt_logprobs", "is not simulated");
}

/// A text, token ids, or a list with one of them.
void add_prompt(const json& prompt, Ids& ids) {
  if (prompt.is_string()) return add_text(prompt.get_ref<const std::string&>(), ids);
  const bool is_list = prompt.is_array() && !prompt.empty();
  if (is_list && (prompt.front().is_string() || prompt.front().is_array())) {
    if (prompt.size() > 1) refuse("prompt", fmt::format("{} prompts; accepted: one in each request", prompt.size()));
    if (prompt.front().is_string()) return add_text(prompt.front().get_ref<const std::string&>(), ids);
    return add_given(prompt.front(), "prompt.0", ids);
  }
  if (!is_list) refuse("prompt", "expected a text or a list of token ids, got " + quoted(prompt));
  add_given(prompt, "prompt", ids);
}

void add_content(const json& content, const std::string& key, Ids& ids) {
  if (content.is_null()) return;  // of an assistant that calls a tool
  if (content.is_string()) return add_text(content.get_ref<const std::string&>(), ids);
  if (!content.is_array()) refuse(key, "expected a text or a list of parts, got " + quoted(content));
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const json& part = content[i];
    const std::string place = fmt::format("{}.{}", key, i);
    const json* type = part.is_object() ? find(part, "type") : nullptr;
    const json* words = part.is_object() ? find(part, "text") : nullptr;
    if (type != nullptr && *type != "text")
      refuse(place + ".type", quoted(*type) + " is not simulated; accepted: text");
    if (words == nullptr || !words->is_string()) refuse(place, "expected {type: text, text: ...}, got " + quoted(part));
    text += words->get_ref<const std::string&>();
  }
  add_text(text, ids);
}

void add_messages(const json& body, Ids& ids) {
  const json* messages = find(body, "messages");
  if (messages == nullptr || !messages->is_array() || messages->empty())
    refuse("messages", "is required: a list of {role, content}");
  if (const json* tools = find(body, "tools")) add_text(tools->dump(-1, ' ', true), ids);
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const json& message = (*messages)[i];
    const std::string key = fmt::format("messages.{}", i);
    const json* role = message.is_object() ? find(message, "role") : nullptr;
    if (role == nullptr || !role->is_string()) refuse(key, "expected {role, content}, got " + quoted(message));
    add_role(role->get_ref<const std::string&>(), ids);
    if (const auto content = message.find("content"); content != message.end())
      add_content(*content, key + ".content", ids);
    if (const json* calls = find(message, "tool_calls")) add_text(calls->dump(-1, ' ', true), ids);
  }
  add_role("assistant", ids);
}

json parsed(const std::string& body) {
  static constexpr int kDeepest = 64;  // json::dump() is recursive
  const json::parser_callback_t check_depth = [](int depth, json::parse_event_t, json&) {
    if (depth > kDeepest) throw bad_request(fmt::format("the body is nested deeper than {} levels", kDeepest));
    return true;
  };
  try {
    return json::parse(body, check_depth);
  } catch (const json::parse_error& error) {
    const std::string text = error.what();
    const std::size_t at = text.find(" at line ");
    throw bad_request("the body is not JSON" + (at == std::string::npos
                                                    ? ": " + text
                                                    : ", at line " + printable(text.substr(at + 9), kLongestQuote)));
  }
}

void check_model(const json& body, const ApiModel& model) {
  const json* name = find(body, "model");
  if (name == nullptr) return;  // as vLLM: the only one
  if (!name->is_string()) refuse("model", "expected a text, got " + quoted(*name));
  if (name->get_ref<const std::string&>() == model.name) return;
  throw ApiError(
      404, "NotFoundError",
      fmt::format("The model `{}` does not exist.", printable(name->get_ref<const std::string&>(), kLongestQuote)),
      "model");
}

/// The tokens of the answer, by the rule at the top of api_request.h.
void choose_answer(const json& body, const ApiModel& model, ApiRequest& request) {
  const std::uint64_t room = model.most_tokens - request.prompt_tokens;
  std::optional<std::uint64_t> most = count(body, "max_completion_tokens", 1);
  if (!most) most = count(body, "max_tokens", 1);
  if (most && *most > room)
    throw bad_request(
        fmt::format("'max_tokens' or 'max_completion_tokens' is too large: {}. This model's maximum context "
                    "length is {} tokens and your request has {} input tokens ({} > {} - {}).",
                    *most, model.most_tokens, request.prompt_tokens, *most, model.most_tokens, request.prompt_tokens),
        "max_tokens");
  const std::uint64_t least = count(body, "min_tokens", 0).value_or(0);
  const bool is_chat = request.call == ApiCall::chat;
  request.ends_by_itself = !most && is_chat && !flag(body, "ignore_eos", "ignore_eos");
  const std::uint64_t limit = std::min(most.value_or(is_chat ? room : kTokensOfCompletion), room);
  if (least > limit)
    throw bad_request(fmt::format("min_tokens must be less than or equal to max_tokens={}, got {}.", limit, least),
                      "min_tokens");
  const std::uint64_t tokens = request.ends_by_itself ? std::clamp<std::uint64_t>(kTokensOfChat, least, limit) : limit;
  request.ends_by_itself = request.ends_by_itself && tokens < limit;
  request.answer_tokens = static_cast<std::uint32_t>(std::max<std::uint64_t>(tokens, 1));
}

}  // namespace

ApiError bad_request(const std::string& message, const std::string& param) {
  return ApiError(400, "BadRequestError", message, param);
}

ApiRequest parse_request(ApiCall call, const std::string& text, const ApiModel& model) {
  const json body = parsed(text);
  if (!body.is_object()) throw bad_request("the body is no JSON object: " + quoted(body));
  check_model(body, model);
  check_unsupported(body);
  ApiRequest request;
  request.call = call;
  request.content.block_tokens = 1;
  Ids& ids = request.content.ids;
  if (call == ApiCall::chat) {
    add_messages(body, ids);
  } else {
    const json* prompt = find(body, "prompt");
    if (prompt == nullptr) refuse("prompt", "is required: a text or a list of token ids");
    add_prompt(*prompt, ids);
  }
  if (ids.empty()) refuse("prompt", "is empty; accepted: at least one token");
  if (ids.size() >= model.most_tokens)
    throw bad_request(
        fmt::format("This model's maximum context length is {} tokens. However, your request has {} input "
                    "tokens. Please reduce the length of the input messages.",
                    model.most_tokens, ids.size()),
        call == ApiCall::chat ? "messages" : "prompt");
  request.prompt_tokens = static_cast<std::uint32_t>(ids.size());
  choose_answer(body, model, request);
  ids.insert(ids.end(), request.answer_tokens, id_of(kFiller));
  request.streams = flag(body, "stream", "stream");
  if (const json* options = find(body, "stream_options")) {
    if (!options->is_object()) refuse("stream_options", "expected {include_usage: true}, got " + quoted(*options));
    if (!request.streams) refuse("stream_options", "does not apply without stream: true");
    request.includes_usage = flag(*options, "include_usage", "stream_options.include_usage");
  }
  return request;
}

}  // namespace railyard::serve
