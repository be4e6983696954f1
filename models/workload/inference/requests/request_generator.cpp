#include "workload/inference/requests/request_generator.h"

#include <algorithm>

namespace railyard::workload::inference {

namespace {

enum LengthStream : std::uint32_t { kPromptStream = 1, kOutputStream };

}  // namespace

bool RequestGenerator::ArrivesLater::operator()(const Drawn& a, const Drawn& b) const {
  return a.request.arrival != b.request.arrival ? a.request.arrival > b.request.arrival : a.number > b.number;
}

RequestGenerator::RequestGenerator(const GeneratorSpec& spec, std::uint64_t seed)
    : spec_(spec), prompts_(seed, kPromptStream), outputs_(seed, kOutputStream), starts_(spec, seed) {
  if (spec.prefix) users_.resize(std::size_t{spec.prefix->groups} * spec.prefix->users_per_group);
  idle_users_ = static_cast<std::uint32_t>(users_.size());
}

std::optional<Time> RequestGenerator::next_arrival() {
  while (can_draw() && (ready_.empty() || ready_.top().request.arrival > latest_)) draw();
  if (ready_.empty()) return std::nullopt;
  return ready_.top().request.arrival;
}

RequestSource::Arrival RequestGenerator::take() {
  next_arrival();
  const Drawn next = ready_.top();
  ready_.pop();
  Arrival arrival{next.request, {}, next.after};
  if (spec_.prefix) {
    asker_.emplace(taken_, next.user);
    // One id stands for the whole prefix, so it covers the prefix exactly.
    if (spec_.prefix->shared_tokens > 0)
      arrival.content = {spec_.prefix->shared_tokens, {next.user % spec_.prefix->groups}, {}};
  }
  ++taken_;
  return arrival;
}

std::uint32_t RequestGenerator::done(std::uint32_t request, Time now) {
  const bool starts_one = starts_.ended(request, now);
  if (!spec_.prefix) return starts_one ? 1 : 0;
  const auto asker = asker_.find(request);
  User& user = users_[asker->second];
  asker_.erase(asker);
  user.idle_since = now;
  user.is_busy = !user.waiting.empty();
  if (!user.is_busy) {
    ++idle_users_;
    return starts_one ? 1 : 0;
  }
  Drawn next = user.waiting.front();
  user.waiting.pop_front();
  const bool waited = next.request.arrival <= now;
  if (waited) next.after = request;
  next.request.arrival = later(next.request.arrival, now);
  ready_.push(next);
  return (starts_one ? 1 : 0) + (waited ? 1 : 0);
}

bool RequestGenerator::can_draw() const {
  return starts_.can_draw() && (users_.empty() || idle_users_ > 0);  // a request of a busy user could not arrive
}

void RequestGenerator::draw() {
  Drawn next{};
  next.number = starts_.drawn();
  const RequestStarts::Start start = starts_.draw();
  next.request.arrival = latest_ = start.at;
  next.after = start.after;
  next.request.prompt_tokens = draw_tokens(spec_.prompt_tokens, prompts_);
  next.request.output_tokens = draw_tokens(spec_.output_tokens, outputs_);
  if (!spec_.prefix) {
    ready_.push(next);
    return;
  }
  next.request.prompt_tokens = std::max(next.request.prompt_tokens, spec_.prefix->shared_tokens);
  next.user = static_cast<std::uint32_t>(next.number % users_.size());
  next.request.session = next.user + 1;
  User& user = users_[next.user];
  if (user.is_busy) {
    user.waiting.push_back(next);
    return;
  }
  user.is_busy = true;
  --idle_users_;
  next.request.arrival = later(next.request.arrival, user.idle_since);
  ready_.push(next);
}

}  // namespace railyard::workload::inference
