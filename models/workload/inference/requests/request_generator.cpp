#include "workload/inference/requests/request_generator.h"

#include <algorithm>
#include <cmath>

namespace railyard::workload::inference {

namespace {

enum Stream : std::uint32_t { kArrivals, kPrompts, kOutputs };

std::uint32_t draw_tokens(const UniformTokens& tokens, Random& random) {
  return tokens.min + static_cast<std::uint32_t>(random.below(std::uint64_t{tokens.max} - tokens.min + 1));
}

std::uint32_t draw_tokens(const LognormalTokens& tokens, Random& random) {
  const double variance = std::log(1 + tokens.cv_ratio * tokens.cv_ratio);  // of the logarithm
  const double value = tokens.mean * std::exp(std::sqrt(variance) * random.normal() - variance / 2);
  return static_cast<std::uint32_t>(std::clamp(std::round(value), 1.0, static_cast<double>(tokens.most)));
}

std::uint32_t draw_tokens(const TokensDistribution& tokens, Random& random) {
  return std::visit([&](const auto& one) { return draw_tokens(one, random); }, tokens);
}

RequestArrivals arrivals_of(const GeneratorSpec& spec, std::uint64_t seed) {
  return RequestArrivals(spec.arrivals, spec.stages, spec.burstiness_ratio, !spec.count, Random(seed, kArrivals));
}

std::uint32_t counted(RequestArrivals arrivals) {
  std::uint32_t count = 0;
  while (arrivals.next()) ++count;
  return count;
}

}  // namespace

bool RequestGenerator::ArrivesLater::operator()(const Drawn& a, const Drawn& b) const {
  return a.request.arrival != b.request.arrival ? a.request.arrival > b.request.arrival : a.number > b.number;
}

RequestGenerator::RequestGenerator(const GeneratorSpec& spec, std::uint64_t seed)
    : spec_(spec), prompts_(seed, kPrompts), outputs_(seed, kOutputs), arrivals_(arrivals_of(spec, seed)) {
  count_ = spec.count ? *spec.count : counted(arrivals_);
  if (spec.arrivals == ArrivalProcess::closed_loop) starts_.resize(std::min(spec.concurrency, count_));
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
      arrival.content = {spec_.prefix->shared_tokens, {next.user % spec_.prefix->groups}};
  }
  ++taken_;
  return arrival;
}

bool RequestGenerator::done(std::uint32_t request, Time now) {
  const bool is_loop = spec_.arrivals == ArrivalProcess::closed_loop;
  if (is_loop) starts_.push_back({now, request});
  const bool starts_one = is_loop && drawn_ < count_;
  if (!spec_.prefix) return starts_one;
  const auto asker = asker_.find(request);
  User& user = users_[asker->second];
  asker_.erase(asker);
  user.idle_since = now;
  user.is_busy = !user.waiting.empty();
  if (!user.is_busy) {
    ++idle_users_;
    return starts_one;
  }
  Drawn next = user.waiting.front();
  user.waiting.pop_front();
  const bool waited = next.request.arrival <= now;
  if (waited) next.after = request;
  next.request.arrival = later(next.request.arrival, now);
  ready_.push(next);
  return starts_one || waited;
}

bool RequestGenerator::can_draw() const {
  if (drawn_ == count_) return false;
  if (spec_.arrivals == ArrivalProcess::closed_loop && starts_.empty()) return false;
  return users_.empty() || idle_users_ > 0;  // a request of a busy user could not arrive
}

void RequestGenerator::draw_arrival(Drawn& next) {
  switch (spec_.arrivals) {
    case ArrivalProcess::at_once: break;
    case ArrivalProcess::closed_loop:
      next.request.arrival = starts_.front().at;
      next.after = starts_.front().after;
      starts_.pop_front();
      break;
    default: next.request.arrival = arrivals_.next().value_or(Time::max());
  }
}

void RequestGenerator::draw() {
  Drawn next{};
  draw_arrival(next);
  latest_ = next.request.arrival;
  next.request.prompt_tokens = draw_tokens(spec_.prompt_tokens, prompts_);
  next.request.output_tokens = draw_tokens(spec_.output_tokens, outputs_);
  next.number = drawn_++;
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
