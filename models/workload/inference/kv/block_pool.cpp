#include "workload/inference/kv/block_pool.h"

namespace railyard::workload::inference {

BlockPool::BlockPool(std::uint32_t blocks) : total_(blocks - 1), blocks_(1), free_(total_) {}

BlockPool::Block BlockPool::find(Content content) const {
  const ContentIndex::Entry* const found = index_.find(content);
  return found == nullptr ? kNone : found->first;
}

void BlockPool::share(Block block) {
  if (blocks_[block].references++ == 0) unlink(block);
}

BlockPool::Block BlockPool::take() {
  Block block = first_;
  if (blocks_.size() <= total_) {
    block = static_cast<Block>(blocks_.size());
    blocks_.emplace_back();
    --free_;
  } else {
    unlink(block);
    if (blocks_[block].is_full) forget(block);
  }
  blocks_[block].references = 1;
  return block;
}

void BlockPool::fill(Block block, Content content) {
  State& state = blocks_[block];
  state.content = content;
  state.is_full = true;
  ContentIndex::Entry* const same = index_.find(content);
  if (same == nullptr) {
    index_.add(content, block);
    if (listener_ != nullptr) listener_->on_stored(content);
    return;
  }
  state.same_before = same->last;
  blocks_[same->last].same_after = block;
  same->last = block;
}

void BlockPool::clear() {
  for (Block block = 1; block < blocks_.size(); ++block)
    if (blocks_[block].is_full) forget(block);
}

void BlockPool::release(Block block) {
  if (--blocks_[block].references == 0) append(block);
}

void BlockPool::append(Block block) {
  State& state = blocks_[block];
  state.before = last_;
  state.after = kNone;
  (last_ == kNone ? first_ : blocks_[last_].after) = block;
  last_ = block;
  ++free_;
}

void BlockPool::unlink(Block block) {
  const State& state = blocks_[block];
  (state.before == kNone ? first_ : blocks_[state.before].after) = state.after;
  (state.after == kNone ? last_ : blocks_[state.after].before) = state.before;
  --free_;
}

void BlockPool::forget(Block block) {
  State& state = blocks_[block];
  if (state.same_before == kNone && state.same_after == kNone) {
    index_.remove(state.content);
    if (listener_ != nullptr) listener_->on_removed(state.content);
  } else {
    ContentIndex::Entry& same = *index_.find(state.content);
    (state.same_before == kNone ? same.first : blocks_[state.same_before].same_after) = state.same_after;
    (state.same_after == kNone ? same.last : blocks_[state.same_after].same_before) = state.same_before;
  }
  state.same_before = state.same_after = kNone;
  state.is_full = false;
}

}  // namespace railyard::workload::inference
