#include "sc_main/serve/api_answer.h"

#include <ctime>
#include <nlohmann/json.hpp>

namespace railyard::serve {

using nlohmann::ordered_json;

namespace {

std::string id_of(const ApiRequest& request, const AnswerFacts& facts) {
  return (request.call == ApiCall::chat ? "chatcmpl-" : "cmpl-") + std::to_string(facts.number);
}

const char* reason_of(const ApiRequest& request) { return request.ends_by_itself ? "stop" : "length"; }

ordered_json usage_of(const ApiRequest& request, const AnswerFacts& facts) {
  return {{"prompt_tokens", request.prompt_tokens},
          {"total_tokens", request.prompt_tokens + request.answer_tokens},
          {"completion_tokens", request.answer_tokens},
          {"prompt_tokens_details", {{"cached_tokens", facts.cached_tokens}}}};
}

/// The nearest number, unlike Time::seconds().
double decimal_seconds(Time at) { return static_cast<double>(at.fs()) / 1e15; }

ordered_json times_of(const AnswerFacts& facts, Time first, Time last) {
  return {{"request", facts.number},
          {"arrival_s", decimal_seconds(facts.arrival)},
          {"first_token_s", decimal_seconds(first)},
          {"end_s", decimal_seconds(last)},
          {"ttft_s", decimal_seconds(first - facts.arrival)},
          {"behind_s", facts.behind_s}};
}

std::string event(const ordered_json& chunk) { return "data: " + chunk.dump() + "\n\n"; }

ordered_json error_value(const ApiError& error) {
  return {{"error",
           {{"message", error.what()},
            {"type", error.type},
            {"param", error.param.empty() ? ordered_json() : ordered_json(error.param)},
            {"code", error.status}}}};
}

}  // namespace

std::string completion_text(const Answer& answer, const AnswerFacts& facts, const ApiModel& model) {
  const ApiRequest& request = answer.request();
  std::string text;
  for (std::uint32_t i = 0; i < request.answer_tokens; ++i) text += kFiller;
  const bool is_chat = request.call == ApiCall::chat;
  ordered_json choice{{"index", 0}};
  if (is_chat)
    choice["message"] = {{"role", "assistant"}, {"content", text}};
  else
    choice["text"] = text;
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = reason_of(request);
  return ordered_json{{"id", id_of(request, facts)},
                      {"object", is_chat ? "chat.completion" : "text_completion"},
                      {"created", std::time(nullptr)},
                      {"model", model.name},
                      {"choices", ordered_json::array({choice})},
                      {"usage", usage_of(request, facts)},
                      {"railyard", times_of(facts, answer.tokens().front(), answer.tokens().back())}}
      .dump();
}

ChunkWriter::ChunkWriter(const ApiRequest& request, const AnswerFacts& facts, const ApiModel& model)
    : request_(request), model_(model), id_(id_of(request, facts)), created_s_(std::time(nullptr)) {}

namespace {

/// A chunk with these choices.
ordered_json chunk_of(const std::string& id, long created_s, const ApiRequest& request, const ApiModel& model,
                      const ordered_json& choices) {
  return {{"id", id},
          {"object", request.call == ApiCall::chat ? "chat.completion.chunk" : "text_completion"},
          {"created", created_s},
          {"model", model.name},
          {"choices", choices}};
}

}  // namespace

std::string ChunkWriter::role_text() const {
  const ordered_json choice{{"index", 0},
                            {"delta", {{"role", "assistant"}, {"content", ""}}},
                            {"logprobs", nullptr},
                            {"finish_reason", nullptr}};
  return event(chunk_of(id_, created_s_, request_, model_, ordered_json::array({choice})));
}

std::string ChunkWriter::token_text(Time at, const AnswerFacts* last) {
  if (!first_) first_ = at;
  ordered_json choice{{"index", 0}};
  if (request_.call == ApiCall::chat)
    choice["delta"] = {{"content", kFiller}};
  else
    choice["text"] = kFiller;
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = last != nullptr ? ordered_json(reason_of(request_)) : ordered_json();
  ordered_json chunk = chunk_of(id_, created_s_, request_, model_, ordered_json::array({choice}));
  chunk["railyard"] = {{"token_s", decimal_seconds(at)}};
  if (last != nullptr) chunk["railyard"].update(times_of(*last, *first_, at));
  return event(chunk);
}

std::string ChunkWriter::end_text(const AnswerFacts& facts) const {
  std::string text;
  if (request_.includes_usage) {
    ordered_json chunk = chunk_of(id_, created_s_, request_, model_, ordered_json::array());
    chunk["usage"] = usage_of(request_, facts);
    text = event(chunk);
  }
  return text + "data: [DONE]\n\n";
}

std::string ChunkWriter::error_text(const ApiError& error) const { return event(error_value(error)); }

std::string models_text(const ApiModel& model, long created_s) {
  const ordered_json card{{"id", model.name},
                          {"object", "model"},
                          {"created", created_s},
                          {"owned_by", "railyard"},
                          {"root", model.name},
                          {"parent", nullptr},
                          {"max_model_len", model.most_tokens}};
  return ordered_json{{"object", "list"}, {"data", ordered_json::array({card})}}.dump();
}

std::string error_text(const ApiError& error) { return error_value(error).dump(); }

}  // namespace railyard::serve
