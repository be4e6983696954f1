#include "workload/inference/scheduler.h"

#include <fmt/format.h>
#include <algorithm>
#include <limits>

#include "base/units.h"

namespace railyard::workload::inference {

namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint32_t>::max();

// SGLang (managers/schedule_policy.py, schedule_batch.py, scheduler.py; defaults of v0.4): the expected share of what a
// running request may still generate starts at 0.7 and falls to 14 % of that in 600 decode steps; of one request at most
// 4096 tokens are expected; a retraction makes room for 20 steps.
constexpr double kFirstExpectedRatio = 0.7, kLeastExpectedRatio = 0.14 * kFirstExpectedRatio;
constexpr double kExpectedDecay = (kFirstExpectedRatio - kLeastExpectedRatio) / 600;
constexpr std::uint64_t kMostExpectedTokens = 4096;
constexpr std::uint64_t kRetractSteps = 20;

/// splitmix64's finaliser over a running value.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t value) {
  std::uint64_t z = seed + 0x9e3779b97f4a7c15ull * (value + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

constexpr std::uint64_t kShared = 1, kOwn = 2;  // first value of a block's content

}  // namespace

Scheduler::Scheduler(const SchedulerSpec& spec, std::uint32_t blocks)
    : spec_(spec),
      pool_(blocks),
      watermark_(static_cast<std::uint32_t>(spec.watermark_ratio * blocks)),
      expected_ratio_(kFirstExpectedRatio) {}

bool Scheduler::can_hold(const Request& request) const {
  const std::uint64_t all = std::uint64_t{request.prompt_tokens} + request.output_tokens;
  if (blocks_for(all) > pool_.total()) return false;
  return spec_.chunked_prefill ||
         (spec_.preemption == Preemption::never ? request.prompt_tokens : all) <= spec_.max_batched_tokens;
}

void Scheduler::add(std::uint32_t number, const Request& request, PromptContent content, RequestPart part) {
  auto sequence = std::make_unique<Sequence>();
  sequence->number = number;
  sequence->priority = request.priority;
  sequence->prompt = sequence->known = request.prompt_tokens;
  sequence->all = sequence->prompt + request.output_tokens;
  sequence->content = std::move(content);
  if (part == RequestPart::prompt) {
    sequence->all = sequence->prompt + 1;
    sequence->keeps_blocks = true;
  } else if (part == RequestPart::answer) {
    ++sequence->known;
    sequence->kv = Sequence::Kv::elsewhere;
  }
  enqueue(*sequence, false);
  sequences_.emplace(number, std::move(sequence));
}

ScheduledBatch Scheduler::compose() {
  ScheduledBatch batch = next_batch();
  if (!batch.items.empty()) ++in_flight_;
  return batch;
}

ScheduledBatch Scheduler::next_batch() {
  ScheduledBatch batch;
  ++compositions_;
  refusal_ = Refusal::none;
  std::uint64_t budget = spec_.max_batched_tokens;
  const bool is_mixed = spec_.mix == BatchMix::mixed;
  run_running(batch, budget, is_mixed ? Which::all : Which::prompts);
  if (!batch.preempted.empty()) {
    refusal_ = Refusal::blocks;
  } else {
    run_waiting(batch, budget);
  }
  if (is_mixed || !batch.items.empty()) return batch;
  std::uint64_t unlimited = kUnlimited;
  run_running(batch, unlimited, Which::decodes);
  if (spec_.reserve == Reserve::expected_output) retract(batch);
  return batch;
}

std::uint64_t Scheduler::reach(const Sequence& s) const {
  // The KV of an answer's last token is never needed.
  return std::min(s.known + (spec_.placeholders && s.is_running ? s.sampling : 0), s.all - 1);
}

std::uint64_t Scheduler::blocks_for(std::uint64_t tokens) const { return ceil_div(tokens, spec_.block_tokens); }

std::uint64_t Scheduler::below_threshold(std::uint64_t tokens) const {
  const std::uint64_t threshold = spec_.long_prefill_threshold_tokens;
  return threshold == 0 ? tokens : std::min(tokens, threshold);
}

void Scheduler::run_running(ScheduledBatch& batch, std::uint64_t& budget, Which which) {
  for (std::size_t i = 0; i < running_.size() && budget > 0;) {
    Sequence& s = *running_[i];
    const bool is_prompt = s.computed < s.prefill;
    const std::uint64_t tokens = std::min(below_threshold(reach(s) - s.computed), budget);
    if (tokens == 0 || (which == Which::prompts && !is_prompt) || (which == Which::decodes && is_prompt)) {
      ++i;
      continue;
    }
    bool has_blocks = grow(s, tokens);
    if (!has_blocks && spec_.preemption == Preemption::never) {
      ++i;
      continue;
    }
    while (!has_blocks && s.is_running) {
      Sequence& last = *victim();
      const auto place = std::find(running_.begin(), running_.end(), &last) - running_.begin();
      budget += preempt(batch, last);
      if (static_cast<std::size_t>(place) < i) --i;
      if (&last != &s) has_blocks = grow(s, tokens);
    }
    if (!has_blocks && spec_.reserve == Reserve::expected_output) continue;  // SGLang retracts before it composes
    if (!has_blocks) return;
    schedule(batch, s, tokens);
    budget -= tokens;
    ++i;
  }
}

void Scheduler::run_waiting(ScheduledBatch& batch, std::uint64_t& budget) {
  while (!waiting_.empty()) {
    Sequence& s = *waiting_.front();
    if (budget == 0) {
      refusal_ = Refusal::budget;
      return;
    }
    if (running_.size() >= spec_.max_seqs) {
      refusal_ = Refusal::slots;
      return;
    }
    if (s.kv == Sequence::Kv::elsewhere) {
      if (reserve_for_kv(batch)) continue;
      refusal_ = Refusal::blocks;
      return;
    }
    const bool has_kv = s.kv == Sequence::Kv::arrived;
    std::vector<BlockPool::Block> hits;
    if (!has_kv) hits = find_prefix(s);
    const std::uint64_t start = has_kv ? s.computed : hits.size() * spec_.block_tokens;
    const std::uint64_t wanted = below_threshold(s.known - start);
    if (!spec_.chunked_prefill && wanted > budget) {
      refusal_ = Refusal::budget;
      return;
    }
    const std::uint64_t tokens = std::min(wanted, budget);
    if (!may_start(s, hits, start + tokens)) {
      refusal_ = Refusal::blocks;
      return;
    }
    if (has_kv) {
      reserved_.erase(std::find(reserved_.begin(), reserved_.end(), &s));
      s.kv = Sequence::Kv::here;
      s.prefill = s.prompt;
    } else {
      begin_with(s, std::move(hits));
      s.prefill = s.known;
    }
    grow(s, tokens);
    waiting_.pop_front();
    running_.push_back(&s);
    s.is_running = true;
    schedule(batch, s, tokens);
    budget -= tokens;
  }
}

void Scheduler::begin_with(Sequence& s, std::vector<BlockPool::Block> hits) {
  for (const BlockPool::Block block : hits) pool_.share(block);
  s.filled = hits.size();
  s.blocks = std::move(hits);
  s.computed = s.filled * spec_.block_tokens;
  if (!s.has_started) s.counts.cached_tokens = s.computed;
}

bool Scheduler::reserve_for_kv(ScheduledBatch& batch) {
  Sequence& s = *waiting_.front();
  std::vector<BlockPool::Block> hits = find_prefix(s);
  if (!may_start(s, hits, s.known)) return false;
  begin_with(s, std::move(hits));
  grow(s, s.prompt - s.computed);
  s.kv = Sequence::Kv::arriving;
  reserved_.push_back(&s);
  waiting_.pop_front();
  batch.reservations.push_back({s.number, s.computed});
  return true;
}

void Scheduler::arrived(std::uint32_t number) {
  Sequence& s = *sequences_.at(number);
  s.kv = Sequence::Kv::arrived;
  s.computed = s.prompt;
  fill_blocks(s, s.prompt);
  // Its turn has come already: before all requests that came after it.
  const auto place =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Sequence* other) { return is_before(s, *other); });
  waiting_.insert(place, &s);
}

