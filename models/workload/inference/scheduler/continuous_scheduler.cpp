#include "workload/inference/scheduler/continuous_scheduler.h"

#include <algorithm>
#include <limits>

#include "base/units.h"
#include "workload/inference/scheduler/blocked.h"

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

ContinuousScheduler::ContinuousScheduler(const SchedulerSpec& spec, std::uint32_t blocks)
    : spec_(spec),
      store_(blocks, spec.block_tokens, spec.prefix_caching),
      watermark_(static_cast<std::uint32_t>(spec.watermark_ratio * blocks)),
      expected_ratio_(kFirstExpectedRatio) {}

bool ContinuousScheduler::can_hold(const Request& request, RequestPart part) const {
  const std::uint64_t all =
      std::uint64_t{request.prompt_tokens} + (part == RequestPart::prompt ? 1 : request.output_tokens);
  if (store_.blocks_for(all) > store_.pool().total() || (spec_.max_model_len > 0 && all > spec_.max_model_len))
    return false;
  return spec_.chunked_prefill ||
         (spec_.preemption == Preemption::never ? request.prompt_tokens : all) <= spec_.max_batched_tokens;
}

void ContinuousScheduler::add(std::uint32_t number, const Request& request, RequestContent content, RequestPart part) {
  auto sequence = std::make_unique<Sequence>(number, request.prompt_tokens, std::move(content));
  sequence->number = number;
  sequence->priority = request.priority;
  sequence->prompt = sequence->known = request.prompt_tokens;
  sequence->all = sequence->prompt + request.output_tokens;
  if (part == RequestPart::prompt) {
    sequence->all = sequence->prompt + 1;
    sequence->keeps_blocks = true;
  } else if (part == RequestPart::answer) {
    if (!spec_.computes_first_token) ++sequence->known;
    sequence->kv = Sequence::Kv::elsewhere;
  }
  enqueue(*sequence, false);
  sequences_.emplace(number, std::move(sequence));
}

ScheduledBatch ContinuousScheduler::compose() {
  ScheduledBatch batch;
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
  if (!is_mixed && batch.items.empty()) {
    std::uint64_t unlimited = kUnlimited;
    run_running(batch, unlimited, Which::decodes);
    if (spec_.reserve == Reserve::expected_output) retract(batch);
  }
  if (!batch.items.empty()) ++in_flight_;
  return batch;
}

std::uint64_t ContinuousScheduler::reach(const Sequence& s) const {
  const bool is_next_token = s.is_running && s.computed >= s.prefill && s.computed + 1 == s.known;
  const std::uint64_t ahead = spec_.placeholders && s.is_running ? s.sampling : is_next_token ? spec_.draft_tokens : 0;
  // The KV of an answer's last token is never needed.
  return std::min(s.known + ahead, s.all - 1);
}

std::uint64_t ContinuousScheduler::below_threshold(std::uint64_t tokens) const {
  const std::uint64_t threshold = spec_.long_prefill_threshold_tokens;
  return threshold == 0 ? tokens : std::min(tokens, threshold);
}

void ContinuousScheduler::run_running(ScheduledBatch& batch, std::uint64_t& budget, Which which) {
  for (std::size_t i = 0; i < running_.size() && budget > 0;) {
    Sequence& s = *running_[i];
    const bool is_prompt = s.computed < s.prefill;
    const std::uint64_t tokens = std::min(below_threshold(reach(s) - s.computed), budget);
    const bool is_left_out = (which == Which::prompts && !is_prompt) || (which == Which::decodes && is_prompt);
    if (tokens == 0 || is_left_out) {
      ++i;
      continue;
    }
    bool has_blocks = store_.grow(s.held, s.computed + tokens);
    if (!has_blocks && spec_.preemption == Preemption::never) {
      ++i;
      continue;
    }
    while (!has_blocks && s.is_running) {
      Sequence& last = *victim();
      const auto place = std::find(running_.begin(), running_.end(), &last) - running_.begin();
      budget += preempt(batch, last);
      if (static_cast<std::size_t>(place) < i) --i;
      if (&last != &s) has_blocks = store_.grow(s.held, s.computed + tokens);
    }
    if (!has_blocks && spec_.reserve == Reserve::expected_output) continue;  // SGLang retracts before it composes
    if (!has_blocks) return;
    schedule(batch, s, tokens);
    budget -= tokens;
    ++i;
  }
}

std::size_t ContinuousScheduler::free_slots() const {
  return spec_.max_seqs - std::min<std::size_t>(spec_.max_seqs, running_.size());
}

void ContinuousScheduler::run_waiting(ScheduledBatch& batch, std::uint64_t& budget, std::size_t slots) {
  while (!waiting_.empty()) {
    if (budget == 0) {
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

ContinuousScheduler::Sequence* ContinuousScheduler::first_arrived() const {
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [](const Sequence* s) { return s->kv == Sequence::Kv::arrived; });
  return found == waiting_.end() ? nullptr : *found;
}

Refusal ContinuousScheduler::start(ScheduledBatch& batch, Sequence& s, std::uint64_t& budget) {
  if (s.kv == Sequence::Kv::elsewhere) return reserve_for_kv(batch, s) ? Refusal::none : Refusal::blocks;
  const bool has_kv = s.kv == Sequence::Kv::arrived;
  KvStore::Prefix hits;
  if (!has_kv) hits = store_.find(s.held, s.known);
  const std::uint64_t begin = has_kv ? s.computed : store_.tokens(hits);
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
  store_.grow(s.held, s.computed + tokens);
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &s));
  running_.push_back(&s);
  s.is_running = true;
  schedule(batch, s, tokens);
  budget -= tokens;
  return Refusal::none;
}

