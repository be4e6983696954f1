// The continuous-batching scheduler of a serving engine: which tokens of which requests run in the next forward pass.
// The rules are those of vLLM V1 (v1/core/sched/scheduler.py, v0.19), with the settings in which SGLang and
// TensorRT-LLM differ.
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
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "workload/inference/kv/kv_store.h"
#include "workload/inference/scheduler/scheduler.h"
#include "workload/inference/scheduler/scheduler_spec.h"

namespace railyard::workload::inference {

class ContinuousScheduler : public Scheduler {
 public:
  /// @param blocks  including the reserved block
  /// @pre each request fits: ceil(all its tokens / block_tokens) < blocks; without chunked_prefill also all its tokens <=
  /// max_batched_tokens, or its prompt if nobody is preempted; and all its tokens <= max_model_len
  ContinuousScheduler(const SchedulerSpec& spec, std::uint32_t blocks);

  /// Whether the request meets the precondition above.
  bool can_hold(const Request& request, RequestPart part = RequestPart::all) const override;
  bool computes_answer(const Request& request) const override {
    return spec_.computes_first_token || request.output_tokens > 1;
  }
  void add(std::uint32_t number, const Request& request, RequestContent content = {},
           RequestPart part = RequestPart::all) override;
  void arrived(std::uint32_t number) override;
  void release(std::uint32_t number) override;

  bool may_compose() const override { return !sequences_.empty() && in_flight_ < spec_.max_in_flight; }
  ScheduledBatch compose() override;
  void begun(const ScheduledBatch&) override {}
  std::vector<std::uint32_t> complete(const ScheduledBatch& batch) override;

  bool empty() const override { return sequences_.empty(); }
  std::size_t running() const override { return running_.size(); }
  std::size_t waiting() const override { return waiting_.size(); }
  Memory memory() const override { return {store_.pool().total(), store_.pool().free()}; }
  Left left() const override { return {refusal_, refuses_all_, waiting_.empty() ? 0 : waiting_.front()->number}; }
  std::string blocked() const override;
  Counts counts(std::uint32_t number) const override;

  const SchedulerSpec& spec() const { return spec_; }
  const KvStore& store() const { return store_; }

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
    bool has_started = false, is_running = false;
    bool keeps_blocks = false;   ///< when it leaves
    bool decodes_first = false;  ///< its first token is a decode of the prompt's last token
    enum class Kv : std::uint8_t { here, elsewhere, arriving, arrived } kv = Kv::here;
    KvStore::Sequence held;  ///< blocks
    Counts counts;

    Sequence(std::uint32_t its_number, std::uint64_t prompt_tokens, RequestContent content)
        : held(its_number, prompt_tokens, std::move(content)) {}
  };

  /// Tokens whose KV the request will need, as far as can be told now.
  std::uint64_t reach(const Sequence& s) const;
  /// Tokens of a chunk, limited by long_prefill_threshold_tokens.
  std::uint64_t below_threshold(std::uint64_t tokens) const;

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
  /// Tokens of the answer for which blocks are reserved, as SGLang counts them: all of a request that is starting or was
  /// prefilled in this batch, a share of other running requests.
  std::uint64_t reserved_answer(const Sequence& s) const;
  /// The request takes the blocks that the prefix index has found.
  void begin_with(Sequence& s, KvStore::Prefix hits);
  /// @param hits    the request's first blocks, found in the prefix index
  /// @param tokens  that its blocks must hold after the first chunk
  bool may_start(const Sequence& s, const KvStore::Prefix& hits, std::uint64_t tokens) const {
    return blocks_to_start(s, hits, tokens) <= store_.pool().free();
  }
  /// Free blocks that this takes.
  std::uint64_t blocks_to_start(const Sequence& s, const KvStore::Prefix& hits, std::uint64_t tokens) const;
  void schedule(ScheduledBatch& batch, Sequence& s, std::uint64_t tokens);
  /// Those of the next `tokens` tokens that were computed before a preemption.
  static std::uint64_t repeated(const Sequence& s, std::uint64_t tokens);
  Sequence* victim() const;
  /// @return tokens of the batch that the request gives back
  std::uint64_t preempt(ScheduledBatch& batch, Sequence& s);
  void retract(ScheduledBatch& batch);
  void enqueue(Sequence& s, bool at_head);
  bool is_before(const Sequence& a, const Sequence& b) const;
  void leave(Sequence& s);

  SchedulerSpec spec_;
  KvStore store_;
  std::uint32_t in_flight_ = 0;  ///< batches
  std::uint32_t watermark_;      ///< blocks
  std::unordered_map<std::uint32_t, std::unique_ptr<Sequence>> sequences_;
  std::vector<Sequence*> running_;  ///< in order of admission
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> reserved_;  ///< have memory, and do not run yet: their KV arrives or has arrived
  std::unordered_map<std::uint32_t, std::unique_ptr<Sequence>> kept_;  ///< have left; their blocks are being read
  std::unordered_map<std::uint32_t, Counts> left_;  ///< of requests that have left with the latest complete()
  Refusal refusal_ = Refusal::none;
  bool refuses_all_ = false;
  std::uint64_t compositions_ = 0;
  double expected_ratio_;  ///< share of answers that Reserve::expected_output counts
};

}  // namespace railyard::workload::inference
