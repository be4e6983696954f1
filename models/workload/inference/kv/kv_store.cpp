#include "workload/inference/kv/kv_store.h"

#include <algorithm>

#include "workload/inference/kv/block_contents.h"

namespace railyard::workload::inference {

BlockPool::Content KvStore::content(Sequence& s, std::size_t block) const {
  while (s.contents_.size() <= block) {
    const BlockPool::Content before = s.contents_.empty() ? 0 : s.contents_.back();
    const std::uint64_t next = s.contents_.size();
    s.contents_.push_back(next < known_blocks(s.content_, s.prompt_, block_tokens_)
                              ? known_content(s.content_, before, next, block_tokens_)
                              : own_content(before, s.number_));
  }
  return s.contents_[block];
}

KvStore::Prefix KvStore::find(Sequence& s, std::uint64_t known) {
  Prefix hits;
  if (!caches_prefixes_) return hits;
  const std::uint64_t most = (known - 1) / block_tokens_;
  while (hits.size() < most) {
    const BlockPool::Block block = pool_.find(content(s, hits.size()));
    if (block == BlockPool::kNone) break;
    hits.push_back(block);
  }
  return hits;
}

KvTier::Contents KvStore::contents(Sequence& s, std::size_t first, std::size_t last) const {
  KvTier::Contents all;
  for (std::size_t block = first; block < last; ++block) all.push_back(content(s, block));
  return all;
}

std::uint64_t KvStore::find_in_host(Sequence& s, const Prefix& prefix, std::uint64_t known) {
  if (!below_.host) return 0;
  const KvTier::Contents all = contents(s, 0, (known - 1) / block_tokens_);
  below_.host->touch(all);
  return below_.host->find(all, prefix.size());
}

std::optional<KvStore::Awaited> KvStore::read(Sequence& s, const Prefix& prefix, std::uint64_t known) {
  if (!disk_ && below_.peers == nullptr) return {};
  const KvTier::Contents all = contents(s, 0, (known - 1) / block_tokens_);
  below_.host->touch(all);
  std::size_t first = prefix.size();
  if (disk_) {
    disk_->touch(all);
    if (const std::optional<Awaited> awaited = read(all, first, all.size(), *disk_, {})) return awaited;
  }
  while (first < all.size() && below_.host->has(all[first])) ++first;
  if (below_.peers == nullptr || first == all.size()) return {};
  if (const std::optional<std::uint32_t> under_way = reads_.of(all[first])) return Awaited{*under_way, 0, {}};
  const std::optional<KvPeers::Found> found = below_.peers->find(below_.store, all, first, block_tokens_);
  if (!found) return {};
  return read(all, first, first + found->blocks, *found->lender.host, found->lender);
}

std::optional<KvStore::Awaited> KvStore::read(const KvTier::Contents& all, std::size_t first, std::size_t last,
                                              KvTier& from, std::optional<KvPeers::Lender> lender) {
  KvTier::Contents missing;
  std::optional<std::uint32_t> under_way;
  for (std::size_t i = first; i < last; ++i) {
    if (below_.host->has(all[i])) continue;
    if (const std::optional<std::uint32_t> read = reads_.of(all[i])) {
      if (!under_way) under_way = read;
    } else if (!from.has(all[i]) || below_.host->begin_write({all[i]}, below_.store).empty()) {
      break;
    } else {
      missing.push_back(all[i]);
    }
  }
  if (missing.empty()) return under_way ? std::optional(Awaited{*under_way, 0, {}}) : std::nullopt;
  from.begin_read(missing);
  Awaited awaited;
  awaited.blocks = missing.size();
  if (lender) awaited.peers = from.shares(missing);
  awaited.read = reads_.begin(std::move(missing), lender);
  return awaited;
}

std::vector<std::uint32_t> KvStore::end_read(std::uint32_t number) {
  HostReads::Read read = reads_.end(number);
  if (read.lender)
    read.lender->end(read.contents);
  else
    disk_->end_read(read.contents);
  below_.host->end_write(read.contents);
  return std::move(read.requests);
}

KvTier::Contents KvStore::stored(const KvTier::Contents& contents) {
  below_.host->end_write(contents);
  if (!disk_) return {};
  disk_->touch(contents);
  KvTier::Contents writes = disk_->begin_write(contents);
  below_.host->begin_read(writes);
  return writes;
}

void KvStore::written(const KvTier::Contents& contents) {
  below_.host->end_read(contents);
  disk_->end_write(contents);
}

void KvStore::clear() {
  pool_.clear();
  reads_.clear();
  const KvTier::Contents unwritten = disk_ ? disk_->interrupt() : KvTier::Contents();
  if (!below_.host) return;
  if (!below_.outlives) {
    below_.host->clear();
    return;
  }
  below_.host->end_read(unwritten);
  below_.host->abandon(below_.store);
}

std::uint64_t KvStore::free_blocks(const Prefix& prefix) const {
  return static_cast<std::uint64_t>(std::count_if(
      prefix.begin(), prefix.end(), [&](BlockPool::Block block) { return pool_.references(block) == 0; }));
}

void KvStore::take(Sequence& s, Prefix prefix) {
  for (const BlockPool::Block block : prefix) pool_.share(block);
  s.filled_ = prefix.size();
  s.blocks_ = std::move(prefix);
}

bool KvStore::grow(Sequence& s, std::uint64_t tokens) {
  const std::uint64_t needed = blocks_for(tokens);
  if (needed > s.blocks_.size() + pool_.free()) return false;
  while (s.blocks_.size() < needed) s.blocks_.push_back(pool_.take());
  return true;
}

void KvStore::shrink(Sequence& s, std::uint64_t tokens) {
  for (const std::uint64_t needed = blocks_for(tokens); s.blocks_.size() > needed; s.blocks_.pop_back())
    pool_.release(s.blocks_.back());
}

void KvStore::fill(Sequence& s, std::uint64_t tokens) {
  if (!caches_prefixes_) return;
  for (; (s.filled_ + 1) * block_tokens_ <= tokens; ++s.filled_)
    pool_.fill(s.blocks_[s.filled_], content(s, s.filled_));
}

void KvStore::give_back(Sequence& s) {
  // The tail first: the beginning of a sequence is more likely to be needed again.
  for (; !s.blocks_.empty(); s.blocks_.pop_back()) pool_.release(s.blocks_.back());
  s.filled_ = 0;
}

}  // namespace railyard::workload::inference
