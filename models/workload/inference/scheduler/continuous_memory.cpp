// Memory of sequences: blocks and prefixes.
#include <algorithm>
#include <utility>

#include "base/units.h"
#include "workload/inference/scheduler/continuous_scheduler.h"

namespace railyard::workload::inference {

namespace {

// SGLang expects at most so many tokens of an answer (managers/schedule_policy.py, v0.4).
constexpr std::uint64_t kMostExpectedTokens = 4096;

/// splitmix64's finaliser over a running value.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t value) {
  std::uint64_t z = seed + 0x9e3779b97f4a7c15ull * (value + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

constexpr std::uint64_t kShared = 1, kOwn = 2;  // first value of a block's content

}  // namespace

void ContinuousScheduler::begin_with(Sequence& s, std::vector<BlockPool::Block> hits) {
  for (const BlockPool::Block block : hits) pool_.share(block);
  s.filled = hits.size();
  s.blocks = std::move(hits);
  s.computed = s.filled * spec_.block_tokens;
  if (!s.has_started) s.counts.cached_tokens = s.computed;
}

bool ContinuousScheduler::reserve_for_kv(ScheduledBatch& batch, Sequence& s) {
  std::vector<BlockPool::Block> hits = find_prefix(s);
  if (!may_start(s, hits, s.known)) return false;
  begin_with(s, std::move(hits));
  grow(s, s.prompt - s.computed);
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
  fill_blocks(s, s.prompt);
  // Its turn has come already: before all requests that came after it.
  const auto place =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Sequence* other) { return is_before(s, *other); });
  waiting_.insert(place, &s);
}

void ContinuousScheduler::release(std::uint32_t number) {
  auto& all = kept_.count(number) != 0 ? kept_ : sequences_;
  const auto own = all.find(number);
  release_blocks(*own->second);
  reserved_.erase(std::remove(reserved_.begin(), reserved_.end(), own->second.get()), reserved_.end());
  all.erase(own);
}

bool ContinuousScheduler::grow(Sequence& s, std::uint64_t tokens) {
  const std::uint64_t needed = blocks_for(s.computed + tokens);
  if (needed > s.blocks.size() + pool_.free()) return false;
  while (s.blocks.size() < needed) s.blocks.push_back(pool_.take());
  return true;
}

std::uint64_t ContinuousScheduler::reserved_answer(const Sequence& s) const {
  const std::uint64_t rest = s.all - s.known;
  if (spec_.reserve == Reserve::full_output) return rest;
  if (spec_.reserve != Reserve::expected_output) return 0;
  const std::uint64_t most = std::min(rest, kMostExpectedTokens);
  if (!s.is_running || s.last_prefill == compositions_) return most;
  return static_cast<std::uint64_t>(expected_ratio_ * static_cast<double>(most));
}

std::uint64_t ContinuousScheduler::blocks_to_start(const Sequence& s, const std::vector<BlockPool::Block>& hits,
                                                   std::uint64_t tokens) const {
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
  return needed;
}

BlockPool::Content ContinuousScheduler::content(Sequence& s, std::size_t block) {
  while (s.contents.size() <= block) {
    const std::uint64_t begin = s.contents.size() * spec_.block_tokens, end = begin + spec_.block_tokens;
    const std::uint64_t grain = s.content.block_tokens;
    std::uint64_t value = s.contents.empty() ? 0 : s.contents.back();
    // An id of several tokens at the prompt's end may stand for more tokens than the prompt has; the other tokens of the block
    // are of the answer.
    if (end <= (grain == 1 ? s.content.ids.size() : std::min(s.prompt, s.content.ids.size() * grain))) {
      value = mixed(mixed(value, kShared), begin % grain);
      for (std::uint64_t i = begin / grain; i * grain < end; ++i) value = mixed(value, s.content.ids[i]);
    } else {
      value = mixed(mixed(value, kOwn), s.number);
    }
    s.contents.push_back(value);
  }
  return s.contents[block];
}

std::vector<BlockPool::Block> ContinuousScheduler::find_prefix(Sequence& s) {
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

void ContinuousScheduler::fill_blocks(Sequence& s, std::uint64_t tokens) {
  if (!spec_.prefix_caching) return;
  for (; (s.filled + 1) * spec_.block_tokens <= tokens; ++s.filled)
    pool_.fill(s.blocks[s.filled], content(s, s.filled));
}

void ContinuousScheduler::release_blocks(Sequence& s) {
  // The tail first: the beginning of a sequence is more likely to be needed again.
  for (; !s.blocks.empty(); s.blocks.pop_back()) pool_.release(s.blocks.back());
  s.filled = 0;
}

}  // namespace railyard::workload::inference
