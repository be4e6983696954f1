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

KvStore::Prefix PagedScheduler::find(Sequence& s) {
  KvStore::Prefix hits = store_.find(s.held, s.known);
  if (spec_.drafts.drops_last_hit && !hits.empty()) hits.pop_back();
  return hits;
}

bool PagedScheduler::reserve_for_kv(ScheduledBatch& batch, Sequence& s) {
  KvStore::Prefix hits = find(s);
  if (!may_start(s, hits, s.known)) return false;
  begin_with(s, std::move(hits));
  store_.grow(s.held, s.prompt);
  await_kv(batch, s);
  return true;
}

bool PagedScheduler::await_read(ScheduledBatch& batch, Sequence& s, const KvStore::Prefix& hits) {
  if (s.has_read) return false;
  const std::optional<KvStore::Awaited> awaited = store_.read(s.held, hits, s.known);
  if (!awaited) return false;
  if (awaited->blocks > 0) {
    s.has_read = true;
    std::uint64_t& counted = awaited->peers.empty() ? s.counts.read_tokens : s.counts.peer_tokens;
    if (!s.has_started) counted = awaited->blocks * spec_.block_tokens;
    batch.reads.push_back({awaited->read, awaited->blocks, awaited->peers});
  }
  store_.reads().join(awaited->read, s.number);
  s.kv = Sequence::Kv::being_read;
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &s));
  batch.awaits.push_back(s.number);
  return true;
}

std::vector<std::uint32_t> PagedScheduler::read(std::uint32_t, std::uint32_t number) {
  std::vector<std::uint32_t> requests = store_.end_read(number);
  for (const std::uint32_t request : requests) {
    Sequence& s = *sequences_.at(request);
    s.kv = Sequence::Kv::here;
    rejoin(s);
  }
  return requests;
}

bool PagedScheduler::load(ScheduledBatch& batch, Sequence& s, KvStore::Prefix hits, std::uint64_t blocks) {
  const std::size_t first = hits.size(), last = first + blocks;
  const std::uint64_t until = last * spec_.block_tokens;
  if (!may_start(s, hits, until)) return false;
  begin_with(s, std::move(hits));
  s.loads_until = until;
  s.loads = store_.contents(s.held, first, last);
  store_.host()->begin_read(s.loads);
  if (!s.has_started) {
    s.counts.loaded_tokens = until - s.computed;
    s.counts.others_tokens = 0;
    for (const KvTier::Share& share : store_.host()->shares(s.loads))
      if (share.writer != store_.number()) s.counts.others_tokens += share.blocks * spec_.block_tokens;
  }
  store_.grow(s.held, until);
  await_kv(batch, s);
  return true;
}

void PagedScheduler::await_kv(ScheduledBatch& batch, Sequence& s) {
  s.kv = Sequence::Kv::arriving;
  reserved_.push_back(&s);
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), &s));
  batch.reservations.push_back(
      {s.number, s.computed, s.loads.empty() ? KvTier::Shares() : store_.host()->shares(s.loads)});
}

void PagedScheduler::add_stores(const ScheduledBatch& batch) {
  KvTier* const host = store_.host();
  if (host == nullptr) return;
  for (const ScheduledBatch::Item& item : batch.items) {
    const auto found = sequences_.find(item.request);
    if (found == sequences_.end() || !found->second->is_running) continue;
    Sequence& s = *found->second;
    const std::uint64_t end = std::min<std::uint64_t>(item.start + item.tokens, s.prompt);
    if (item.start >= end) continue;
    const KvTier::Contents contents =
        store_.contents(s.held, item.start / spec_.block_tokens, end / spec_.block_tokens);
    host->touch(contents);
    const KvTier::Contents written = host->begin_write(contents, store_.number());
    stores_.insert(stores_.end(), written.begin(), written.end());
  }
}

void PagedScheduler::arrived(std::uint32_t number) {
  Sequence& s = *sequences_.at(number);
  s.kv = Sequence::Kv::arrived;
  if (s.loads_until > 0) {
    store_.host()->end_read(s.loads);
    s.loads.clear();
    s.computed = std::exchange(s.loads_until, 0);
    s.prefill = s.known;
    store_.fill(s.held, s.computed);
  } else {
    s.computed = s.prefill = s.prompt - (spec_.computes_first_token ? 1 : 0);
    s.decodes_first = spec_.computes_first_token;
    store_.fill(s.held, s.prompt);
  }
  rejoin(s);
}

void PagedScheduler::rejoin(Sequence& s) {
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

std::uint64_t PagedScheduler::cancel(std::uint32_t number) {
  auto& all = kept_.count(number) != 0 ? kept_ : sequences_;
  const auto own = all.find(number);
  if (own == all.end()) return 0;
  Sequence& s = *own->second;
  const std::uint64_t tokens = s.computed;
  if (!s.loads.empty()) store_.host()->end_read(s.loads);
  if (s.kv == Sequence::Kv::being_read) store_.reads().leave(number);
  store_.give_back(s.held);
  running_.erase(std::remove(running_.begin(), running_.end(), &s), running_.end());
  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), &s), waiting_.end());
  reserved_.erase(std::remove(reserved_.begin(), reserved_.end(), &s), reserved_.end());
  all.erase(own);
  return tokens;
}

std::uint64_t PagedScheduler::keep(std::uint32_t number, std::uint64_t lease) {
  const auto own = kept_.find(number);
  if (own == kept_.end()) return 0;
  const std::uint64_t tokens = own->second->computed;
  leased_.emplace(lease, std::move(own->second));
  kept_.erase(own);
  return tokens;
}

void PagedScheduler::end_lease(std::uint64_t lease) {
  const auto own = leased_.find(lease);
  if (own == leased_.end()) return;
  store_.give_back(own->second->held);
  leased_.erase(own);
}

void PagedScheduler::forget() {
  for (const auto& [lease, of] : leased_) store_.give_back(of->held);
  leased_.clear();
  store_.clear();
}

std::uint64_t PagedScheduler::free_blocks_for(const Sequence& s, const KvStore::Prefix& hits,
                                              std::uint64_t wanted) const {
  const std::uint64_t beyond = wanted - std::min<std::uint64_t>(wanted, hits.size() + s.held.blocks());
  return beyond + store_.free_blocks(hits) + (running_.empty() ? 0 : watermark_);
}

}  // namespace railyard::workload::inference
