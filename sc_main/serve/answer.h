// The answer to a request on its way from the simulation, which adds tokens, to the client's thread, which waits for them. Plain C++.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "sc_main/serve/api_request.h"

namespace railyard::serve {

/// Instants of the simulated run.
struct AnswerFacts {
  std::uint32_t number = 0;  ///< of the request, as in requests.csv
  Time arrival;
  std::uint64_t cached_tokens = 0;  ///< of the prompt; known at the end
  double behind_s = 0;  ///< the simulation was this far behind the wall clock, at the latest instant that is known
};

/// The client has left before the end of its answer.
struct ClientLeft {};

class Answer {
 public:
  explicit Answer(ApiRequest request) : request_(std::move(request)) {}

  const ApiRequest& request() const { return request_; }

  // For the simulation.
  /// The request has entered the run.
  void arrived(std::uint32_t number, Time at, double behind_s) {
    change([&] {
      facts_.number = number;
      facts_.arrival = at;
      facts_.behind_s = behind_s;
      has_arrived_ = true;
    });
  }
  /// The client has the next token.
  void add_token(Time at, double behind_s) {
    change([&] {
      facts_.behind_s = behind_s;
      tokens_.push_back(at);
    });
  }
  /// It has all tokens.
  void end(std::uint64_t cached_tokens) {
    change([&] {
      facts_.cached_tokens = cached_tokens;
      has_ended_ = true;
    });
  }
  /// There is no answer, or not all of it.
  void fail(const ApiError& error) {
    change([&] { error_ = error; });
  }

  // For the client's thread. They wait for the simulation, and throw ApiError after fail(), ClientLeft if has_left() says so meanwhile.
  using HasLeft = std::function<bool()>;
  AnswerFacts wait_arrival(const HasLeft& has_left) {
    const auto lock = wait([&] { return has_arrived_; }, has_left);
    return facts_;
  }
  /// Arrival of a token at the client. @pre index < answer_tokens of the request
  Time wait_token(std::size_t index, const HasLeft& has_left) {
    const auto lock = wait([&] { return tokens_.size() > index; }, has_left);
    return tokens_[index];
  }
  AnswerFacts wait_end(const HasLeft& has_left) {
    const auto lock = wait([&] { return has_ended_; }, has_left);
    return facts_;
  }
  /// As far as they are known.
  AnswerFacts facts() {
    const std::lock_guard lock(mutex_);
    return facts_;
  }
  /// @pre wait_end()
  const std::vector<Time>& tokens() const { return tokens_; }

 private:
  template <class What>
  void change(const What& what) {
    {
      const std::lock_guard lock(mutex_);
      what();
    }
    changed_.notify_all();
  }
  template <class Condition>
  std::unique_lock<std::mutex> wait(const Condition& condition, const HasLeft& has_left) {
    constexpr auto kLook = std::chrono::milliseconds(100);
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kLook, [&] { return error_ || condition(); }))
      if (has_left()) throw ClientLeft();
    if (!condition()) throw ApiError(*error_);
    return lock;
  }

  const ApiRequest request_;
  std::mutex mutex_;
  std::condition_variable changed_;
  AnswerFacts facts_;
  std::vector<Time> tokens_;
  std::optional<ApiError> error_;
  bool has_arrived_ = false, has_ended_ = false;
};

}  // namespace railyard::serve
