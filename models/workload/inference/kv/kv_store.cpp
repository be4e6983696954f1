#include "workload/inference/kv/kv_store.h"

#include <algorithm>

namespace railyard::workload::inference {

namespace {

/// splitmix64's finaliser over a running value.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t value) {
  std::uint64_t z = seed + 0x9e3779b97f4a7c15ull * (value + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

constexpr std::uint64_t kShared = 1, kOwn = 2;  // first value of a block's content

}  // namespace

BlockPool::Content KvStore::content(Sequence& s, std::size_t block) const {
  while (s.contents_.size() <= block) {
    const std::uint64_t begin = s.contents_.size() * block_tokens_, end = begin + block_tokens_;
    const std::uint64_t grain = s.content_.block_tokens;
    std::uint64_t value = s.contents_.empty() ? 0 : s.contents_.back();
    // An id of several tokens at the prompt's end may stand for more tokens than the prompt has; the other tokens of the block
    // are of the answer.
    if (end <= (grain == 1 ? s.content_.ids.size() : std::min(s.prompt_, s.content_.ids.size() * grain))) {
      value = mixed(mixed(value, kShared), begin % grain);
      for (std::uint64_t i = begin / grain; i * grain < end; ++i) value = mixed(value, s.content_.ids[i]);
    } else {
      value = mixed(mixed(value, kOwn), s.number_);
    }
    s.contents_.push_back(value);
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
