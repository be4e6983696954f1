// What an engine runs next: batches, one after the other. Each strategy of batching is a BatchSource: the continuous
// scheduler (scheduler.h), prompts one by one (prompt_queue.h), groups that decode together (decode_groups.h). Plain
// C++ without SystemC: time does not occur here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workload/inference/request.h"

namespace railyard::workload::inference {

/// The part of a request that an instance computes: all; the prompt and the first token; the tokens after it.
enum class RequestPart : std::uint8_t { all, prompt, answer };

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
    std::uint32_t chunk = 0;  ///< number among the chunks of the prompt, for names of sources that count them
  };
  std::vector<Item> items;
  std::vector<std::uint32_t> preempted;   ///< requests that lost their blocks for this batch
  std::vector<Reservation> reservations;  ///< made with this batch
  std::uint32_t group = 0;                ///< batches of a group depend on each other: each needs the tokens before it

  std::uint32_t tokens() const {
    std::uint32_t sum = 0;
    for (const Item& item : items) sum += item.tokens;
    return sum;
  }
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// Whether a request fits at all. Only such requests may be added.
  virtual bool can_hold(const Request& request) const = 0;
  /// Whether the part `answer` of a request needs this instance.
  virtual bool computes_answer(const Request& request) const { return request.output_tokens > 1; }
  virtual void add(std::uint32_t number, const Request& request, PromptContent content, RequestPart part) = 0;
  /// Takes memory for waiting requests outside of batches, first come first served. Called when a request has been added
  /// or memory has been released.
  virtual std::vector<Reservation> reserve() { return {}; }
  /// All KV of a request of the part `answer` has arrived in its reservation.
  virtual void arrived(std::uint32_t number) = 0;
  /// The KV of a request of the part `prompt`, which has left, has been read; or the request, whose KV has arrived, has
  /// no answer to compute.
  virtual void release(std::uint32_t number) = 0;
  /// For a stall report: requests that wait for memory. Empty if there are none.
  virtual std::string blocked() const = 0;

  /// Whether the engine may ask for a batch now.
  virtual bool may_compose() const = 0;
  /// The next batch; without items if nothing can run now (there may be reservations all the same).
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