void Scheduler::release(std::uint32_t number) {
  const auto kept = kept_.find(number);
  release_blocks(*kept->second);
  kept_.erase(kept);
}

bool Scheduler::grow(Sequence& s, std::uint64_t tokens) {
  const std::uint64_t needed = blocks_for(s.computed + tokens);
  if (needed > s.blocks.size() + pool_.free()) return false;
  while (s.blocks.size() < needed) s.blocks.push_back(pool_.take());
  return true;
}

std::uint64_t Scheduler::reserved_answer(const Sequence& s) const {
  const std::uint64_t rest = s.all - s.known;
  if (spec_.reserve == Reserve::full_output) return rest;
  if (spec_.reserve != Reserve::expected_output) return 0;
  const std::uint64_t most = std::min(rest, kMostExpectedTokens);
  if (!s.is_running || s.last_prefill == compositions_) return most;
  return static_cast<std::uint64_t>(expected_ratio_ * static_cast<double>(most));
}

bool Scheduler::may_start(const Sequence& s, const std::vector<BlockPool::Block>& hits, std::uint64_t tokens) const {
  const std::uint64_t wanted = blocks_for(spec_.reserve == Reserve::chunk ? tokens : s.known + reserved_answer(s));
  std::uint64_t needed = wanted - std::min<std::uint64_t>(wanted, hits.size() + s.blocks.size());
  // A block of the prefix that nobody holds is free now, and will not be.
  for (const BlockPool::Block block : hits) needed += pool_.references(block) == 0 ? 1 : 0;
  if (!running_.empty()) needed += watermark_;
  if (spec_.reserve == Reserve::full_output || spec_.reserve == Reserve::expected_output) {
    for (const auto* others : {&running_, &reserved_}) {
      for (const Sequence* other : *others) {
        const std::uint64_t blocks = other == &s ? 0 : blocks_for(other->known + reserved_answer(*other));
        needed += blocks - std::min<std::uint64_t>(blocks, other->blocks.size());
      }
    }
  }
  return needed <= pool_.free();
}

