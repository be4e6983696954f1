// What a forward pass of an engine computes: a batch of sequences, with the tokens of each. Plain C++ without SystemC.
#pragma once

#include <cstdint>
#include <vector>

namespace railyard::workload::inference {

/// Memory has been taken for KV that is not here yet.
struct Reservation {
  std::uint32_t request = 0;
  std::uint64_t from = 0;  ///< tokens before this one are in the cache already
};

/// A batch: for each sequence the tokens that are computed.
struct ScheduledBatch {
  struct Item {
    std::uint32_t request = 0;
    std::uint32_t tokens = 0;
    std::uint64_t start = 0;  ///< tokens before them; their KV is in the cache
    bool is_first = false;    ///< the request's first batch
    bool samples = false;     ///< the batch produces a token of the request
    bool is_decode = false;   ///< one token after the prompt
    std::uint32_t chunk = 0;  ///< number among the chunks of the prompt
  };
  std::vector<Item> items;
  std::vector<std::uint32_t> preempted;   ///< requests that lost their blocks for this batch
  std::vector<Reservation> reservations;  ///< made with this batch
  std::uint32_t group = 0;                ///< SchedulerSpec::groups: each batch of a group needs the tokens before it

  std::uint32_t tokens() const {
    std::uint32_t sum = 0;
    for (const Item& item : items) sum += item.tokens;
    return sum;
  }
};

}  // namespace railyard::workload::inference
