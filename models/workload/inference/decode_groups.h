// Requests that decode in groups, one group for each pipeline stage: all stages can work at the same time, each on a
// different batch. A request stays in its group until its last token, so requests that decode together stay together.
//
// Requests whose KV is complete join the next batch, up to max_batch requests in total, first come first served. If a
// group is empty, these requests start it at once. A synchronous host composes the batch of a group when its previous
// batch is complete; an asynchronous host when the previous batch begins.
//
// A request has memory for its prompt and its answer before its KV arrives, and until its last token.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "workload/inference/batch_source.h"
#include "workload/inference/kv_cache.h"

namespace railyard::workload::inference {

class DecodeGroups : public BatchSource {
 public:
  DecodeGroups(std::uint32_t groups, std::uint32_t max_batch, bool async_host, KvCache& kv)
      : max_batch_(max_batch), async_host_(async_host), kv_(kv), groups_(groups) {}

  /// Memory for each request has been checked before the run.
  bool can_hold(const Request&) const override { return true; }
  /// The KV of each prompt is handed off: before its first token, prefill cannot tell whether that token ends the answer.
  bool computes_answer(const Request&) const override { return true; }
  void add(std::uint32_t number, const Request& request, PromptContent content, RequestPart part) override;
  std::vector<Reservation> reserve() override;
  void arrived(std::uint32_t number) override;
  void release(std::uint32_t number) override;
  std::string blocked() const override;

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
  static std::uint64_t tokens(const Request& request) {
    return std::uint64_t{request.prompt_tokens} + request.output_tokens;
  }

  std::uint32_t max_batch_;
  bool async_host_;
  KvCache& kv_;
  std::unordered_map<std::uint32_t, Request> requests_;  ///< that wait for or have memory
  std::deque<std::uint32_t> waiting_;                    ///< for memory
  std::deque<Decoding> ready_;
  std::vector<Group> groups_;
  std::size_t decoding_ = 0;                        ///< members of all groups
  std::deque<std::vector<std::uint32_t>> last_of_;  ///< for each batch in flight: requests whose last token it produces
};

}  // namespace railyard::workload::inference
