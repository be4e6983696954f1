// The room `scheduler` decides which tokens of which requests an instance computes next. A Scheduler has the queue and the running
// requests, asks the KV cache for memory, and composes each ScheduledBatch; the engine runs it and reports its begin and its end.
// A scheduler knows no other instance, and no time.
//
// The continuous-batching scheduler of a serving engine: which tokens of which requests run in the next forward pass.
// The rules are those of vLLM V1 (v1/core/sched/scheduler.py, v0.19), with the settings in which SGLang and
// TensorRT-LLM differ. Plain C++ without SystemC: time does not occur here.
//
// There is no prefill phase and no decode phase. Each request has tokens that are known (its prompt, and what was
// generated so far), and tokens that are computed, whose KV is in the cache. A step computes some of the difference:
//
//   1. Running requests, in order of admission. If there is no block for a request's new tokens, the last running
//      request is preempted: its blocks are released and it returns to the head of the queue. Its blocks keep their
//      content until they are taken, so the request may find them again.
//   2. Waiting requests, in order, if nobody was preempted, until the budget of tokens, the slots or the blocks are
//      used up. Tokens of full blocks that the prefix index finds are not computed.
//
// A request counts its tokens as computed when they are scheduled. So chunks of a prompt may be in several batches in
// flight, and a decoding request waits until its token is known. With placeholders (an asynchronous host), a request
// may also run on a token that is still being computed.
//
// Prompt and answer may run on two instances. The one with the prompts keeps the blocks of a request that has left until
// they have been read. In the other one a request waits for its turn, takes blocks for its prompt, and runs when the KV
// has arrived, as with vLLM's NixlConnector. If it is preempted there, it computes its prompt again. A preempted request at
// the head of the queue may need blocks that requests behind it hold, whose KV has arrived. If nothing runs, the first of
// those starts before the head, as in later versions (vllm-project/vllm pull requests 44560 and 45406); otherwise the
// instance would wait for ever.
//
// Engines before paged KV cache are settings of the same rules (workload.kind: disaggregated_prefill): memory for a whole
// sequence before its first batch, prompts one by one, and requests that decode together staying together.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "workload/inference/kv/block_pool.h"
#include "workload/inference/kv/whole_sequences.h"
#include "workload/inference/requests/request.h"
#include "workload/inference/scheduler/scheduled_batch.h"

namespace railyard::workload::inference {

enum class QueuePolicy : std::uint8_t { fcfs, priority };
/// Whether prompts and decodes share a batch, or a batch has only prompts as long as there are any.
enum class BatchMix : std::uint8_t { mixed, prefill_first };
/// Blocks that must be free for a request to start: for its first chunk; for all its known tokens; for these, its answer,
/// and the decaying share that SGLang expects of the running requests' answers (with BatchMix::prefill_first); or for the
/// answers of all running requests and its own. `ahead`: the request takes memory for all its tokens in this instance before
/// it can be in a batch, and keeps it; the memory is not paged.
enum class Reserve : std::uint8_t { chunk, sequence, expected_output, full_output, ahead };
/// never: a running request without blocks waits. With Reserve::full_output this does not occur; otherwise requests may
/// wait for each other for ever.
enum class Preemption : std::uint8_t { recompute, never };

struct SchedulerSpec {
  QueuePolicy policy = QueuePolicy::fcfs;
  std::uint32_t max_batched_tokens = 8192;
  std::uint32_t max_seqs = 1024;
  std::uint32_t max_model_len = 0;                  ///< tokens of a request, prompt and answer; 0: no limit
  std::uint32_t long_prefill_threshold_tokens = 0;  ///< longest chunk of a prompt; 0: the budget only
  bool chunked_prefill = true;
  BatchMix mix = BatchMix::mixed;
  Reserve reserve = Reserve::sequence;
  Preemption preemption = Preemption::recompute;
  double watermark_ratio = 0;  ///< share of all blocks that stays free when a request starts beside others
  bool prefix_caching = true;
  std::uint32_t block_tokens = 16;
  std::uint32_t max_in_flight = 1;  ///< batches, of each group
  bool is_eager = false;  ///< instead of max_in_flight: a batch is composed as soon as the one before has begun
  /// A request stays in the group of its first batch, so requests that decode together stay together. With one group for
  /// each pipeline stage, all stages can work at the same time.
  std::uint32_t groups = 1;
  bool prompts_in_turn = false;  ///< a batch has a chunk of one prompt
  bool placeholders = false;     ///< a request may run on a token that is not known yet
  bool computes_first_token =
      false;  ///< of the part `answer`: when the KV has arrived, a step on the last token of the prompt
              ///< gives the first token
};

/// Why the first waiting request did not start.
enum class Refusal : std::uint8_t { none, slots, budget, blocks };

class Scheduler {
 public:
  /// @param blocks  including the reserved block
  /// @param whole   with Reserve::ahead; else null
  /// @pre each request fits: ceil(all its tokens / block_tokens) < blocks; without chunked_prefill also all its tokens <=
  /// max_batched_tokens, or its prompt if nobody is preempted; and all its tokens <= max_model_len
  Scheduler(const SchedulerSpec& spec, std::uint32_t blocks, WholeSequences* whole = nullptr);

