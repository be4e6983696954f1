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

KvTier::Contents KvTier::begin_write(const Contents& contents) {
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
    if (listener_ != nullptr) listener_->on_removed(victim);
    by_use_.erase(blocks_.at(victim).place);
    blocks_.erase(victim);
  }
  for (const Content content : missing) {
    Block& block = blocks_[content];
    block.place = by_use_.insert(by_use_.end(), content);
    block.users = 1;
  }
  return missing;
}

void KvTier::clear() {
  for (const Content content : by_use_)
    if (listener_ != nullptr && blocks_.at(content).is_written) listener_->on_removed(content);
  by_use_.clear();
  blocks_.clear();
  ++losses_;
}

void KvTier::interrupt() {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    block->second.users = 0;
    if (block->second.is_written) {
      ++block;
    } else {
      by_use_.erase(block->second.place);
      block = blocks_.erase(block);
    }
  }
}

void KvTier::end_write(const Contents& contents) {
  for (const Content content : contents) {
    Block& block = blocks_.at(content);
    block.users = 0;
    block.is_written = true;
    if (listener_ != nullptr) listener_->on_stored(content);
  }
}

}  // namespace railyard::workload::inference
