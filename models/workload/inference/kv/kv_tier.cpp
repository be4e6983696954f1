#include "workload/inference/kv/kv_tier.h"

#include <algorithm>

namespace railyard::workload::inference {

std::size_t KvTier::find(const Contents& contents, std::size_t first) const {
  std::size_t end = first;
  for (; end < contents.size(); ++end) {
    const auto found = blocks_.find(contents[end]);
    if (found == blocks_.end() || !found->second.is_written) break;
  }
  return end - std::min(first, end);
}

void KvTier::touch(const Contents& contents) {
  for (auto content = contents.rbegin(); content != contents.rend(); ++content)
    if (const auto found = blocks_.find(*content); found != blocks_.end())
      by_use_.splice(by_use_.end(), by_use_, found->second.place);
}

void KvTier::begin_read(const Contents& contents) {
  for (const Content content : contents) ++blocks_.at(content).users;
}

void KvTier::end_read(const Contents& contents) {
  for (const Content content : contents) --blocks_.at(content).users;
}

KvTier::Shares KvTier::shares(const Contents& contents) const {
  Shares all;
  for (const Content content : contents) {
    const std::uint32_t writer = blocks_.at(content).writer;
    auto share = std::find_if(all.begin(), all.end(), [&](const Share& one) { return one.writer == writer; });
    if (share == all.end()) share = all.insert(share, {writer, 0});
    ++share->blocks;
  }
  return all;
}

KvTier::Contents KvTier::begin_write(const Contents& contents, std::uint32_t writer) {
  Contents missing;
  for (const Content content : contents)
    if (blocks_.count(content) == 0) missing.push_back(content);
  const std::uint64_t room = total_ - held();
  std::uint64_t too_many = missing.size() - std::min<std::uint64_t>(missing.size(), room);
  Contents victims;
  for (auto content = by_use_.begin(); content != by_use_.end() && victims.size() < too_many; ++content)
    if (blocks_.at(*content).users == 0) victims.push_back(*content);
  if (victims.size() < too_many) return {};
  for (const Content victim : victims) {
    for (BlockPool::Listener* const listener : listeners_) listener->on_removed(victim);
    by_use_.erase(blocks_.at(victim).place);
    blocks_.erase(victim);
  }
  for (const Content content : missing) {
    Block& block = blocks_[content];
    block.place = by_use_.insert(by_use_.end(), content);
    block.users = 1;
    block.writer = writer;
  }
  return missing;
}

void KvTier::clear() {
  for (const Content content : by_use_)
    if (blocks_.at(content).is_written)
      for (BlockPool::Listener* const listener : listeners_) listener->on_removed(content);
  by_use_.clear();
  blocks_.clear();
  ++losses_;
}

template <typename Which>
KvTier::Contents KvTier::remove_unwritten(const Which& which) {
  Contents removed;
  for (const Content content : by_use_)
    if (const Block& block = blocks_.at(content); !block.is_written && which(block)) removed.push_back(content);
  for (const Content content : removed) {
    by_use_.erase(blocks_.at(content).place);
    blocks_.erase(content);
  }
  return removed;
}

KvTier::Contents KvTier::interrupt() {
  for (auto& [content, block] : blocks_)
    if (block.is_written) block.users = 0;
  return remove_unwritten([](const Block&) { return true; });
}

void KvTier::abandon(std::uint32_t writer) {
  remove_unwritten([&](const Block& block) { return block.writer == writer; });
}

void KvTier::end_write(const Contents& contents) {
  for (const Content content : contents) {
    Block& block = blocks_.at(content);
    block.users = 0;
    block.is_written = true;
    for (BlockPool::Listener* const listener : listeners_) listener->on_stored(content);
  }
}

}  // namespace railyard::workload::inference
