// Memory of requests: what they need to start, and KV that comes from elsewhere.
#include <algorithm>
#include <utility>

#include "workload/inference/scheduler/continuous_scheduler.h"

namespace railyard::workload::inference {

namespace {

// SGLang expects at most so many tokens of an answer (managers/schedule_policy.py, v0.4).
constexpr std::uint64_t kMostExpectedTokens = 4096;

}  // namespace

void ContinuousScheduler::begin_with(Sequence& s, KvStore::Prefix hits) {
  s.computed = store_.tokens(hits);
  store_.take(s.held, std::move(hits));
  if (!s.has_started) s.counts.cached_tokens = s.computed;
}

bool ContinuousScheduler::reserve_for_kv(ScheduledBatch& batch, Sequence& s) {
  KvStore::Prefix hits = store_.find(s.held, s.known);
  if (!may_start(s, hits, s.known)) return false;
  begin_with(s, std::move(hits));
  store_.grow(s.held, s.prompt);
  s.kv = Sequence::Kv::arriving;
  reserved_.push_back(&s);
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &s));
  batch.reservations.push_back({s.number, s.computed});
  return true;
}

void ContinuousScheduler::arrived(std::uint32_t number) {
  Sequence& s = *sequences_.at(number);
  s.kv = Sequence::Kv::arrived;
  s.computed = s.prompt - (spec_.computes_first_token ? 1 : 0);
  s.decodes_first = spec_.computes_first_token;
  store_.fill(s.held, s.prompt);
  // Its turn has come already: before all requests that came after it.
  const auto place =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Sequence* other) { return is_before(s, *other); });
  waiting_.insert(place, &s);
}

void ContinuousScheduler::release(std::uint32_t number) {
  auto& all = kept_.count(number) != 0 ? kept_ : sequences_;
  const auto own = all.find(number);
  store_.give_back(own->second->held);
  reserved_.erase(std::remove(reserved_.begin(), reserved_.end(), own->second.get()), reserved_.end());
  all.erase(own);
}

std::uint64_t ContinuousScheduler::reserved_answer(const Sequence& s) const {
  const std::uint64_t rest = s.all - s.known;
  if (spec_.reserve == Reserve::full_output) return rest;
  if (spec_.reserve != Reserve::expected_output) return 0;
  const std::uint64_t most = std::min(rest, kMostExpectedTokens);
  if (!s.is_running || s.last_prefill == compositions_) return most;
  return static_cast<std::uint64_t>(expected_ratio_ * static_cast<double>(most));
}

std::uint64_t ContinuousScheduler::blocks_to_start(const Sequence& s, const KvStore::Prefix& hits,
                                                   std::uint64_t tokens) const {
  const std::uint64_t wanted =
      store_.blocks_for(spec_.reserve == Reserve::chunk ? tokens : s.known + reserved_answer(s));
  std::uint64_t needed = wanted - std::min<std::uint64_t>(wanted, hits.size() + s.held.blocks());
  needed += store_.free_blocks(hits);
  if (!running_.empty()) needed += watermark_;
  if (spec_.reserve == Reserve::full_output || spec_.reserve == Reserve::expected_output) {
    for (const auto* others : {&running_, &reserved_}) {
      for (const Sequence* other : *others) {
        const std::uint64_t blocks = other == &s ? 0 : store_.blocks_for(other->known + reserved_answer(*other));
        needed += blocks - std::min<std::uint64_t>(blocks, other->held.blocks());
      }
    }
  }
  return needed;
}

}  // namespace railyard::workload::inference
