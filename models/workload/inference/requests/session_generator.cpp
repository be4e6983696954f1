#include "workload/inference/requests/session_generator.h"

#include <algorithm>

namespace railyard::workload::inference {

namespace {

enum Stream : std::uint32_t { kPrompts = 1, kOutputs, kTurns, kGrowths };

constexpr std::uint64_t kSystemId = 0;

}  // namespace

SessionGenerator::SessionGenerator(const SessionsSpec& spec, std::uint64_t seed)
    : spec_(spec),
      starts_(spec, seed),
      turns_(seed, kTurns),
      prompts_(seed, kPrompts),
      growths_(seed, kGrowths),
      outputs_(seed, kOutputs) {
  Random turns = turns_;
  for (std::uint32_t i = 0; i < starts_.count(); ++i) {
    const std::uint32_t of_session = draw_tokens(spec.turns, turns);
    count_ += of_session + (of_session - 1) * spec.subagents;
  }
}

SessionGenerator::Lengths SessionGenerator::first_lengths() {
  const std::uint32_t prompt = draw_tokens(spec_.prompt_tokens, prompts_);
  return {std::max(prompt, spec_.system_tokens), draw_tokens(spec_.output_tokens, outputs_)};
}

void SessionGenerator::start() {
  const std::uint32_t number = starts_.drawn();
  const RequestStarts::Start start = starts_.draw();
  latest_ = start.at;
  Session& session = sessions_[number];
  session.turns.resize(draw_tokens(spec_.turns, turns_));
  for (Turn& turn : session.turns) {
    const bool is_first = &turn == &session.turns.front(), is_last = &turn == &session.turns.back();
    turn.own = is_first
                   ? first_lengths()
                   : Lengths{draw_tokens(spec_.growth_tokens, growths_), draw_tokens(spec_.output_tokens, outputs_)};
    for (std::uint32_t i = 0; !is_last && i < spec_.subagents; ++i) turn.subagents.push_back(first_lengths());
  }
  make_ready(start.at, number, {}, start.after);
}

void SessionGenerator::make_ready(Time at, std::uint32_t session, std::optional<std::uint32_t> subagent,
                                  std::optional<std::uint32_t> after) {
  ++sessions_.at(session).awaited;
  ready_.push({at, made_ready_++, session, subagent, after});
}

std::optional<Time> SessionGenerator::next_arrival() {
  while (starts_.can_draw() && (ready_.empty() || ready_.top().at > latest_)) start();
  if (ready_.empty()) return std::nullopt;
  return ready_.top().at;
}

RequestContent SessionGenerator::first_content(std::uint32_t number, Session& session, const Lengths& lengths) const {
  RequestContent content;
  content.add(kSystemId, spec_.system_tokens);
  const std::uint64_t ids = (std::uint64_t{number} + 1) << 32;
  content.add(ids + session.next_id++, lengths.fresh - spec_.system_tokens);
  content.add(ids + session.next_id++, lengths.output);
  return content;
}

RequestSource::Arrival SessionGenerator::take() {
  next_arrival();
  const Ready next = ready_.top();
  ready_.pop();
  Session& session = sessions_.at(next.session);
  Turn& turn = session.turns[session.turn];
  Arrival arrival;
  const Lengths lengths = next.subagent ? turn.subagents[*next.subagent] : turn.own;
  const std::uint64_t continued = std::uint64_t{session.history.described()} + lengths.fresh + lengths.output;
  if (next.subagent || session.turn == 0 || continued > kMostTokens) {
    Lengths first = lengths;
    first.fresh = std::max(first.fresh, spec_.system_tokens);
    arrival.content = first_content(next.session, session, first);
  } else {
    const std::uint64_t ids = (std::uint64_t{next.session} + 1) << 32;
    arrival.content = session.history;
    arrival.content.add(ids + session.next_id++, lengths.fresh);
    arrival.content.add(ids + session.next_id++, lengths.output);
  }
  if (!next.subagent) session.history = arrival.content;
  arrival.request.arrival = next.at;
  arrival.request.prompt_tokens = arrival.content.described() - lengths.output;
  arrival.request.output_tokens = lengths.output;
  arrival.request.session = std::uint64_t{next.session} + 1;
  arrival.after = next.after;
  session_of_.emplace(taken_++, next.session);
  return arrival;
}

std::uint32_t SessionGenerator::done(std::uint32_t request, Time now) {
  const auto found = session_of_.find(request);
  const std::uint32_t number = found->second;
  session_of_.erase(found);
  Session& session = sessions_.at(number);
  if (--session.awaited > 0) return 0;
  const auto subagents = static_cast<std::uint32_t>(session.turns[session.turn].subagents.size());
  if (!session.has_answer && subagents > 0) {
    session.has_answer = true;
    for (std::uint32_t i = 0; i < subagents; ++i) make_ready(now, number, i, request);
    return subagents;
  }
  session.has_answer = false;
  if (++session.turn < session.turns.size()) {
    make_ready(now + spec_.think, number, {}, request);
    return 1;
  }
  sessions_.erase(number);
  return starts_.ended(request, now) ? 1 : 0;
}

}  // namespace railyard::workload::inference