BlockPool::Content Scheduler::content(Sequence& s, std::size_t block) {
  while (s.contents.size() <= block) {
    const std::uint64_t begin = s.contents.size() * spec_.block_tokens, end = begin + spec_.block_tokens;
    const std::uint64_t grain = s.content.block_tokens;
    std::uint64_t value = s.contents.empty() ? 0 : s.contents.back();
    // The last id may stand for more tokens than the prompt has; the block's other tokens are of the answer.
    if (end <= std::min(s.prompt, s.content.ids.size() * grain)) {
      value = mixed(mixed(value, kShared), begin % grain);
      for (std::uint64_t i = begin / grain; i * grain < end; ++i) value = mixed(value, s.content.ids[i]);
    } else {
      value = mixed(mixed(value, kOwn), s.number);
    }
    s.contents.push_back(value);
  }
  return s.contents[block];
}

std::vector<BlockPool::Block> Scheduler::find_prefix(Sequence& s) {
  std::vector<BlockPool::Block> hits;
  if (!spec_.prefix_caching) return hits;
  // At least one token is computed: the model produces a token only from the one before.
  const std::uint64_t most = (s.known - 1) / spec_.block_tokens;
  while (hits.size() < most) {
    const BlockPool::Block block = pool_.find(content(s, hits.size()));
    if (block == BlockPool::kNone) break;
    hits.push_back(block);
  }
  return hits;
}

void Scheduler::schedule(ScheduledBatch& batch, Sequence& s, std::uint64_t tokens) {
  ScheduledBatch::Item item;
  item.request = s.number;
  item.tokens = static_cast<std::uint32_t>(tokens);
  item.start = s.computed;
  item.is_first = !s.has_started;
  item.is_decode = tokens == 1 && s.computed >= s.prompt;
  s.has_started = true;
  if (s.computed < s.prefill) s.last_prefill = compositions_;
  s.counts.recomputed_tokens += repeated(s, tokens);
  s.computed += tokens;
  item.samples = s.computed == s.known + s.sampling;
  if (item.samples) ++s.sampling;
  fill_blocks(s, std::min(s.computed, s.known));
  batch.items.push_back(item);
}

std::uint64_t Scheduler::repeated(const Sequence& s, std::uint64_t tokens) {
  return std::min(s.furthest, s.computed + tokens) - std::min(s.furthest, s.computed);
}

Scheduler::Sequence* Scheduler::victim() const {
  if (spec_.reserve == Reserve::expected_output) {
    // The shortest answer so far, then the longest prompt, then the last one.
    const auto is_better = [](const Sequence* a, const Sequence* b) {
      const std::uint64_t generated_a = a->known - a->prompt, generated_b = b->known - b->prompt;
      return generated_a != generated_b ? generated_a > generated_b : a->prompt < b->prompt;
    };
    return *std::max_element(running_.rbegin(), running_.rend(), is_better);
  }
  if (spec_.policy == QueuePolicy::fcfs) return running_.back();
  return *std::max_element(running_.begin(), running_.end(),
                           [&](const Sequence* a, const Sequence* b) { return is_before(*a, *b); });
}