  /// Whether the request meets the precondition above.
  bool can_hold(const Request& request, RequestPart part = RequestPart::all) const;
  /// Whether the part `answer` of a request needs this instance. If memory is taken ahead, nobody can tell before the first
  /// token whether that token ends the answer.
  bool computes_answer(const Request& request) const {
    return is_ahead() || spec_.computes_first_token || request.output_tokens > 1;
  }
  void add(std::uint32_t number, const Request& request, RequestContent content = {},
           RequestPart part = RequestPart::all);
  /// With Reserve::ahead, takes memory for waiting requests, first come first served. Call when a request has been added or
  /// memory has been released.
  std::vector<Reservation> reserve();
  /// All KV of a request of the part `answer` has arrived in its reservation. @pre it has tokens to compute here
  void arrived(std::uint32_t number);
  /// The KV of a request of the part `prompt`, which has left, has been read; or the request, whose KV has arrived, has
  /// no answer to compute.
  void release(std::uint32_t number);
  /// For a stall report: requests that wait. Empty if there are none.
  std::string blocked() const;

  /// Whether there may be a batch to compose.
  bool may_compose() const;
  /// The next batch; without items if nothing can run now (there may be reservations all the same).
  ScheduledBatch compose();
  /// The first kernel of a batch begins.
  void begun(const ScheduledBatch& batch) { ++groups_[batch.group].begun; }
  /// The tokens of a batch are known. Batches of a group complete in the order of their composition.
  /// @return requests that have left, in the order of the batch
  std::vector<std::uint32_t> complete(const ScheduledBatch& batch);
  /// Whether no request is here.
  bool empty() const { return sequences_.empty(); }

  const SchedulerSpec& spec() const { return spec_; }
  bool is_ahead() const { return spec_.reserve == Reserve::ahead; }
  const BlockPool& pool() const { return pool_; }
  std::size_t running() const { return running_.size(); }
  std::size_t waiting() const { return waiting_.size(); }
  /// Why compose() left the first waiting request in the queue; none if the queue is empty.
  Refusal refusal() const { return refusal_; }
  /// Whether compose() could not have started any other waiting request either.
  bool refuses_all() const { return refuses_all_; }
  /// The first waiting request. @pre waiting() > 0
  std::uint32_t first_waiting() const { return waiting_.front()->number; }

  struct Counts {
    std::uint32_t preemptions = 0;
    std::uint64_t cached_tokens = 0;      ///< found in the prefix index when the request first started
    std::uint64_t recomputed_tokens = 0;  ///< computed again after a preemption
  };
  /// @pre the request is here, or has left with the latest complete()
  const Counts& counts(std::uint32_t number) const;

 private:
  struct Sequence {
    std::uint32_t number = 0;
    std::uint32_t priority = 0;
    std::uint64_t prompt = 0;
    std::uint64_t all = 0;           ///< prompt and answer
    std::uint64_t known = 0;         ///< tokens
    std::uint64_t computed = 0;      ///< tokens, counted when they are scheduled
    std::uint64_t furthest = 0;      ///< most tokens computed before a preemption
    std::uint64_t prefill = 0;       ///< tokens known when it started, or returned after a preemption
    std::uint64_t last_prefill = 0;  ///< composition that last computed some of them
    std::uint32_t sampling = 0;      ///< tokens that batches in flight produce
    std::uint32_t chunks = 0;        ///< of the prompt, in batches so far
    std::uint32_t group = 0;
    bool has_started = false, is_running = false;
    bool keeps_blocks = false;   ///< when it leaves
    bool decodes_first = false;  ///< its first token is a decode of the prompt's last token
    enum class Kv : std::uint8_t { here, elsewhere, arriving, arrived } kv = Kv::here;
    RequestContent content;
    std::vector<BlockPool::Block> blocks;
    std::uint64_t whole = 0;                   ///< tokens for which memory that is not paged is held
    std::size_t filled = 0;                    ///< blocks with content
    std::vector<BlockPool::Content> contents;  ///< of the first blocks, as far as they were needed
    Counts counts;
  };

