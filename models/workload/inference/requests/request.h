// A request for inference, the content of its tokens, and its times.
//
// The room `requests` says what clients ask for, and knows nothing of engines. A RequestSource gives requests one by one, in
// the order of their arrival: a RequestList (a list, or a trace), a RequestGenerator, a SessionGenerator, whose requests follow each other
// (both start by RequestStarts), or a LiveSource, whose requests come from outside while the run goes on. The API
// server of a service takes them, and tells the source when the client has an answer, so that the next request can depend on it.
// Plain C++; no SystemC.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace railyard::workload::inference {

struct Request {
  Time arrival;  ///< from the start of the run
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 1;  ///< prefill produces the first token, decode steps the rest
  std::uint32_t priority = 0;       ///< lower values first, for a scheduler with priorities
  /// For a fixed router: which of the instances that take prompts, and which of those that take answers only.
  std::uint32_t instance = 0, answer_instance = 0;
  /// Of a conversation or user, for a router with sessions; 0: it belongs to none.
  std::uint64_t session = 0;
  Time leaves = Time::max();  ///< the client breaks off then, if the engine has not finished; max: it does not
};

/// The part of a request that an instance computes: all; the prompt and the first token; the tokens after it.
enum class RequestPart : std::uint8_t { all, prompt, answer };

/// What an instance is for. colocated: all parts of requests, and answers to prompts of other instances; prefill: prompts; decode:
/// answers, and all parts of a request whose prompt the router leaves there.
enum class InstanceRole : std::uint8_t { colocated, prefill, decode };
/// Whether requests enter the service at such an instance.
constexpr bool takes_prompts(InstanceRole role) { return role != InstanceRole::decode; }
/// Whether KV of another instance's prompts comes to such an instance.
constexpr bool takes_answers(InstanceRole role) { return role != InstanceRole::prefill; }
constexpr bool hands_over(InstanceRole from, InstanceRole to) { return !takes_answers(from) && takes_answers(to); }

/// Identifies the tokens of a request for prefix caching. An id stands for the same tokens in all requests. So two requests whose
/// first n ids are equal have the same first tokens.
struct RequestContent {
  /// Tokens for which an id stands; 1: the ids are the tokens themselves; 0 and no ids: nothing is known, and no other
  /// request shares a prefix with this one.
  std::uint32_t block_tokens = 0;
  /// Of the prompt's first ids.size() x block_tokens tokens. With block_tokens 1, ids of the answer can follow those of all
  /// the prompt.
  std::vector<std::uint64_t> ids;
  /// With block_tokens 0, ids stand for different numbers of tokens, those of the prompt and then of the answer: for each id, the
  /// tokens up to its end.
  std::vector<std::uint32_t> ends;

  /// Adds an id for more tokens after those so far. @pre block_tokens is 0
  void add(std::uint64_t id, std::uint32_t tokens) {
    if (tokens == 0) return;
    ids.push_back(id);
    ends.push_back(described() + tokens);
  }
  /// Tokens with ids, if block_tokens is 0.
  std::uint32_t described() const { return ends.empty() ? 0 : ends.back(); }
};

/// Instants at the API server and the client, from the start of the run.
struct RequestTimes {
  Time queued;               ///< the host has put the request into the queue
  Time first_known;          ///< the instance that brings the first token to the client has it
  Time first_token;          ///< arrival of the first token at the client
  Time last_token;           ///< arrival of the last token at the client
  std::vector<Time> tokens;  ///< arrival of each token at the client
};

}  // namespace railyard::workload::inference
