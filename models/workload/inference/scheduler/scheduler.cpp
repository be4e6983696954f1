#include "workload/inference/scheduler/scheduler.h"

#include <fmt/format.h>
#include <algorithm>
#include <limits>

#include "base/units.h"

namespace railyard::workload::inference {

namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint32_t>::max();

// SGLang (managers/schedule_policy.py, schedule_batch.py, scheduler.py; defaults of v0.4): the expected share of what a
// running request may still generate starts at 0.7 and falls to 14 % of that in 600 decode steps; a retraction
// makes room for 20 steps.
constexpr double kFirstExpectedRatio = 0.7, kLeastExpectedRatio = 0.14 * kFirstExpectedRatio;
constexpr double kExpectedDecay = (kFirstExpectedRatio - kLeastExpectedRatio) / 600;
constexpr std::uint64_t kRetractSteps = 20;

}  // namespace

Scheduler::Scheduler(const SchedulerSpec& spec, std::uint32_t blocks, WholeSequences* whole)
    : spec_(spec),
      pool_(blocks),
      whole_(whole),
      groups_(spec.groups),
      watermark_(static_cast<std::uint32_t>(spec.watermark_ratio * blocks)),
      expected_ratio_(kFirstExpectedRatio) {}

bool Scheduler::can_hold(const Request& request, RequestPart part) const {
  // Memory ahead has been checked before the run.
  if (is_ahead()) return true;
  const std::uint64_t all =
      std::uint64_t{request.prompt_tokens} + (part == RequestPart::prompt ? 1 : request.output_tokens);
  if (blocks_for(all) > pool_.total() || (spec_.max_model_len > 0 && all > spec_.max_model_len)) return false;
  return spec_.chunked_prefill ||
         (spec_.preemption == Preemption::never ? request.prompt_tokens : all) <= spec_.max_batched_tokens;
}

void Scheduler::add(std::uint32_t number, const Request& request, RequestContent content, RequestPart part) {
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
    if (!spec_.computes_first_token) ++sequence->known;
    sequence->kv = Sequence::Kv::elsewhere;
  }
  if (is_ahead()) {
    before_memory_.push_back(sequence.get());
  } else {
    enqueue(*sequence, false);
  }
  sequences_.emplace(number, std::move(sequence));
}

bool Scheduler::may_step(const Group& group) const {
  return spec_.is_eager ? group.composed == group.begun : group.composed - group.done < spec_.max_in_flight;
}

bool Scheduler::may_compose() const {
  return !sequences_.empty() &&
         std::any_of(groups_.begin(), groups_.end(), [&](const Group& group) { return may_step(group); });
}

ScheduledBatch Scheduler::compose() {
  ScheduledBatch batch;
  for (std::uint32_t group = 0; group < groups_.size() && batch.items.empty(); ++group) {
    if (groups_.size() > 1 && !may_step(groups_[group])) continue;  // the caller knows that some group may
    batch = next_batch(group);
    if (!batch.items.empty()) ++groups_[group].composed;
  }
  return batch;
}

