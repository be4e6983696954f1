#include "workload/inference/decode_groups.h"

#include <algorithm>
#include <utility>

namespace railyard::workload::inference {

void DecodeGroups::add(std::uint32_t request, std::uint64_t context, std::uint32_t tokens) {
  ready_.push_back({request, context, tokens});
}

bool DecodeGroups::may_step(const Group& group) const {
  const bool is_busy = group.composed > (async_host_ ? group.begun : group.done);
  return !is_busy && (!group.members.empty() || (!ready_.empty() && decoding_ < max_batch_));
}

bool DecodeGroups::may_compose() const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const Group& group) { return may_step(group); });
}

ScheduledBatch DecodeGroups::compose() {
  ScheduledBatch batch;
  Group& group = *std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return may_step(g); });
  batch.group = static_cast<std::uint32_t>(&group - groups_.data());
  std::vector<std::uint32_t>& last = last_of_.emplace_back();
  std::size_t joined = 0;
  for (; !ready_.empty() && decoding_ < max_batch_; ++joined, ++decoding_) {
    group.members.push_back(ready_.front());
    ready_.pop_front();
  }
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    Decoding& d = group.members[i];
    ScheduledBatch::Item item;
    item.request = d.request;
    item.tokens = 1;
    item.start = d.context++;
    item.is_first = i >= group.members.size() - joined;
    item.samples = item.is_decode = true;
    batch.items.push_back(item);
    if (--d.left == 0) last.push_back(d.request);
  }
  group.members.erase(
      std::remove_if(group.members.begin(), group.members.end(), [](const Decoding& d) { return d.left == 0; }),
      group.members.end());
  decoding_ -= last.size();
  ++group.composed;
  return batch;
}

std::vector<std::uint32_t> DecodeGroups::complete(const ScheduledBatch& batch) {
  ++groups_[batch.group].done;
  std::vector<std::uint32_t> last = std::move(last_of_.front());
  last_of_.pop_front();
  return last;
}

}  // namespace railyard::workload::inference
