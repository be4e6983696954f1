// What schedulers over a paged KV cache share: the queue, the running requests and their blocks, KV that comes from another
// instance. A strategy says what a batch has (fill()), which free blocks a request needs to start (blocks_to_start()), and
// who gives way when there are none (make_room()).
//
// There is no prefill phase and no decode phase. Each request has tokens that are known (its prompt, and what was
// generated so far), and tokens that are computed, whose KV is in the cache. A step computes some of the difference.
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

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "workload/inference/kv/kv_store.h"
#include "workload/inference/scheduler/acceptance.h"
#include "workload/inference/scheduler/progress.h"
#include "workload/inference/scheduler/scheduler.h"
#include "workload/inference/scheduler/scheduler_spec.h"

namespace railyard::workload::inference {

class PagedScheduler : public Scheduler {
 public:
  /// Without chunks, a batch must hold all that a request computes at once, too.
  bool can_hold(const Request& request, RequestPart part = RequestPart::all) const override;
  void add(std::uint32_t number, const Request& request, RequestContent content = {},
           RequestPart part = RequestPart::all) override;
  void arrived(std::uint32_t number) override;
  void release(std::uint32_t number) override;
  std::uint64_t cancel(std::uint32_t number) override;
  std::uint64_t keep(std::uint32_t number, std::uint64_t lease) override;
  void end_lease(std::uint64_t lease) override;
  void forget() override;

  bool may_compose() const override { return !sequences_.empty() && in_flight_ < spec_.max_in_flight; }
  ScheduledBatch compose() override;
  void begun(const ScheduledBatch&) override {}
  void verify(ScheduledBatch& batch) const override;
  std::vector<std::uint32_t> complete(const ScheduledBatch& batch) override;
  KvTier::Contents take_stores(std::uint32_t) override { return std::exchange(stores_, {}); }
  KvTier::Contents stored(std::uint32_t, const KvTier::Contents& contents) override { return store_.stored(contents); }
  void written(std::uint32_t, const KvTier::Contents& contents) override { store_.written(contents); }
  std::vector<std::uint32_t> read(std::uint32_t, std::uint32_t number) override;

  bool empty() const override { return sequences_.empty(); }
  std::size_t running() const override { return running_.size(); }
  std::size_t waiting() const override { return waiting_.size(); }
  Memory memory() const override { return {store_.pool().total(), store_.pool().free()}; }
  std::vector<BlockPool::Block> blocks(std::uint32_t number) const override {
    const auto kept = kept_.find(number);
    return (kept != kept_.end() ? kept->second : sequences_.at(number))->held.places();
  }
  void follow_blocks(BlockPool::Listener& listener) override { store_.follow(listener); }
  void follow_copies(BlockPool::Listener& in_host, BlockPool::Listener& on_disks) override {
    store_.follow_copies(in_host, on_disks);
  }
  Left left() const override { return {refusal_, refuses_all_, waiting_.empty() ? 0 : waiting_.front()->number}; }
  std::string blocked() const override;
  Counts counts(std::uint32_t number) const override;

  const SchedulerSpec& spec() const { return spec_; }
  const KvStore& store() const { return store_; }

 protected:
  /// @param blocks  including the reserved block
  /// @pre each request fits (can_hold())
  PagedScheduler(const SchedulerSpec& spec, std::uint32_t blocks);

  struct Sequence : Progress {
    std::uint32_t priority = 0;
    std::uint64_t furthest = 0;      ///< most tokens computed before a preemption
    std::uint64_t last_prefill = 0;  ///< composition that last computed tokens of its prefill
    bool is_running = false;
    bool keeps_blocks = false;  ///< when it leaves
    enum class Kv : std::uint8_t { here, elsewhere, arriving, arrived, being_read } kv = Kv::here;
    bool has_read = false;          ///< to host memory, since it last ran: what that has lost again is computed
    std::uint64_t loads_until = 0;  ///< tokens; 0: nothing is loaded from host memory
    KvTier::Contents loads;
    KvStore::Sequence held;  ///< blocks
    Counts counts;

    Sequence(std::uint32_t its_number, std::uint64_t prompt_tokens, RequestContent content)
        : held(its_number, prompt_tokens, std::move(content)) {}
  };

  /// Puts requests into a batch.
  virtual void fill(ScheduledBatch& batch) = 0;
  /// Most tokens that a request may compute at once: after a preemption its answer, too.
  virtual std::uint64_t tokens_at_once(const Request& request, std::uint64_t all) const;
  /// Free blocks that it takes to start a request.
  /// @param hits    its first blocks, found in the prefix index
  /// @param tokens  that its blocks must hold after the first chunk
  virtual std::uint64_t blocks_to_start(const Sequence& s, const KvStore::Prefix& hits, std::uint64_t tokens) const = 0;

  enum class Room : std::uint8_t {
    made,
    left,
    full
  };  ///< left: the request itself gave way; full: so did it, and nobody else runs
  /// There are no blocks for the next `tokens` tokens of the running request in `place`, which moves with those before it.
  virtual Room make_room(ScheduledBatch& batch, std::size_t& place, std::uint64_t tokens, std::uint64_t& budget) = 0;

  enum class Which : std::uint8_t { all, prompts, decodes };
  /// Running requests, in order of admission.
  void run_running(ScheduledBatch& batch, std::uint64_t& budget, Which which);
  /// A batch of decodes alone, without a budget.
  void run_decodes(ScheduledBatch& batch);
  /// Waiting requests, in order, until the budget, the slots or the blocks are used up; nobody if someone gave way in this batch.
  void run_waiting(ScheduledBatch& batch, std::uint64_t& budget, std::size_t slots);
  /// No waiting request starts in this batch.
  void refuse_waiting(Refusal why) {
    refusal_ = waiting_.empty() ? Refusal::none : why;
    refuses_all_ = !waiting_.empty();
  }
  /// Slots of max_seqs that are free.
  std::size_t free_slots() const;
  std::uint64_t budget() const { return spec_.max_batched_tokens; }

