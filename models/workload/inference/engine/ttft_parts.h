// Where the time to first token goes. Each instant from a request's arrival until its client has the first token belongs
// to one part, so the parts of a request add up to its TTFT, exactly:
//
//   host             the API server before the queue and after the token; or the host prepares the request's batch, or
//                    launches its kernels, and nothing else is missing
//   router           the router and its proxies; or it waits in the router, until an instance has less to compute
//   step_alignment   not in a batch, because the engine composes batches only between steps: from the entry into the
//                    queue until the next composition, or from one chunk of the prompt to the next
//   queue_slots      in the queue: max_seqs requests are running
//   queue_budget     the same, the batch's tokens are used up; or the first request in the queue does not fit in the rest
//   queue_blocks     the first request in the queue: too few KV blocks are free; all of the queue, if requests lose theirs
//   queue_behind     behind a request that does not fit in blocks or tokens: nobody passes it
//   queue_pipeline   in a batch, which waits at a stage for an earlier batch
//   prefill_kernels  kernels of a batch with a chunk of the prompt
//   tp               its tensor-parallel collectives, including their gates
//   pp               its activations between stages, and its tokens on their way back to stage 0
//   kv_handshake     two instances: the two meet for the first time, and nothing of its KV is posted
//   kv_post          two instances: threads post the reads of its KV, and nothing of it moves
//   kv               two instances: its KV is on its way to the instance that decodes, after the prompt: the time that the bytes
//                    take alone. One instance: it is read from a disk to host memory, and loaded from there
//   kv_staging       two instances: kernels gather its KV in a buffer before that way, and bring it to its blocks after it
//   kv_contention    two instances: the rest of that way: behind other messages
//   decode_queue     two instances: in the queue of the instance that decodes, for a turn or for memory. If KV is sent while
//                    it is computed, this comes before the prompt
//   decode_kernels   two instances: kernels of the batch of the instance that decodes which gives the client its first token
//
// With two instances, host also has the time from the end of the prompt until the request is in the other queue, and
// step_alignment, queue_pipeline, tp and pp are sums over both instances.
//
// A batch is observed on rank t = 0 of the stage on which it is. Chunks of a prompt may be in several batches at once;
// then the batch that has begun last counts. A request in the queue keeps its part from one composition to the next.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "workload/inference/engine/pipeline.h"
#include "workload/inference/scheduler/scheduler.h"

namespace railyard::workload::inference {

enum class TtftPart : std::uint8_t {
  host,
  router,
  step_alignment,
  queue_slots,
  queue_budget,
  queue_blocks,
  queue_behind,
  queue_pipeline,
  prefill_kernels,
  tp,
  pp,
  kv_handshake,
  kv_post,
  kv,
  kv_staging,
  kv_contention,
  decode_queue,
  decode_kernels,
};
constexpr std::size_t kTtftParts = 18;
constexpr std::array<const char*, kTtftParts> kTtftPartNames{"host",
                                                             "router",
                                                             "step_alignment",
                                                             "queue_slots",
                                                             "queue_budget",
                                                             "queue_blocks",
                                                             "queue_behind",
                                                             "queue_pipeline",
                                                             "prefill_kernels",
                                                             "tp",
                                                             "pp",
                                                             "kv_handshake",
                                                             "kv_post",
                                                             "kv",
                                                             "kv_staging",
                                                             "kv_contention",
                                                             "decode_queue",
                                                             "decode_kernels"};

class TtftTimes {
 public:
  Time& operator[](TtftPart part) { return times_[static_cast<std::size_t>(part)]; }
  const std::array<Time, kTtftParts>& all() const { return times_; }
  /// Adds what has been added to `now` since `before`. @pre before is a former value of now
  void add(const TtftTimes& now, const TtftTimes& before) {
    for (std::size_t i = 0; i < kTtftParts; ++i) times_[i] += now.times_[i] - before.times_[i];
  }
  /// What counted for one part counts for another one.
  void move(TtftPart from, TtftPart to) { (*this)[to] += std::exchange((*this)[from], Time()); }

 private:
  std::array<Time, kTtftParts> times_;
};

/// Follows the requests of an engine from its queue to their first token. Events come in the order of their time.
class TtftClock {
 public:
  explicit TtftClock(std::uint32_t stages) : stages_(stages) {}