void ContinuousScheduler::schedule(ScheduledBatch& batch, Sequence& s, std::uint64_t tokens) {
  ScheduledBatch::Item item;
  item.request = s.number;
  item.tokens = static_cast<std::uint32_t>(tokens);
  item.start = s.computed;
  item.is_first = !s.has_started;
  const bool is_answer = s.computed + (s.decodes_first ? 1 : 0) >= s.prompt;
  const bool has_drafts = s.computed >= s.prefill && tokens <= 1 + spec_.draft_tokens;
  item.is_decode = is_answer && (tokens == 1 || has_drafts);
  if (!item.is_decode) item.chunk = s.chunks++;
  s.has_started = true;
  if (s.computed < s.prefill) s.last_prefill = compositions_;
  s.counts.recomputed_tokens += repeated(s, tokens);
  s.computed += tokens;
  // The model has tokens after those that are known, and after each draft.
  if (item.is_decode && item.tokens > 1) {
    item.produces = item.tokens;
  } else {
    item.produces = s.computed == s.known + s.sampling ? 1 : 0;
  }
  s.sampling += item.produces;
  store_.fill(s.held, std::min(s.computed, s.known));
  batch.items.push_back(item);
}

std::uint64_t ContinuousScheduler::repeated(const Sequence& s, std::uint64_t tokens) {
  return std::min(s.furthest, s.computed + tokens) - std::min(s.furthest, s.computed);
}

ContinuousScheduler::Sequence* ContinuousScheduler::victim() const {
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

std::uint64_t ContinuousScheduler::preempt(ScheduledBatch& batch, Sequence& s) {
  std::uint64_t given_back = 0;
  const auto item = std::find_if(batch.items.begin(), batch.items.end(),
                                 [&](const ScheduledBatch::Item& i) { return i.request == s.number; });
  if (item != batch.items.end()) {
    given_back = item->tokens;
    s.sampling -= item->produces;
    s.computed = item->start;
    s.counts.recomputed_tokens -= repeated(s, given_back);
    batch.items.erase(item);
  }
  store_.give_back(s.held);
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

void ContinuousScheduler::retract(ScheduledBatch& batch) {
  if (batch.items.empty()) return;
  if (batch.preempted.empty()) {
    expected_ratio_ = std::max(kLeastExpectedRatio, expected_ratio_ - kExpectedDecay);
    return;
  }
  const auto room = [&] { return running_.size() * ceil_div(kRetractSteps, spec_.block_tokens); };
  while (running_.size() > 1 && room() > store_.pool().free()) preempt(batch, *victim());
  std::uint64_t generated = kRetractSteps * running_.size(), most = 0;
  for (const Sequence* s : running_) {
    generated += s->known - s->prompt;
    most += s->all - s->prompt;
  }
  expected_ratio_ = std::min(1.0, static_cast<double>(generated) / static_cast<double>(most));
}

bool ContinuousScheduler::is_before(const Sequence& a, const Sequence& b) const {
  return a.priority != b.priority ? a.priority < b.priority : a.number < b.number;
}

void ContinuousScheduler::enqueue(Sequence& s, bool at_head) {
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

std::vector<std::uint32_t> ContinuousScheduler::complete(const ScheduledBatch& batch) {
  std::vector<std::uint32_t> done;
  --in_flight_;
  left_.clear();
  for (const ScheduledBatch::Item& item : batch.items) {
    if (item.produces == 0)
      continue;  // the request may have left, if it was preempted after its last token was scheduled
    Sequence& s = *sequences_.at(item.request);
    const bool has_drafts = item.is_decode && item.tokens > 1;
    s.sampling -= has_drafts ? item.tokens : 1;
    s.known += item.produces;
    // The KV of drafts that were wrong is worth nothing; their blocks stay for the next tokens.
    if (has_drafts && s.is_running) s.computed -= item.tokens - item.produces;
    store_.fill(s.held, std::min(s.computed, s.known));
    if (s.known != s.all) continue;
    done.push_back(s.number);
    leave(s);
  }
  return done;
}

std::string ContinuousScheduler::blocked() const {
  if (waiting_.empty()) return "";
  const Sequence& s = *waiting_.front();
  const auto state = [](const Sequence& of) {
    if (of.is_running) return "runs";
    if (of.kv == Sequence::Kv::arriving) return "its KV is on its way";
    return of.kv == Sequence::Kv::arrived ? "its KV has arrived" : "waits";
  };
  std::vector<Holder> holders;
  for (const auto& [number, of] : sequences_) holders.push_back({number, of->held.blocks(), state(*of)});
  for (const auto& [number, of] : kept_) holders.push_back({number, of->held.blocks(), "its KV has not been read"});
  return blocked_text(waiting_.size(), s.number, blocks_to_start(s, {}, s.known), memory(), std::move(holders));
}

Scheduler::Counts ContinuousScheduler::counts(std::uint32_t number) const {
  const auto left = left_.find(number);
  return left != left_.end() ? left->second : sequences_.at(number)->counts;
}

void ContinuousScheduler::leave(Sequence& s) {
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
    store_.give_back(s.held);
  }
  sequences_.erase(own);
  if (sequences_.empty()) expected_ratio_ = kFirstExpectedRatio;
}

}  // namespace railyard::workload::inference