  /// Free blocks for `wanted` blocks of a request, and the watermark beside others.
  std::uint64_t free_blocks_for(const Sequence& s, const KvStore::Prefix& hits, std::uint64_t wanted) const;
  /// Blocks that the other requests with memory will need beyond those that they have, if each answer grows by `answer(other)`.
  template <typename Answer>
  std::uint64_t blocks_of_others(const Sequence& s, const Answer& answer) const {
    std::uint64_t needed = 0;
    for (const auto* others : {&running_, &reserved_}) {
      for (const Sequence* other : *others) {
        const std::uint64_t blocks = other == &s ? 0 : store_.blocks_for(other->known + answer(*other));
        needed += blocks - std::min<std::uint64_t>(blocks, other->held.blocks());
      }
    }
    return needed;
  }

  /// Preempts victims until the running request in `place` has blocks, or has given way itself.
  /// @return whether it has blocks
  template <typename Victim>
  bool preempt_until(ScheduledBatch& batch, std::size_t& place, std::uint64_t tokens, std::uint64_t& budget,
                     bool to_head, const Victim& victim) {
    Sequence& s = *running_[place];
    bool has_blocks = false;
    while (!has_blocks && s.is_running) {
      Sequence& last = victim();
      const auto its_place =
          static_cast<std::size_t>(std::find(running_.begin(), running_.end(), &last) - running_.begin());
      budget += preempt(batch, last, to_head);
      if (its_place < place) --place;
      if (&last != &s) has_blocks = store_.grow(s.held, slots(s.computed + tokens));
    }
    return has_blocks;
  }
  /// @return tokens of the batch that the request gives back
  std::uint64_t preempt(ScheduledBatch& batch, Sequence& s, bool to_head);
  bool is_before(const Sequence& a, const Sequence& b) const;

  const std::vector<Sequence*>& in_order() const { return running_; }
  bool is_new(const Sequence& s) const { return s.last_prefill == compositions_; }

 private:
  /// Tokens up to which a running request computes now, with its drafts.
  std::uint64_t reach(const Sequence& s) const;
  /// Tokens for which a request takes blocks to compute up to `end`.
  std::uint64_t slots(std::uint64_t end) const;
  /// Blocks that the prefix index has of it.
  KvStore::Prefix find(Sequence& s);
  /// Tokens of a chunk, limited by long_prefill_threshold_tokens.
  std::uint64_t below_threshold(std::uint64_t tokens) const;
  /// Puts a waiting request into the batch, or takes blocks for the KV of its prompt.
  /// @return why it cannot start; none if it has left the queue
  Refusal start(ScheduledBatch& batch, Sequence& s, std::uint64_t& budget);
  /// The first waiting request whose KV has arrived; null if there is none.
  Sequence* first_arrived() const;
  /// Takes blocks for the prompt of a waiting request. @return false if there are not enough
  bool reserve_for_kv(ScheduledBatch& batch, Sequence& s);
  /// The same for so many blocks in host memory behind its prefix.
  bool load(ScheduledBatch& batch, Sequence& s, KvStore::Prefix hits, std::uint64_t blocks);
  /// If blocks behind its prefix are on disks, or at a peer, it leaves the queue until they are in host memory. @return whether it does
  bool await_read(ScheduledBatch& batch, Sequence& s, const KvStore::Prefix& hits);
  /// It is in the queue again, before all requests that came after it.
  void rejoin(Sequence& s);
  /// It leaves the queue until its KV arrives.
  void await_kv(ScheduledBatch& batch, Sequence& s);
  /// Adds the blocks of prompts that a batch has completed to those that are copied to host memory.
  void add_stores(const ScheduledBatch& batch);
  /// The request takes the blocks that the prefix index has found.
  void begin_with(Sequence& s, KvStore::Prefix hits);
  bool may_start(const Sequence& s, const KvStore::Prefix& hits, std::uint64_t tokens) const {
    return blocks_to_start(s, hits, tokens) <= store_.pool().free();
  }
  void schedule(ScheduledBatch& batch, Sequence& s, std::uint64_t tokens);
  /// Those of the next `tokens` tokens that were computed before a preemption.
  static std::uint64_t repeated(const Sequence& s, std::uint64_t tokens);
  void enqueue(Sequence& s, bool at_head);
  void leave(Sequence& s);

  SchedulerSpec spec_;
  KvStore store_;
  Acceptance acceptance_;
  std::uint32_t in_flight_ = 0;  ///< batches
  std::uint32_t watermark_;      ///< blocks
  std::unordered_map<std::uint32_t, std::unique_ptr<Sequence>> sequences_;
  std::vector<Sequence*> running_;  ///< in order of admission
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> reserved_;  ///< have memory, and do not run yet: their KV arrives or has arrived
  std::unordered_map<std::uint32_t, std::unique_ptr<Sequence>> kept_;  ///< have left; their blocks are being read
  std::map<std::uint64_t, std::unique_ptr<Sequence>> leased_;          ///< by lease: nobody will read their blocks
  std::unordered_map<std::uint32_t, Counts> left_;  ///< of requests that have left with the latest complete()
  KvTier::Contents stores_;
  Refusal refusal_ = Refusal::none;
  bool refuses_all_ = false;
  std::uint64_t compositions_ = 0;
};

}  // namespace railyard::workload::inference
