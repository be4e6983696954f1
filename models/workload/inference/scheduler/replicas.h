// The schedulers of an instance with several attention replicas (data-parallel attention; vLLM, v1/engine/core.py,
// DPEngineCoreProc). Each replica has its own queue, KV cache and requests; all of them run their batches in the same step,
// because they share the experts. So a batch of the instance is one of each replica that has something to run; the others
// take part without tokens of their own. A ReplicaChoice says which replica takes a request.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "workload/inference/scheduler/replica_choice.h"
#include "workload/inference/scheduler/scheduler.h"

namespace railyard::workload::inference {

class Replicas : public Scheduler {
 public:
  /// @param max_in_flight  steps that are composed and not complete, at most
  Replicas(std::vector<std::unique_ptr<Scheduler>> replicas, std::unique_ptr<ReplicaChoice> choice,
           std::uint32_t max_in_flight);

  bool can_hold(const Request& request, RequestPart part) const override;
  void add(std::uint32_t number, const Request& request, RequestContent content, RequestPart part) override;
  std::vector<Reservation> reserve() override;
  void arrived(std::uint32_t number) override { of(number).arrived(number); }
  void release(std::uint32_t number) override;
  std::uint64_t cancel(std::uint32_t number) override;
  std::uint64_t keep(std::uint32_t number, std::uint64_t lease) override;
  void end_lease(std::uint64_t lease) override;
  void forget() override;
  bool may_compose() const override;
  ScheduledBatch compose() override;
  void begun(const ScheduledBatch& batch) override;
  void verify(ScheduledBatch& batch) const override;
  std::vector<std::uint32_t> complete(const ScheduledBatch& batch) override;
  KvTier::Contents take_stores(std::uint32_t replica) override { return replicas_[replica]->take_stores(0); }
  KvTier::Contents stored(std::uint32_t replica, const KvTier::Contents& contents) override {
    return replicas_[replica]->stored(0, contents);
  }
  void written(std::uint32_t replica, const KvTier::Contents& contents) override {
    replicas_[replica]->written(0, contents);
  }
  std::vector<std::uint32_t> read(std::uint32_t replica, std::uint32_t number) override {
    return replicas_[replica]->read(0, number);
  }
  std::uint32_t replica(std::uint32_t number) const override { return places_.at(number).replica; }
  bool empty() const override;
  std::size_t running() const override;
  std::size_t waiting() const override;
  Memory memory() const override;
  std::vector<BlockPool::Block> blocks(std::uint32_t number) const override { return of(number).blocks(number); }
  void follow_blocks(BlockPool::Listener& listener) override;
  void follow_copies(BlockPool::Listener& in_host, BlockPool::Listener& on_disks) override;
  Left left() const override;
  std::string blocked() const override;
  Counts counts(std::uint32_t number) const override { return of(number).counts(number); }

 private:
  struct Place {
    std::uint32_t replica = 0;
    bool keeps_kv = false;  ///< when it leaves, until release(), cancel() or keep()
    std::uint64_t prompt_tokens = 0;
    bool is_counted = true;  ///< in the load of its replica
  };
  Scheduler& of(std::uint32_t number) const { return *replicas_[replica(number)]; }

  /// The request has left, or leaves: it is no load any more.
  void uncount(Place& place);

  std::vector<std::unique_ptr<Scheduler>> replicas_;
  std::unique_ptr<ReplicaChoice> choice_;
  std::vector<ReplicaLoad> loads_;  ///< requests and their prompts
  std::uint32_t max_in_flight_;
  std::deque<std::vector<std::uint32_t>> in_flight_;  ///< of each step, the replicas that have composed a batch
  std::map<std::uint32_t, Place> places_;             ///< by request that is here, or has left with the latest step
  std::vector<std::uint32_t> left_;                   ///< with the latest step
};

}  // namespace railyard::workload::inference
