// Memory of requests: what they need to start, and KV that comes from elsewhere.
#include <algorithm>
#include <utility>

#include "workload/inference/scheduler/paged_scheduler.h"

namespace railyard::workload::inference {

void PagedScheduler::begin_with(Sequence& s, KvStore::Prefix hits) {
  s.computed = store_.tokens(hits);
  store_.take(s.held, std::move(hits));
  if (!s.has_started) s.counts.cached_tokens = s.computed;
}

bool PagedScheduler::reserve_for_kv(ScheduledBatch& batch, Sequence& s) {
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

void PagedScheduler::arrived(std::uint32_t number) {
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

void PagedScheduler::release(std::uint32_t number) {
  auto& all = kept_.count(number) != 0 ? kept_ : sequences_;
  const auto own = all.find(number);
  store_.give_back(own->second->held);
  reserved_.erase(std::remove(reserved_.begin(), reserved_.end(), own->second.get()), reserved_.end());
  all.erase(own);
}

std::uint64_t PagedScheduler::free_blocks_for(const Sequence& s, const KvStore::Prefix& hits,
                                              std::uint64_t wanted) const {
  const std::uint64_t beyond = wanted - std::min<std::uint64_t>(wanted, hits.size() + s.held.blocks());
  return beyond + store_.free_blocks(hits) + (running_.empty() ? 0 : watermark_);
}

}  // namespace railyard::workload::inference
