// Generated sessions: requests that follow each other, as in a conversation or the loop of an agent. Plain C++; no SystemC.
//
// Sessions start by RequestStarts, whatever becomes of the others. Inside of a session the loop is closed: the next turn arrives a
// fixed time (to read and write, or for a tool) after the last token of the answer. Its prompt is the prompt before, the answer, and
// new tokens. With subagents, an answer that is not the last one starts some requests beside one another, each with a prompt of its own
// after the system prompt, as the first turn of a session; the next turn waits for all of them.
//
// Lengths of a session are drawn when it starts, in the order of sessions, each kind from a stream of its own. So they depend neither
// on the service nor on the arrivals.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "workload/inference/requests/request_source.h"
#include "workload/inference/requests/request_starts.h"
#include "workload/inference/requests/token_lengths.h"

namespace railyard::workload::inference {

struct SessionsSpec : StartsSpec {   ///< starts of sessions
  TokensDistribution turns;          ///< of a session: their number
  TokensDistribution prompt_tokens;  ///< of the first turn, and of a subagent
  TokensDistribution growth_tokens;  ///< what each later prompt has beyond the earlier prompt and its answer
  TokensDistribution output_tokens;
  Time think;                       ///< from an answer, or the last one of the subagents, to the next turn
  std::uint32_t system_tokens = 0;  ///< first tokens of all first prompts; a shorter prompt is extended to this length
  std::uint32_t subagents = 0;
};

class SessionGenerator : public RequestSource {
 public:
  /// A longer conversation begins again, with a first prompt.
  static constexpr std::uint64_t kMostTokens = 1u << 24;

  SessionGenerator(const SessionsSpec& spec, std::uint64_t seed);

  std::optional<Time> next_arrival() override;
  Arrival take() override;
  std::uint32_t done(std::uint32_t request, Time now) override;
  bool follows_answers() const override { return true; }
  std::uint32_t count() const override { return count_; }

 private:
  /// Lengths of a request.
  struct Lengths {
    std::uint32_t fresh = 0;  ///< tokens of the prompt that are new, or all of a first prompt
    std::uint32_t output = 0;
  };
  struct Turn {
    Lengths own;
    std::vector<Lengths> subagents;  ///< that its answer starts
  };
  struct Session {
    std::vector<Turn> turns;
    std::size_t turn = 0;       ///< the one under way, or whose subagents are
    bool has_answer = false;    ///< of this turn
    std::uint32_t awaited = 0;  ///< requests under way
    RequestContent history;     ///< of this turn, with its answer
    std::uint64_t next_id = 0;  ///< of its tokens
  };
  struct Ready {
    Time at;
    std::uint64_t number;  ///< of equal ones, that which was ready first
    std::uint32_t session;
    std::optional<std::uint32_t> subagent;
    std::optional<std::uint32_t> after;
  };
  struct ArrivesLater {
    bool operator()(const Ready& a, const Ready& b) const { return a.at != b.at ? b.at < a.at : a.number > b.number; }
  };

  void start();
  Lengths first_lengths();
  void make_ready(Time at, std::uint32_t session, std::optional<std::uint32_t> subagent,
                  std::optional<std::uint32_t> after);
  /// A prompt without history, and its answer.
  RequestContent first_content(std::uint32_t number, Session& session, const Lengths& lengths) const;

  SessionsSpec spec_;
  RequestStarts starts_;
  Random turns_, prompts_, growths_, outputs_;
  std::uint32_t count_ = 0, taken_ = 0;
  Time latest_;                                                  ///< the latest start that was drawn
  std::unordered_map<std::uint32_t, Session> sessions_;          ///< under way
  std::unordered_map<std::uint32_t, std::uint32_t> session_of_;  ///< of requests under way
  std::priority_queue<Ready, std::vector<Ready>, ArrivesLater> ready_;
  std::uint64_t made_ready_ = 0;
};

}  // namespace railyard::workload::inference
