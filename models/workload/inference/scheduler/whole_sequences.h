// The scheduler of an engine before paged KV cache: a request takes memory for all its tokens in this instance before it can be
// in a batch, and keeps it. Nobody is preempted. In an instance with prompts, a batch has prompts one by one; in one with
// answers, requests that decode together stay together, in groups of which each pipeline stage has one to work on.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "workload/inference/kv/sequence_memory.h"
#include "workload/inference/scheduler/progress.h"
#include "workload/inference/scheduler/scheduler.h"
#include "workload/inference/scheduler/scheduler_spec.h"

namespace railyard::workload::inference {

class WholeSequences : public Scheduler {
 public:
  /// @param blocks  that all sequences can have
  WholeSequences(const WholeSequencesSpec& spec, std::uint32_t blocks, SequenceMemory& memory)
      : spec_(spec), memory_(memory), total_(blocks), free_(blocks), groups_(spec.groups) {}

  /// That each request fits has been checked before the run.
  bool can_hold(const Request&, RequestPart) const override { return true; }
  void add(std::uint32_t number, const Request& request, RequestContent content, RequestPart part) override;
  std::vector<Reservation> reserve() override;
  void arrived(std::uint32_t number) override;
  void release(std::uint32_t number) override;

  bool may_compose() const override;
  ScheduledBatch compose() override;
  void begun(const ScheduledBatch& batch) override { ++groups_[batch.group].begun; }
  std::vector<std::uint32_t> complete(const ScheduledBatch& batch) override;

  bool empty() const override { return sequences_.empty(); }
  std::size_t running() const override { return running_.size(); }
  std::size_t waiting() const override { return waiting_.size(); }
  Memory memory() const override { return {total_, free_}; }
  std::string blocked() const override;
  Counts counts(std::uint32_t) const override { return {}; }

 private:
  struct Sequence : Progress {
    std::uint32_t group = 0;
    std::uint64_t held = 0;  ///< tokens for which it has memory
    RequestPart part = RequestPart::all;
    bool has_kv = true;
  };
  /// Batches of a group.
  struct Group {
    std::uint32_t composed = 0, begun = 0, done = 0;
  };
  bool may_step(const Group& group) const {
    return spec_.is_eager ? group.composed == group.begun : group.composed - group.done < spec_.max_in_flight;
  }
  /// Tokens for which the request needs memory here.
  static std::uint64_t needed(const Sequence& s) { return s.part == RequestPart::answer ? s.all : s.prompt; }
  ScheduledBatch next_batch(std::uint32_t group);
  void give_back(Sequence& s);

  WholeSequencesSpec spec_;
  SequenceMemory& memory_;
  std::uint32_t total_, free_;  ///< blocks
  std::vector<Group> groups_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Sequence>> sequences_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Sequence>> kept_;  ///< have left; their KV is being read
  std::deque<Sequence*> before_memory_;                                ///< wait for memory
  std::deque<Sequence*> waiting_;                                      ///< have memory, and their KV is here
  std::vector<Sequence*> running_;                                     ///< in order of admission
};

}  // namespace railyard::workload::inference
