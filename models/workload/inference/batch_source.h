// What an engine runs next: batches, one after the other. Each strategy of batching is a BatchSource: the continuous
// scheduler (scheduler.h), prompts one by one (prompt_queue.h), groups that decode together (decode_groups.h). Plain
// C++ without SystemC: time does not occur here.
#pragma once

#include <cstdint>
#include <vector>

namespace railyard::workload::inference {

/// A batch: for each sequence the tokens that are computed.
struct ScheduledBatch {
  struct Item {
    std::uint32_t request = 0;
    std::uint32_t tokens = 0;
    std::uint64_t start = 0;  ///< tokens before them; their KV is in the cache
    bool is_first = false;    ///< the request's first batch
    bool samples = false;     ///< the batch produces a token of the request
    bool is_decode = false;   ///< one token after the prompt
    std::uint32_t chunk = 0;  ///< number among the chunks of the prompt, for names of sources that count them
  };
  std::vector<Item> items;
  std::vector<std::uint32_t> preempted;  ///< requests that lost their blocks for this batch
  /// Requests whose KV may be fetched now: blocks for their prompts have been taken.
  struct Fetch {
    std::uint32_t request = 0;
    std::uint64_t from = 0;  ///< tokens before this one are in the cache already
  };
  std::vector<Fetch> fetches;
  std::uint32_t group = 0;  ///< batches of a group depend on each other: each needs the tokens before it

  std::uint32_t tokens() const {
    std::uint32_t sum = 0;
    for (const Item& item : items) sum += item.tokens;
    return sum;
  }
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// Whether the engine may ask for a batch now.
  virtual bool may_compose() const = 0;
  /// The next batch; without items if nothing can run now (there may be fetches all the same).
  virtual ScheduledBatch compose() = 0;
  /// The first kernel of a batch begins.
  virtual void begun(const ScheduledBatch&) {}
  /// The tokens of a batch are known. Batches complete in the order of their composition.
  /// @return requests that have left, in the order of the batch
  virtual std::vector<std::uint32_t> complete(const ScheduledBatch& batch) = 0;
  /// Whether no request is here.
  virtual bool empty() const = 0;
};

}  // namespace railyard::workload::inference
