#include "workload/inference/scheduler/paged_scheduler.h"

#include <algorithm>
#include <limits>

#include "workload/inference/scheduler/blocked.h"

namespace railyard::workload::inference {

PagedScheduler::PagedScheduler(const SchedulerSpec& spec, std::uint32_t blocks)
    : spec_(spec),
      store_(blocks, spec.block_tokens, spec.prefix_caching, spec.below),
      acceptance_(spec.drafts),
      watermark_(static_cast<std::uint32_t>(spec.watermark_ratio * blocks)) {}

bool PagedScheduler::can_hold(const Request& request, RequestPart part) const {
  const std::uint64_t all =
      std::uint64_t{request.prompt_tokens} + (part == RequestPart::prompt ? 1 : request.output_tokens);
  if (store_.blocks_for(spec_.most_slots(all)) > store_.pool().total() ||
      (spec_.max_model_len > 0 && all > spec_.max_model_len))
    return false;
  return spec_.chunked_prefill || tokens_at_once(request, all) <= spec_.max_batched_tokens;
}

std::uint64_t PagedScheduler::tokens_at_once(const Request&, std::uint64_t all) const { return all; }

void PagedScheduler::add(std::uint32_t number, const Request& request, RequestContent content, RequestPart part) {
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

ScheduledBatch PagedScheduler::compose() {
  ScheduledBatch batch;
  ++compositions_;
  refusal_ = Refusal::none;
  refuses_all_ = false;
  fill(batch);
  if (!batch.items.empty()) ++in_flight_;
  return batch;
}

std::uint64_t PagedScheduler::reach(const Sequence& s) const {
  const std::uint64_t known = s.known + (spec_.placeholders ? s.sampling : 0);
  const bool has_drafts = spec_.drafts.tokens > 0 && s.computed >= s.prefill && s.computed + 1 == known;
  // The KV of an answer's last token is never needed.
  if (!has_drafts) return std::max(s.computed, std::min(known, s.all - 1));
  // Each batch in flight gives one token at least.
  if (s.known + s.batches >= s.all) return s.computed;
  // The answer's end does not cut drafts: batches in which all decodes have as many are CUDA graphs.
  const std::uint64_t end = known + spec_.drafts.tokens;
  return spec_.max_model_len > 0 ? std::min<std::uint64_t>(end, spec_.max_model_len - 1) : end;
}

std::uint64_t PagedScheduler::slots(std::uint64_t end) const {
  const std::uint64_t wanted = end + spec_.drafts.lookahead;
  return spec_.max_model_len > 0 ? std::min<std::uint64_t>(wanted, spec_.max_model_len) : wanted;
}

std::uint64_t PagedScheduler::below_threshold(std::uint64_t tokens) const {
  const std::uint64_t threshold = spec_.long_prefill_threshold_tokens;
  return threshold == 0 ? tokens : std::min(tokens, threshold);
}

void PagedScheduler::run_running(ScheduledBatch& batch, std::uint64_t& budget, Which which) {
  for (std::size_t i = 0; i < running_.size() && budget > 0;) {
    Sequence& s = *running_[i];
    const bool is_prompt = s.computed < s.prefill;
    const std::uint64_t tokens = std::min(below_threshold(reach(s) - s.computed), budget);
    const bool is_left_out = (which == Which::prompts && !is_prompt) || (which == Which::decodes && is_prompt);
    if (tokens == 0 || is_left_out) {
      ++i;
      continue;
    }
    if (!store_.grow(s.held, slots(s.computed + tokens))) {
      const Room room = make_room(batch, i, tokens, budget);
      if (room == Room::left) continue;
      if (room == Room::full) return;
    }
    schedule(batch, s, tokens);
    budget -= tokens;
    ++i;
  }
}

void PagedScheduler::run_decodes(ScheduledBatch& batch) {
  std::uint64_t unlimited = std::numeric_limits<std::uint32_t>::max();
  run_running(batch, unlimited, Which::decodes);
}

std::size_t PagedScheduler::free_slots() const {
  return spec_.max_seqs - std::min<std::size_t>(spec_.max_seqs, running_.size());
}

void PagedScheduler::run_waiting(ScheduledBatch& batch, std::uint64_t& budget, std::size_t slots) {
  if (!batch.preempted.empty()) return refuse_waiting(Refusal::blocks);
  while (!waiting_.empty()) {
    if (budget == 0) return refuse_waiting(Refusal::budget);
    if (slots == 0) return refuse_waiting(Refusal::slots);
    const std::size_t items = batch.items.size();
    refusal_ = start(batch, *waiting_.front(), budget);
    if (refusal_ == Refusal::blocks && running_.empty())
      if (Sequence* const s = first_arrived()) start(batch, *s, budget);
    if (refusal_ != Refusal::none) return;
    slots -= batch.items.size() - items;
  }
}

PagedScheduler::Sequence* PagedScheduler::first_arrived() const {
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [](const Sequence* s) { return s->kv == Sequence::Kv::arrived; });
  return found == waiting_.end() ? nullptr : *found;
}

Refusal PagedScheduler::start(ScheduledBatch& batch, Sequence& s, std::uint64_t& budget) {
  // It was preempted with drafts in flight, and nobody knows how many of its tokens follow from them.
  if (spec_.drafts.tokens > 0 && s.sampling > 0) return Refusal::blocks;
  if (s.kv == Sequence::Kv::elsewhere) return reserve_for_kv(batch, s) ? Refusal::none : Refusal::blocks;
  const bool has_kv = s.kv == Sequence::Kv::arrived;
  KvStore::Prefix hits;
  if (!has_kv) {
    hits = find(s);
    if (await_read(batch, s, hits)) return Refusal::none;
    if (const std::uint64_t below = store_.find_in_host(s.held, hits, s.known); below > 0)
      return load(batch, s, std::move(hits), below) ? Refusal::none : Refusal::blocks;
  }
  const std::uint64_t begin = has_kv ? s.computed : store_.tokens(hits);
  const std::uint64_t wanted = below_threshold(s.known - begin);
  if (!spec_.chunked_prefill && wanted > budget) return Refusal::budget;
  const std::uint64_t tokens = std::min(wanted, budget);
  // As in vLLM, a request takes blocks for drafts when its prompt is here, not with the first chunk of its prompt.
  const std::uint64_t needed = has_kv ? slots(begin + tokens) : begin + tokens;
  if (!may_start(s, hits, needed)) return Refusal::blocks;
  if (has_kv) {
    reserved_.erase(std::find(reserved_.begin(), reserved_.end(), &s));
    s.kv = Sequence::Kv::here;
  } else {
    begin_with(s, std::move(hits));
    s.prefill = s.known;
  }
  store_.grow(s.held, needed);
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &s));
  running_.push_back(&s);
  s.is_running = true;
  s.has_read = false;
  schedule(batch, s, tokens);
  budget -= tokens;
  return Refusal::none;
}