ScheduledBatch Scheduler::next_batch(std::uint32_t group) {
  ScheduledBatch batch;
  batch.group = group;
  const std::size_t slots = free_slots();
  ++compositions_;
  refusal_ = Refusal::none;
  refuses_all_ = false;
  std::uint64_t budget = spec_.max_batched_tokens;
  const bool is_mixed = spec_.mix == BatchMix::mixed;
  run_running(batch, budget, is_mixed ? Which::all : Which::prompts);
  if (!batch.preempted.empty()) {
    refusal_ = Refusal::blocks;
    refuses_all_ = true;
  } else {
    run_waiting(batch, budget, slots);
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
    const bool is_left_out = s.group != batch.group || (spec_.prompts_in_turn && !batch.items.empty()) ||
                             (which == Which::prompts && !is_prompt) || (which == Which::decodes && is_prompt);
    if (tokens == 0 || is_left_out) {
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

std::size_t Scheduler::free_slots() const {
  const auto open = [](const Sequence* s) { return s->computed < s->all - 1; };
  // Groups give a slot away as soon as the last token of its request is in a batch.
  const auto taken =
      is_ahead() ? static_cast<std::size_t>(std::count_if(running_.begin(), running_.end(), open)) : running_.size();
  return spec_.max_seqs - std::min<std::size_t>(spec_.max_seqs, taken);
}

void Scheduler::run_waiting(ScheduledBatch& batch, std::uint64_t& budget, std::size_t slots) {
  while (!waiting_.empty()) {
    if (budget == 0 || (spec_.prompts_in_turn && !batch.items.empty())) {
      refusal_ = Refusal::budget;
      refuses_all_ = true;
      return;
    }
    if (slots == 0) {
      refusal_ = Refusal::slots;
      refuses_all_ = true;
      return;
    }
    const std::size_t items = batch.items.size();
    refusal_ = start(batch, *waiting_.front(), budget);
    if (refusal_ == Refusal::blocks && running_.empty())
      if (Sequence* const s = first_arrived()) start(batch, *s, budget);
    if (refusal_ != Refusal::none) return;
    slots -= batch.items.size() - items;
  }
}

Scheduler::Sequence* Scheduler::first_arrived() const {
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [](const Sequence* s) { return s->kv == Sequence::Kv::arrived; });
  return found == waiting_.end() ? nullptr : *found;
}

Refusal Scheduler::start(ScheduledBatch& batch, Sequence& s, std::uint64_t& budget) {
  if (s.kv == Sequence::Kv::elsewhere) return reserve_for_kv(batch, s) ? Refusal::none : Refusal::blocks;
  const bool has_kv = s.kv == Sequence::Kv::arrived;
  std::vector<BlockPool::Block> hits;
  if (!has_kv) hits = find_prefix(s);
  const std::uint64_t begin = has_kv ? s.computed : hits.size() * spec_.block_tokens;
  const std::uint64_t wanted = below_threshold(s.known - begin);
  if (!spec_.chunked_prefill && wanted > budget) return Refusal::budget;
  const std::uint64_t tokens = std::min(wanted, budget);
  if (!may_start(s, hits, begin + tokens)) return Refusal::blocks;
  if (has_kv) {
    reserved_.erase(std::find(reserved_.begin(), reserved_.end(), &s));
    s.kv = Sequence::Kv::here;
    s.prefill = s.computed;
  } else {
    begin_with(s, std::move(hits));
    s.prefill = s.known;
  }
  grow(s, tokens);
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &s));
  running_.push_back(&s);
  s.is_running = true;
  s.group = batch.group;
  schedule(batch, s, tokens);
  budget -= tokens;
  return Refusal::none;
}

void Scheduler::schedule(ScheduledBatch& batch, Sequence& s, std::uint64_t tokens) {
  ScheduledBatch::Item item;
  item.request = s.number;
  item.tokens = static_cast<std::uint32_t>(tokens);
  item.start = s.computed;
  item.is_first = !s.has_started;
  item.is_decode = tokens == 1 && s.computed + (s.decodes_first ? 1 : 0) >= s.prompt;
  if (!item.is_decode) item.chunk = s.chunks++;
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
  s.decodes_first = false;
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
  ++groups_[batch.group].done;
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
  const std::deque<Sequence*>& queue = is_ahead() ? before_memory_ : waiting_;
  if (queue.empty()) return "";
  const Sequence& s = *queue.front();
  const std::uint64_t needed =
      is_ahead() ? whole_->blocks(s.kv == Sequence::Kv::here ? s.prompt : s.all) : blocks_to_start(s, {}, s.known);
  const std::string holders = this->holders();
  return fmt::format("{} requests wait, request {} first, for {} blocks: {} of {} are free{}", queue.size(), s.number,
                     needed, pool_.free(), pool_.total(), holders.empty() ? "" : "; held by " + holders);
}

std::string Scheduler::holders() const {
  constexpr std::size_t kMostListed = 8;
  struct Holder {
    std::uint32_t number;
    std::uint64_t blocks;
    const char* state;
  };
  std::vector<Holder> all;
  const auto add = [&](const Sequence& s, const char* state) {
    const std::uint64_t blocks = s.whole != 0 ? whole_->blocks(s.whole) : s.blocks.size();
    if (blocks > 0) all.push_back({s.number, blocks, state});
  };
  const auto state = [](const Sequence& s) {
    if (s.is_running) return "runs";
    if (s.kv == Sequence::Kv::arriving) return "its KV is on its way";
    return s.kv == Sequence::Kv::arrived ? "its KV has arrived" : "waits";
  };
  for (const auto& [number, s] : sequences_) add(*s, state(*s));
  for (const auto& [number, s] : kept_) add(*s, "its KV has not been read");
  std::sort(all.begin(), all.end(), [](const Holder& a, const Holder& b) {
    return a.blocks != b.blocks ? a.blocks > b.blocks : a.number < b.number;
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kMostListed); ++i)
    text += fmt::format("{}request {}: {} ({})", i > 0 ? ", " : "", all[i].number, all[i].blocks, all[i].state);
  if (all.size() > kMostListed) text += fmt::format(", and {} others", all.size() - kMostListed);
  return text;
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