std::uint64_t Scheduler::preempt(ScheduledBatch& batch, Sequence& s) {
  std::uint64_t given_back = 0;
  const auto item = std::find_if(batch.items.begin(), batch.items.end(),
                                 [&](const ScheduledBatch::Item& i) { return i.request == s.number; });
  if (item != batch.items.end()) {
    given_back = item->tokens;
    if (item->samples) --s.sampling;
    s.computed = item->start;
    s.counts.recomputed_tokens -= repeated(s, given_back);
    batch.items.erase(item);
  }
  release_blocks(s);
  s.furthest = std::max(s.furthest, s.computed);
  s.computed = 0;
  s.is_running = false;
  ++s.counts.preemptions;
  running_.erase(std::find(running_.begin(), running_.end(), &s));
  enqueue(s, spec_.reserve != Reserve::expected_output);
  batch.preempted.push_back(s.number);
  return given_back;
}

void Scheduler::retract(ScheduledBatch& batch) {
  if (batch.items.empty()) return;
  if (batch.preempted.empty()) {
    expected_ratio_ = std::max(kLeastExpectedRatio, expected_ratio_ - kExpectedDecay);
    return;
  }
  const auto room = [&] { return running_.size() * ceil_div(kRetractSteps, spec_.block_tokens); };
  while (running_.size() > 1 && room() > pool_.free()) preempt(batch, *victim());
  std::uint64_t generated = kRetractSteps * running_.size(), most = 0;
  for (const Sequence* s : running_) {
    generated += s->known - s->prompt;
    most += s->all - s->prompt;
  }
  expected_ratio_ = std::min(1.0, static_cast<double>(generated) / static_cast<double>(most));
}

void Scheduler::fill_blocks(Sequence& s, std::uint64_t tokens) {
  if (!spec_.prefix_caching) return;
  for (; (s.filled + 1) * spec_.block_tokens <= tokens; ++s.filled)
    pool_.fill(s.blocks[s.filled], content(s, s.filled));
}

void Scheduler::release_blocks(Sequence& s) {
  // The tail first: the beginning of a sequence is more likely to be needed again.
  for (; !s.blocks.empty(); s.blocks.pop_back()) pool_.release(s.blocks.back());
  s.filled = 0;
}

bool Scheduler::is_before(const Sequence& a, const Sequence& b) const {
  return a.priority != b.priority ? a.priority < b.priority : a.number < b.number;
}

void Scheduler::enqueue(Sequence& s, bool at_head) {
  if (spec_.policy == QueuePolicy::priority) {
    const auto place = std::upper_bound(waiting_.begin(), waiting_.end(), &s,
                                        [&](const Sequence* a, const Sequence* b) { return is_before(*a, *b); });
    waiting_.insert(place, &s);
  } else if (at_head) {
    waiting_.push_front(&s);
  } else {
    waiting_.push_back(&s);
  }
}

std::vector<std::uint32_t> Scheduler::complete(const ScheduledBatch& batch) {
  std::vector<std::uint32_t> done;
  --in_flight_;
  left_.clear();
  for (const ScheduledBatch::Item& item : batch.items) {
    if (!item.samples) continue;  // the request may have left, if it was preempted after its last token was scheduled
    Sequence& s = *sequences_.at(item.request);
    --s.sampling;
    ++s.known;
    fill_blocks(s, std::min(s.computed, s.known));
    if (s.known != s.all) continue;
    done.push_back(s.number);
    leave(s);
  }
  return done;
}

std::string Scheduler::blocked() const {
  if (waiting_.empty()) return "";
  return fmt::format("{} requests wait, request {} first: {} of {} blocks are free", waiting_.size(), first_waiting(),
                     pool_.free(), pool_.total());
}

const Scheduler::Counts& Scheduler::counts(std::uint32_t number) const {
  const auto left = left_.find(number);
  return left != left_.end() ? left->second : sequences_.at(number)->counts;
}

void Scheduler::leave(Sequence& s) {
  left_.emplace(s.number, s.counts);
  if (s.is_running) {
    running_.erase(std::find(running_.begin(), running_.end(), &s));
  } else {
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &s));
  }
  const auto own = sequences_.find(s.number);
  if (s.keeps_blocks) {
    kept_.emplace(s.number, std::move(own->second));
  } else {
    release_blocks(s);
  }
  sequences_.erase(own);
  if (sequences_.empty()) expected_ratio_ = kFirstExpectedRatio;
}

}  // namespace railyard::workload::inference