void PagedScheduler::schedule(ScheduledBatch& batch, Sequence& s, std::uint64_t tokens) {
  if (s.computed < s.prefill) s.last_prefill = compositions_;
  s.counts.recomputed_tokens += repeated(s, tokens);
  batch.items.push_back(s.Progress::schedule(tokens));
  batch.items.back().preemptions = s.counts.preemptions;
  store_.fill(s.held, std::min(s.computed, s.known));
}

std::uint64_t PagedScheduler::repeated(const Sequence& s, std::uint64_t tokens) {
  return std::min(s.furthest, s.computed + tokens) - std::min(s.furthest, s.computed);
}

std::uint64_t PagedScheduler::preempt(ScheduledBatch& batch, Sequence& s, bool to_head) {
  std::uint64_t given_back = 0;
  const auto item = std::find_if(batch.items.begin(), batch.items.end(),
                                 [&](const ScheduledBatch::Item& i) { return i.request == s.number; });
  if (item != batch.items.end()) {
    given_back = item->tokens;
    s.take_back(*item);
    s.counts.recomputed_tokens -= repeated(s, given_back);
    batch.items.erase(item);
  }
  store_.give_back(s.held);
  s.furthest = std::max(s.furthest, std::min(s.computed, s.known));
  s.computed = 0;
  s.is_running = false;
  s.decodes_first = false;
  ++s.counts.preemptions;
  running_.erase(std::find(running_.begin(), running_.end(), &s));
  enqueue(s, to_head);
  batch.preempted.push_back(s.number);
  return given_back;
}

