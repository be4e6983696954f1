#include "workload/inference/decode_groups.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

namespace railyard::workload::inference {

void DecodeGroups::add(std::uint32_t number, const Request& request, PromptContent, RequestPart) {
  waiting_.push_back(number);
  requests_.emplace(number, request);
}

std::vector<Reservation> DecodeGroups::reserve() {
  std::vector<Reservation> reserved;
  for (; !waiting_.empty() && kv_.hold(tokens(requests_.at(waiting_.front()))); waiting_.pop_front())
    reserved.push_back({waiting_.front(), 0});
  return reserved;
}

void DecodeGroups::arrived(std::uint32_t number) {
  const Request& request = requests_.at(number);
  if (request.output_tokens > 1) ready_.push_back({number, request.prompt_tokens, request.output_tokens - 1});
}

void DecodeGroups::release(std::uint32_t number) {
  const auto request = requests_.find(number);
  kv_.free(tokens(request->second));
  requests_.erase(request);
}

std::string DecodeGroups::blocked() const {
  if (waiting_.empty()) return "";
  return fmt::format("{} requests wait for KV memory, request {} first: {} tokens", waiting_.size(), waiting_.front(),
                     tokens(requests_.at(waiting_.front())));
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
  for (const std::uint32_t number : last) release(number);
  return last;
}

}  // namespace railyard::workload::inference