  void queued(std::uint32_t request, RequestPart part, Time now);
  /// An answer, which was not in the queue, waits for its KV.
  void awaits(std::uint32_t request, Time now);
  // A request waits for its KV outside of the queue. They do nothing for one that this clock does not follow.
  /// Its two instances meet; posts() follows.
  void meets(std::uint32_t request, Time now) { wait(request, TtftPart::kv_handshake, now); }
  /// Somebody posts its reads; posted() follows.
  void posts(std::uint32_t request, Time now) { wait(request, TtftPart::kv_post, now); }
  void posted(std::uint32_t request, Time now) { wait(request, TtftPart::kv, now); }
  void loads(std::uint32_t request, Time now) { wait(request, TtftPart::kv, now); }
  /// Its KV has arrived, and the engine does not know.
  void aligns(std::uint32_t request, Time now) { wait(request, TtftPart::step_alignment, now); }
  /// It is in the queue again.
  void fetched(std::uint32_t request, Time now);
  /// The scheduler has composed a batch, which becomes the next pass unless it is empty. Passes are numbered from 0.
  void composed(const ScheduledBatch& batch, const Scheduler& scheduler, Time now);
  void begun(std::uint32_t pass, const ScheduledBatch& batch, Time now);
  /// Whether the pass has requests that this clock follows. Otherwise its activities may be left out until it leaves a stage.
  bool follows(std::uint32_t pass) const { return passes_[pass - first_].is_followed; }
  /// @param when  now or later; a pass has its activities in order
  void acts(std::uint32_t pass, std::uint32_t stage, PassActivity activity, Time when, Time now);
  /// The request's first token is known. @return the parts of its time since it was queued
  TtftTimes first_token(std::uint32_t request, Time now);
  /// The request leaves without a token. @return the parts of its time since it was queued; none if this clock does not follow it
  TtftTimes left(std::uint32_t request, Time now) {
    return find(request) == nullptr ? TtftTimes() : first_token(request, now);
  }
  /// The oldest pass is complete. Call after first_token() of its requests.
  void completed(const ScheduledBatch& batch, Time now);

 private:
  /// Time adds to one part after the other.
  struct Clock {
    TtftTimes times;
    TtftPart part = TtftPart::host;
    Time since;
    void turn(TtftPart to, Time now);
    TtftTimes at(Time now) const;
  };
  struct Pass : Clock {
    bool has_left_first = false;                  ///< the first stage
    bool is_followed = false;                     ///< the time of a request counts
    std::deque<std::pair<Time, TtftPart>> ahead;  ///< turns to come
  };
  struct Request : Clock {
    bool is_answer = false;  ///< its prompt was computed elsewhere: what it waits for here, a decode waits for
    std::optional<std::uint32_t> pass;  ///< whose parts count instead of its own
    bool in_queue = false;              ///< the parts of the queue count
    TtftTimes before;                   ///< times of the pass or the queue when it began to count
    std::vector<std::uint32_t> next;    ///< passes with later chunks that have not begun
  };

  TtftPart part_of(PassActivity activity) const;
  TtftPart queue_part(Refusal refusal) const;
  /// After its turns until now.
  Pass& pass(std::uint32_t number, Time now);
  Request* find(std::uint32_t number);
  /// The request of an item whose time counts; null: it has its first token.
  Request* find(const ScheduledBatch::Item& item);
  /// The clock whose parts count for a request; null: its own.
  const Clock* shared(const Request& request, Time now);
  void join(Request& request, std::uint32_t pass, Time now);
  void enter_queue(Request& request, Time now);
  /// The request waits outside of batches.
  void wait(Request& request, TtftPart part, Time now);
  void wait(std::uint32_t number, TtftPart part, Time now) {
    if (Request* const request = find(number)) wait(*request, part, now);
  }
  /// Adds the times until now.
  void settle(Request& request, Time now);

  std::uint32_t stages_;
  std::unordered_map<std::uint32_t, Request> requests_;
  std::uint32_t answers_ = 0;          ///< of these
  std::vector<std::uint32_t> new_;     ///< queued since the last composition
  std::optional<std::uint32_t> head_;  ///< of the queue, if it alone was refused in the last composition
  Clock queue_;                        ///< of all requests in the queue but this one
  std::deque<Pass> passes_;            ///< in flight
  std::uint32_t first_ = 0;            ///< number of the oldest one
};

}  // namespace railyard::workload::inference