  /// Tokens whose KV the request will need, as far as can be told now.
  std::uint64_t reach(const Sequence& s) const;
  std::uint64_t blocks_for(std::uint64_t tokens) const;
  BlockPool::Content content(Sequence& s, std::size_t block);
  /// Tokens of a chunk, limited by long_prefill_threshold_tokens.
  std::uint64_t below_threshold(std::uint64_t tokens) const;

  /// Batches of a group.
  struct Group {
    std::uint32_t composed = 0, begun = 0, done = 0;
  };
  bool may_step(const Group& group) const;
  ScheduledBatch next_batch(std::uint32_t group);
  enum class Which : std::uint8_t { all, prompts, decodes };
  void run_running(ScheduledBatch& batch, std::uint64_t& budget, Which which);
  void run_waiting(ScheduledBatch& batch, std::uint64_t& budget, std::size_t slots);
  /// Puts a waiting request into the batch, or takes blocks for the KV of its prompt.
  /// @return why it cannot start; none if it has left the queue
  Refusal start(ScheduledBatch& batch, Sequence& s, std::uint64_t& budget);
  /// The first waiting request whose KV has arrived; null if there is none.
  Sequence* first_arrived() const;
  /// Slots of max_seqs that are free.
  std::size_t free_slots() const;
  /// Takes blocks for the prompt of a waiting request. @return false if there are not enough
  bool reserve_for_kv(ScheduledBatch& batch, Sequence& s);
  /// Takes blocks for `tokens` more tokens. @return false if there are not enough; then none are taken
  bool grow(Sequence& s, std::uint64_t tokens);
  /// Tokens of the answer for which blocks are reserved, as SGLang counts them: all of a request that is starting or was
  /// prefilled in this batch, a share of other running requests.
  std::uint64_t reserved_answer(const Sequence& s) const;
  /// The request takes the blocks that the prefix index has found.
  void begin_with(Sequence& s, std::vector<BlockPool::Block> hits);
  /// @param hits    the request's first blocks, found in the prefix index
  /// @param tokens  that its blocks must hold after the first chunk
  bool may_start(const Sequence& s, const std::vector<BlockPool::Block>& hits, std::uint64_t tokens) const {
    return s.whole != 0 || blocks_to_start(s, hits, tokens) <= pool_.free();
  }
  /// Free blocks that this takes. @pre the memory is paged
  std::uint64_t blocks_to_start(const Sequence& s, const std::vector<BlockPool::Block>& hits,
                                std::uint64_t tokens) const;
  /// "request 3: 26 (its KV has arrived)", for each request that holds blocks, in a stall report.
  std::string holders() const;
  std::vector<BlockPool::Block> find_prefix(Sequence& s);
  void schedule(ScheduledBatch& batch, Sequence& s, std::uint64_t tokens);
  /// Those of the next `tokens` tokens that were computed before a preemption.
  static std::uint64_t repeated(const Sequence& s, std::uint64_t tokens);
  Sequence* victim() const;
  /// @return tokens of the batch that the request gives back
  std::uint64_t preempt(ScheduledBatch& batch, Sequence& s);
  void retract(ScheduledBatch& batch);
  void fill_blocks(Sequence& s, std::uint64_t tokens);
  void release_blocks(Sequence& s);
  void enqueue(Sequence& s, bool at_head);
  bool is_before(const Sequence& a, const Sequence& b) const;
  void leave(Sequence& s);

  SchedulerSpec spec_;
  BlockPool pool_;
  WholeSequences* whole_;
  std::vector<Group> groups_;
  std::uint32_t watermark_;  ///< blocks
  std::unordered_map<std::uint32_t, std::unique_ptr<Sequence>> sequences_;
  std::vector<Sequence*> running_;  ///< in order of admission
  std::deque<Sequence*> waiting_;
  std::deque<Sequence*> before_memory_;  ///< with Reserve::ahead: wait for memory, and are in the queue only after that
  std::vector<Sequence*> reserved_;      ///< have memory, and do not run yet: their KV arrives or has arrived
  std::unordered_map<std::uint32_t, std::unique_ptr<Sequence>> kept_;  ///< have left; their blocks are being read
  std::unordered_map<std::uint32_t, Counts> left_;  ///< of requests that have left with the latest complete()
  Refusal refusal_ = Refusal::none;
  bool refuses_all_ = false;
  std::uint64_t compositions_ = 0;
  double expected_ratio_;  ///< share of answers that Reserve::expected_output counts
};

}  // namespace railyard::workload::inference
