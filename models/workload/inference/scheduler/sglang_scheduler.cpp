#include "workload/inference/scheduler/sglang_scheduler.h"

#include <algorithm>

#include "base/units.h"

namespace railyard::workload::inference {

namespace {

// Defaults of v0.4: the expected share of what a running request may still generate starts at 0.7 and falls to 14 % of that in
// 600 decode steps; a retraction makes room for 20 steps.
constexpr double kFirstExpectedRatio = 0.7, kLeastExpectedRatio = 0.14 * kFirstExpectedRatio;
constexpr double kExpectedDecay = (kFirstExpectedRatio - kLeastExpectedRatio) / 600;
constexpr std::uint64_t kRetractSteps = 20;
constexpr std::uint64_t kMostExpectedTokens = 4096;  ///< of an answer

}  // namespace

SglangScheduler::SglangScheduler(const SchedulerSpec& spec, std::uint32_t blocks)
    : PagedScheduler(spec, blocks), expected_ratio_(kFirstExpectedRatio) {}

void SglangScheduler::fill(ScheduledBatch& batch) {
  const std::size_t slots = free_slots();
  std::uint64_t tokens = budget();
  run_running(batch, tokens, Which::prompts);
  if (receives() || has_refused_) {
    run_waiting(batch, tokens, slots);
    has_refused_ = waiting() > 0;
  } else {
    refuse_waiting(Refusal::unseen);
  }
  has_decoded_ = batch.items.empty();
  if (!has_decoded_) return;
  run_decodes(batch);
  retract(batch);
}

bool SglangScheduler::receives() {
  if (has_decoded_ && running() > 0 && ++steps_unseen_ < spec().receive_interval) return false;
  steps_unseen_ = 0;
  return true;
}

std::uint64_t SglangScheduler::reserved_answer(const Sequence& s) const {
  const std::uint64_t most = std::min(s.all - s.known, kMostExpectedTokens);
  if (!s.is_running || is_new(s)) return most;
  return static_cast<std::uint64_t>(expected_ratio_ * static_cast<double>(most));
}

std::uint64_t SglangScheduler::blocks_to_start(const Sequence& s, const KvStore::Prefix& hits, std::uint64_t) const {
  return free_blocks_for(s, hits, store().blocks_for(s.known + reserved_answer(s))) +
         blocks_of_others(s, [this](const Sequence& other) { return reserved_answer(other); });
}

PagedScheduler::Room SglangScheduler::make_room(ScheduledBatch& batch, std::size_t& place, std::uint64_t tokens,
                                                std::uint64_t& budget) {
  const auto next = [this]() -> Sequence& { return victim(); };
  return preempt_until(batch, place, tokens, budget, false, next) ? Room::made : Room::left;
}

SglangScheduler::Sequence& SglangScheduler::victim() const {
  // The shortest answer so far, then the longest prompt, then the last one.
  const auto is_better = [](const Sequence* a, const Sequence* b) {
    const std::uint64_t generated_a = a->known - a->prompt, generated_b = b->known - b->prompt;
    return generated_a != generated_b ? generated_a > generated_b : a->prompt < b->prompt;
  };
  return **std::max_element(in_order().rbegin(), in_order().rend(), is_better);
}

void SglangScheduler::retract(ScheduledBatch& batch) {
  if (batch.items.empty()) return;
  if (batch.preempted.empty()) {
    expected_ratio_ = std::max(kLeastExpectedRatio, expected_ratio_ - kExpectedDecay);
    return;
  }
  const auto room = [&] { return running() * ceil_div(kRetractSteps, spec().block_tokens); };
  while (running() > 1 && room() > memory().free) preempt(batch, victim(), false);
  std::uint64_t generated = kRetractSteps * running(), most = 0;
  for (const Sequence* s : in_order()) {
    generated += s->known - s->prompt;
    most += s->all - s->prompt;
  }
  expected_ratio_ = std::min(1.0, static_cast<double>(generated) / static_cast<double>(most));
}

std::vector<std::uint32_t> SglangScheduler::complete(const ScheduledBatch& batch) {
  std::vector<std::uint32_t> done = PagedScheduler::complete(batch);
  if (empty()) expected_ratio_ = kFirstExpectedRatio;
  return done;
}

}  // namespace railyard::workload::inference
