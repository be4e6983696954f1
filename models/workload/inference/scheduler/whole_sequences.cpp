#include "workload/inference/scheduler/whole_sequences.h"

#include <algorithm>
#include <utility>

#include "workload/inference/scheduler/blocked.h"

namespace railyard::workload::inference {

void WholeSequences::add(std::uint32_t number, const Request& request, RequestContent, RequestPart part) {
  auto s = std::make_unique<Sequence>();
  s->number = number;
  s->prompt = s->known = request.prompt_tokens;
  s->all = s->prompt + (part == RequestPart::prompt ? 1 : request.output_tokens);
  s->part = part;
  if (part == RequestPart::answer) {
    ++s->known;
    s->has_kv = false;
  }
  before_memory_.push_back(s.get());
  sequences_.emplace(number, std::move(s));
}

std::vector<Reservation> WholeSequences::reserve() {
  std::vector<Reservation> reserved;
  for (; !before_memory_.empty(); before_memory_.pop_front()) {
    Sequence& s = *before_memory_.front();
    const std::uint32_t blocks = memory_.blocks(needed(s));
    if (blocks > free_) break;
    s.held = needed(s);
    free_ -= blocks;
    memory_.on_held(s.held);
    if (s.has_kv) waiting_.push_back(&s);
    reserved.push_back({s.number, 0});
  }
  return reserved;
}

void WholeSequences::arrived(std::uint32_t number) {
  Sequence& s = *sequences_.at(number);
  s.has_kv = true;
  s.computed = s.prompt;
  // Its turn has come already: before all requests that came after it.
  const auto place =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Sequence* other) { return number < other->number; });
  waiting_.insert(place, &s);
}

void WholeSequences::release(std::uint32_t number) {
  auto& all = kept_.count(number) != 0 ? kept_ : sequences_;
  const auto own = all.find(number);
  give_back(*own->second);
  all.erase(own);
}

void WholeSequences::give_back(Sequence& s) {
  free_ += memory_.blocks(s.held);
  memory_.on_freed(s.held);
}

bool WholeSequences::may_compose() const {
  return !sequences_.empty() &&
         std::any_of(groups_.begin(), groups_.end(), [&](const Group& group) { return may_step(group); });
}

ScheduledBatch WholeSequences::compose() {
  ScheduledBatch batch;
  for (std::uint32_t group = 0; group < groups_.size() && batch.items.empty(); ++group) {
    if (groups_.size() > 1 && !may_step(groups_[group])) continue;  // the caller knows that some group may
    batch = next_batch(group);
    if (!batch.items.empty()) ++groups_[group].composed;
  }
  return batch;
}

ScheduledBatch WholeSequences::next_batch(std::uint32_t group) {
  ScheduledBatch batch;
  batch.group = group;
  // A slot is free as soon as the last token of its request is in a batch.
  const auto open = [](const Sequence* s) { return s->computed < s->all - 1; };
  const auto taken = static_cast<std::size_t>(std::count_if(running_.begin(), running_.end(), open));
  std::size_t slots = spec_.max_seqs - std::min<std::size_t>(spec_.max_seqs, taken);
  std::uint64_t budget = spec_.max_batched_tokens;
  const auto has_room = [&] { return budget > 0 && !(spec_.prompts_in_turn && !batch.items.empty()); };
  const auto take = [&](Sequence& s, std::uint64_t tokens) {
    batch.items.push_back(s.schedule(tokens));
    budget -= tokens;
  };
  for (std::size_t i = 0; i < running_.size() && has_room(); ++i) {
    Sequence& s = *running_[i];
    // The KV of an answer's last token is never needed.
    const std::uint64_t reach = std::min(s.known + (spec_.placeholders ? s.sampling : 0), s.all - 1);
    const std::uint64_t tokens = std::min(reach - s.computed, budget);
    if (tokens > 0 && s.group == group) take(s, tokens);
  }
  for (; !waiting_.empty() && slots > 0 && has_room(); --slots) {
    Sequence& s = *waiting_.front();
    waiting_.pop_front();
    running_.push_back(&s);
    s.group = group;
    take(s, std::min(s.known - s.computed, budget));
  }
  return batch;
}

std::vector<std::uint32_t> WholeSequences::complete(const ScheduledBatch& batch) {
  std::vector<std::uint32_t> done;
  ++groups_[batch.group].done;
  for (const ScheduledBatch::Item& item : batch.items) {
    if (item.produces == 0) continue;
    const auto own = sequences_.find(item.request);
    Sequence& s = *own->second;
    s.complete(item);
    if (s.known != s.all) continue;
    done.push_back(s.number);
    running_.erase(std::find(running_.begin(), running_.end(), &s));
    if (s.part == RequestPart::prompt) {
      kept_.emplace(s.number, std::move(own->second));
    } else {
      give_back(s);
    }
    sequences_.erase(own);
  }
  return done;
}

std::string WholeSequences::blocked() const {
  if (before_memory_.empty()) return "";
  const Sequence& first = *before_memory_.front();
  std::vector<Holder> holders;
  const auto add = [&](const Sequence& s, const char* state) {
    if (s.held != 0) holders.push_back({s.number, memory_.blocks(s.held), state});
  };
  for (const auto& [number, s] : sequences_) {
    const bool runs = std::find(running_.begin(), running_.end(), s.get()) != running_.end();
    add(*s, runs                             ? "runs"
            : !s->has_kv                     ? "its KV is on its way"
            : s->part == RequestPart::answer ? "its KV has arrived"
                                             : "waits");
  }
  for (const auto& [number, s] : kept_) add(*s, "its KV has not been read");
  return blocked_text(before_memory_.size(), first.number, memory_.blocks(needed(first)), memory(), std::move(holders));
}

}  // namespace railyard::workload::inference
