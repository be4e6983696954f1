// Requests that decode in groups, one group for each pipeline stage: all stages can work at the same time, each on a
// different batch. A request stays in its group until its last token, so requests that decode together stay together.
//
// Requests whose KV is complete join the next batch, up to max_batch requests in total, first come first served. If a
// group is empty, these requests start it at once. A synchronous host composes the batch of a group when its previous
// batch is complete; an asynchronous host when the previous batch begins.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "workload/inference/batch_source.h"

namespace railyard::workload::inference {

class DecodeGroups : public BatchSource {
 public:
  DecodeGroups(std::uint32_t groups, std::uint32_t max_batch, bool async_host)
      : max_batch_(max_batch), async_host_(async_host), groups_(groups) {}

  /// @param context  tokens of the request whose KV is in the cache
  /// @param tokens   to decode. @pre tokens > 0
  void add(std::uint32_t request, std::uint64_t context, std::uint32_t tokens);

  bool may_compose() const override;
  ScheduledBatch compose() override;
  void begun(const ScheduledBatch& batch) override { ++groups_[batch.group].begun; }
  std::vector<std::uint32_t> complete(const ScheduledBatch& batch) override;
  bool empty() const override { return ready_.empty() && decoding_ == 0 && last_of_.empty(); }

 private:
  struct Decoding {
    std::uint32_t request = 0;
    std::uint64_t context = 0;
    std::uint32_t left = 0;  ///< tokens for which no batch has been composed
  };
  struct Group {
    std::vector<Decoding> members;
    std::uint32_t composed = 0, begun = 0, done = 0;
  };
  bool may_step(const Group& group) const;

  std::uint32_t max_batch_;
  bool async_host_;
  std::deque<Decoding> ready_;
  std::vector<Group> groups_;
  std::size_t decoding_ = 0;                        ///< members of all groups
  std::deque<std::vector<std::uint32_t>> last_of_;  ///< for each batch in flight: requests whose last token it produces
};

}  // namespace railyard::workload::inference
