// The room `scheduler` decides which tokens of which requests an instance computes next. A Scheduler has the queue and the running
// requests, asks the KV cache for memory, and composes each ScheduledBatch; the engine runs it and reports its begin and its end.
// A scheduler knows no other instance, and no time. Each strategy is a file: ContinuousScheduler (vLLM),
// SglangScheduler and TrtllmScheduler, on what they share (PagedScheduler), and WholeSequences (an engine before paged KV cache). Plain C++ without SystemC.
//
// Prompt and answer of a request may run on two instances. The one with the prompts keeps the KV of a request that has left until
// it has been read. In the other one a request gets memory for its prompt, and runs when the KV has arrived. A request that finds KV in
// host memory gets memory for that, and runs when it has been loaded. One that finds KV on a disk, or in a peer's host memory, waits until it
// is in its own host memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workload/inference/kv/block_pool.h"
#include "workload/inference/kv/kv_tier.h"
#include "workload/inference/requests/request.h"
#include "workload/inference/scheduler/scheduled_batch.h"

namespace railyard::workload::inference {

/// Why the first waiting request did not start. unseen: the engine has not looked for it.
enum class Refusal : std::uint8_t { none, slots, budget, blocks, unseen };

class Scheduler {
 public:
  virtual ~Scheduler() = default;

  /// Whether this instance can ever compute this part of the request.
  virtual bool can_hold(const Request& request, RequestPart part) const = 0;

  /// A request enters the queue. @pre can_hold()
  virtual void add(std::uint32_t number, const Request& request, RequestContent content, RequestPart part) = 0;
  /// Takes memory for requests that wait for it outside of batches, first come first served. Call when a request has been
  /// added or memory has been released.
  virtual std::vector<Reservation> reserve() { return {}; }
  /// The KV for which a reservation was made has arrived. @pre it has tokens to compute here
  virtual void arrived(std::uint32_t number) = 0;
  /// The KV of a request of the part `prompt`, which has left, has been read; or the request, whose KV has arrived, has
  /// no answer to compute.
  virtual void release(std::uint32_t number) = 0;
  /// A request leaves before its end, and gives its memory back. No batch that completes from now on contains it.
  /// @return tokens whose KV was here; 0 if the request is not here
  virtual std::uint64_t cancel(std::uint32_t) { return 0; }
  /// The KV of a request of the part `prompt`, which has left, will be read by nobody: it stays until end_lease().
  /// @param lease  a number of its own  @return tokens; 0 if its KV is not here
  virtual std::uint64_t keep(std::uint32_t /*number*/, std::uint64_t /*lease*/) { return 0; }
  /// Does nothing after forget().
  virtual void end_lease(std::uint64_t) {}
  /// All KV that nobody holds is lost, and all that is kept under a lease. @pre empty(), and the KV of no request is being read
  virtual void forget() {}

  /// Whether there may be a batch to compose.
  virtual bool may_compose() const = 0;
  /// The next batch; without items if nothing can run now (there may be reservations all the same).
  virtual ScheduledBatch compose() = 0;
  /// The first kernel of a batch begins.
  virtual void begun(const ScheduledBatch& batch) = 0;
  /// Finds which drafts of a batch are right, and lowers what its items produce: to nothing, for requests that have had their
  /// last token in a batch before it. Call before complete().
  virtual void verify(ScheduledBatch&) const {}
  /// The tokens of a batch are known: of each item as many as it still `produces`. Batches of a group complete in the order of
  /// their composition. @return requests that have left, in the order of the batch
  virtual std::vector<std::uint32_t> complete(const ScheduledBatch& batch) = 0;

  // Copies of KV, of an attention replica.
  /// Blocks that are copied to host memory from now on, after complete(). stored() follows.
  virtual KvTier::Contents take_stores(std::uint32_t /*replica*/) { return {}; }
  /// @return blocks that are written to disks from now on. written() follows
  virtual KvTier::Contents stored(std::uint32_t /*replica*/, const KvTier::Contents&) { return {}; }
  virtual void written(std::uint32_t /*replica*/, const KvTier::Contents&) {}
  /// A read of a batch is over. @return requests that have waited for it, and are in the queue again
  virtual std::vector<std::uint32_t> read(std::uint32_t /*replica*/, std::uint32_t /*number*/) { return {}; }

  /// The attention replica that has a request. @pre the request, or its KV, is here
  virtual std::uint32_t replica(std::uint32_t) const { return 0; }

  /// Whether no request is here.
  virtual bool empty() const = 0;
  virtual std::size_t running() const = 0;
  virtual std::size_t waiting() const = 0;
  struct Memory {
    std::uint32_t total = 0, free = 0;  ///< blocks, without the reserved block
    std::uint32_t held() const { return total - free; }
  };
  virtual Memory memory() const = 0;
  /// The blocks of a request that has memory here, in the order of its tokens; empty if KV cache is not paged.
  virtual std::vector<BlockPool::Block> blocks(std::uint32_t) const { return {}; }
  /// Of a paged KV cache: which contents its prefix index has. Call before the first request.
  virtual void follow_blocks(BlockPool::Listener&) {}
  /// The same of host memory, and of disks.
  virtual void follow_copies(BlockPool::Listener&, BlockPool::Listener&) {}
  /// What the last compose() left in the queue, and why.
  struct Left {
    Refusal refusal = Refusal::none;  ///< why the first waiting request did not start; none if the queue is empty
    bool refuses_all = false;         ///< no other waiting request could have started either
    std::uint32_t first = 0;          ///< the first waiting request, if there is one
  };
  virtual Left left() const { return {}; }
  /// For a stall report: requests that wait. Empty if there are none.
  virtual std::string blocked() const = 0;

  struct Counts {
    std::uint32_t preemptions = 0;
    std::uint64_t cached_tokens = 0;      ///< found in the prefix index when the request first started
    std::uint64_t loaded_tokens = 0;      ///< found in host memory then
    std::uint64_t others_tokens = 0;      ///< of these, written there by other instances or replicas
    std::uint64_t read_tokens = 0;        ///< found on disks before, and read for it
    std::uint64_t peer_tokens = 0;        ///< found in a peer's host memory before, and read for it
    std::uint64_t recomputed_tokens = 0;  ///< computed again after a preemption
  };
  /// @pre the request is here, or has left with the latest complete()
  virtual Counts counts(std::uint32_t number) const = 0;
};

}  // namespace railyard::workload::inference