bool PagedScheduler::is_before(const Sequence& a, const Sequence& b) const {
  return a.priority != b.priority ? a.priority < b.priority : a.number < b.number;
}

void PagedScheduler::enqueue(Sequence& s, bool at_head) {
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

void PagedScheduler::verify(ScheduledBatch& batch) const {
  if (spec_.drafts.tokens == 0) return;
  for (ScheduledBatch::Item& item : batch.items) {
    if (item.produces == 0) continue;
    const auto found = sequences_.find(item.request);
    if (found == sequences_.end()) {
      item.produces = item.drafts = 0;
      continue;
    }
    const Sequence& s = *found->second;
    item.right = acceptance_.right(item.request, s.known - s.prompt, item.drafts);
    item.produces = static_cast<std::uint32_t>(std::min<std::uint64_t>(1 + item.right, s.all - s.known));
  }
}

std::vector<std::uint32_t> PagedScheduler::complete(const ScheduledBatch& batch) {
  std::vector<std::uint32_t> done;
  --in_flight_;
  left_.clear();
  add_stores(batch);
  for (const ScheduledBatch::Item& item : batch.items) {
    if (item.produces == 0)
      continue;  // the request may have left, if it was preempted after its last token was scheduled
    Sequence& s = *sequences_.at(item.request);
    s.Progress::complete(item);
    if (item.drafts > 0 && s.is_running && item.preemptions == s.counts.preemptions) {
      s.computed -= 1 + item.drafts - item.produces;  // the KV of wrong drafts is worth nothing
      if (spec_.drafts.frees_rejected) store_.shrink(s.held, s.computed);
    }
    store_.fill(s.held, std::min(s.computed, s.known));
    if (s.known != s.all) continue;
    done.push_back(s.number);
    leave(s);
  }
  return done;
}

std::string PagedScheduler::blocked() const {
  if (waiting_.empty()) return "";
  const Sequence& s = *waiting_.front();
  const auto state = [](const Sequence& of) {
    if (of.is_running) return "runs";
    if (of.kv == Sequence::Kv::arriving) return "its KV is on its way";
    if (of.kv == Sequence::Kv::being_read) return "its KV is read to host memory";
    return of.kv == Sequence::Kv::arrived ? "its KV has arrived" : "waits";
  };
  std::vector<Holder> holders;
  for (const auto& [number, of] : sequences_) holders.push_back({number, of->held.blocks(), state(*of)});
  for (const auto& [number, of] : kept_) holders.push_back({number, of->held.blocks(), "its KV has not been read"});
  for (const auto& [lease, of] : leased_)
    holders.push_back({of->number, of->held.blocks(), "nobody reads its KV, and its lease goes on"});
  return blocked_text(waiting_.size(), s.number, blocks_to_start(s, {}, s.known), memory(), std::move(holders));
}

Scheduler::Counts PagedScheduler::counts(std::uint32_t number) const {
  const auto left = left_.find(number);
  return left != left_.end() ? left->second : sequences_.at(number)->counts;
}

void PagedScheduler::leave(Sequence& s) {
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
}

}  // namespace railyard::workload::inference
