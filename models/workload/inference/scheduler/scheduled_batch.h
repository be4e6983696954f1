// What a forward pass of an engine computes: a batch of sequences, with the tokens of each. Plain C++ without SystemC.
#pragma once

#include <cstdint>
#include <vector>

#include "transformer/layer_kernels.h"
#include "workload/inference/kv/kv_tier.h"

namespace railyard::workload::inference {

/// Memory has been taken for KV that is not here yet.
struct Reservation {
  std::uint32_t request = 0;
  std::uint64_t from = 0;  ///< tokens before this one are in the cache already
  KvTier::Shares loads =
      {};  ///< blocks behind them that are loaded from host memory; none: KV comes from another instance
};

/// Blocks that are read to host memory.
struct HostRead {
  std::uint32_t number = 0;  ///< of its attention replica. Scheduler::read() tells that it is over
  std::uint64_t blocks = 0;
  KvTier::Shares peers =
      {};  ///< which stores have written them to host memory of other servers; none: they are on disks
  std::uint32_t replica = 0;
};

/// A batch: for each sequence the tokens that are computed.
struct ScheduledBatch {
  struct Item {
    std::uint32_t request = 0;
    std::uint32_t tokens = 0;
    std::uint64_t start = 0;  ///< tokens before them; their KV is in the cache
    bool is_first = false;    ///< the request's first batch
    /// Tokens of the request that the batch produces: 0, 1, or of a decode one more than its drafts that are right. Until
    /// Scheduler::verify() all drafts count as right.
    std::uint32_t produces = 0;
    bool is_decode = false;         ///< one token after the prompt, and drafts
    std::uint32_t drafts = 0;       ///< guessed ones among `tokens`, the last ones
    std::uint32_t right = 0;        ///< of the drafts; known after Scheduler::verify()
    std::uint32_t preemptions = 0;  ///< of the request so far
    std::uint32_t chunk = 0;        ///< number among the chunks of the prompt
    std::uint32_t replica = 0;      ///< of the attention, where it runs
  };
  std::vector<Item> items;
  std::vector<std::uint32_t> preempted;   ///< requests that lost their blocks for this batch
  std::vector<Reservation> reservations;  ///< made with this batch
  std::vector<std::uint32_t> awaits;      ///< requests that wait for a read to host memory from now on
  std::vector<HostRead> reads;            ///< that begin with this batch
  std::uint32_t group = 0;                ///< each batch of a group needs the tokens before it

  std::uint32_t tokens() const {
    std::uint32_t sum = 0;
    for (const Item& item : items) sum += item.tokens;
    return sum;
  }
  /// Tokens for which the LM head computes the next one.
  std::uint32_t outputs() const {
    std::uint32_t sum = 0;
    for (const Item& item : items) sum += item.is_decode ? item.tokens : item.produces;
    return sum;
  }
  /// The sequences in a layer.
  transformer::LayerPass layer_pass() const {
    transformer::LayerPass pass;
    for (const Item& item : items) (item.is_decode ? pass.decodes : pass.prefills).push_back({item.tokens, item.start});
    return pass;
  }
  /// What the attention replica with most tokens computes; of equal ones the first.
  ScheduledBatch fullest_replica() const {
    std::vector<std::uint32_t> sums;
    for (const Item& item : items) {
      if (sums.size() <= item.replica) sums.resize(item.replica + 1);
      sums[item.replica] += item.tokens;
    }
    std::uint32_t fullest = 0;
    for (std::uint32_t r = 1; r < sums.size(); ++r) fullest = sums[r] > sums[fullest] ? r : fullest;
    return of_replica(fullest);
  }
  ScheduledBatch of_replica(std::uint32_t replica) const {
    ScheduledBatch own;
    for (const Item& item : items)
      if (item.replica == replica) own.items.push_back(item);
    return own;
  }
};

}  // namespace railyard::workload::inference
