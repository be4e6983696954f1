// An instance of a serving engine: a model on its GPUs, a scheduler with the KV cache, the engine that runs the batches, and the
// clock of the time to first token. A service adds requests, and hears what becomes of them; an instance knows no other one.
//
// A request comes for all of its tokens, for its prompt, or for its answer. Of an answer, the KV of the prompt is somewhere
// else: the instance promises memory for it, and the request runs when the service says that the KV has arrived. The KV of a
// prompt stays until the service says that it has been read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "workload/engine_listener.h"
#include "workload/inference/engine/engine.h"
#include "workload/inference/engine/grid.h"
#include "workload/inference/engine/instance_spec.h"
#include "workload/inference/engine/kv_offload.h"
#include "workload/inference/engine/ttft_parts.h"
#include "workload/inference/scheduler/scheduler.h"

namespace railyard::workload::inference {

class Instance;

class InstanceClient {
 public:
  /// The request has memory for its KV; of an answer, KV can be sent there. If batches take memory, a request whose KV is not
  /// elsewhere has this when it enters the queue.
  virtual void on_promised(Instance& instance, const Reservation& reservation) = 0;
  /// A batch has been composed; its jobs follow, with on_attention_emitted().
  virtual void on_composed(Instance& instance, std::uint32_t pass, const ScheduledBatch& batch) = 0;
  /// See PassClient::on_attention_emitted().
  virtual void on_attention_emitted(Instance& instance, std::uint32_t pass, std::uint32_t stage, std::uint32_t t,
                                    std::uint32_t layer, JobRef job) = 0;
  /// The request's first kernel begins.
  virtual void on_begun(Instance& instance, std::uint32_t request) = 0;
  virtual void on_iteration(Instance& instance, std::uint32_t number, const Iteration& iteration) = 0;
  virtual void on_token(Instance& instance, std::uint32_t request) = 0;
  /// The request has left the scheduler.
  virtual void on_finished(Instance& instance, std::uint32_t request, const Scheduler::Counts& counts) = 0;
  /// With paged KV cache.
  virtual void on_load(Instance& instance, const EngineLoad& load) = 0;
  /// Memory that is not paged: what is promised on a rank of each stage has changed.
  virtual void on_kv_promised(Instance& instance) = 0;
  /// The earliest instant at which a request may come to an instance, or leave it early, or KV may come to it from another one.
  virtual Time next_added() = 0;

 protected:
  ~InstanceClient() = default;
};

class Instance final : private EngineClient, private KvOffloadClient {
 public:
  /// What is the same for all instances of a service, and its place among them.
  struct Setting {
    const transformer::ModelShape& model;
    PpSend pp_send = PpSend::shard;
    bool names_requests = false;     ///< names of passes contain the request
    bool is_one_of_role = false;     ///< names of jobs contain the instance
    bool shares_group = false;       ///< names of links contain it
    bool brings_first_token = true;  ///< of the part `answer`: if not, no part of the TTFT is here
    bool keeps_prompts = false;      ///< of the role `decode`: requests come for all parts, too
    /// Pushed: KV of the part `answer` is computed elsewhere when it has memory here; of the part `prompt`, it is sent
    /// while it is computed.
    HandoffGrain handoff = HandoffGrain::fetched;
    bool sees_kv_at_step =
        false;               ///< of the part `answer`: in a step, the engine learns at its end that KV has arrived
    std::uint64_t seed = 1;  ///< of draws
  };
  /// @param id      its place in the service
  /// @param gpus    of its ranks
  /// @param blocks  of its paged KV cache, including the reserved block
  /// @param host    where copies of its blocks are kept; without stores: nowhere
  Instance(std::uint32_t id, const InstanceSpec& spec, const Setting& setting, const std::vector<gpu::Gpu*>& gpus,
           std::uint32_t blocks, const HostKv& host, Executor& executor, InstanceClient& client);

  std::uint32_t id() const { return id_; }
  const std::string& name() const { return spec_.name; }
  const InstanceSpec& spec() const { return spec_; }
  InstanceRole role() const { return spec_.role; }
  /// "_Inst[a]" in names of jobs if there are several instances of its role; else "".
  const std::string& suffix() const { return suffix_; }
  Grid& grid() { return grid_; }
  const Grid& grid() const { return grid_; }
  Engine& engine() { return engine_; }
  const Engine& engine() const { return engine_; }
  const Scheduler& scheduler() const { return *scheduler_; }
  /// See Scheduler::replica().
  std::uint32_t replica(std::uint32_t request) const { return scheduler_->replica(request); }
  /// Null: none of its KV is in host memory.
  KvOffload* offload() { return offload_ ? &*offload_ : nullptr; }
  /// See Scheduler::follow_blocks().
  void follow_blocks(BlockPool::Listener& listener) { scheduler_->follow_blocks(listener); }
  void follow_copies(BlockPool::Listener& in_host, BlockPool::Listener& on_disks) {
    scheduler_->follow_copies(in_host, on_disks);
  }

  /// A request enters the queue.
  /// @param is_timed  it has no token yet, so that the time here counts for its first one
  void add(std::uint32_t request, const Request& what, RequestContent content, RequestPart part, bool is_timed);
  // Of the part `answer`: the handshake with the instance that has its KV has begun, or is over; all reads of its KV are posted.
  void kv_meets(std::uint32_t request);
  void kv_met(std::uint32_t request);
  void kv_posted(std::uint32_t request);
  /// Of the part `answer`: the prompt is complete, and its KV is on its way.
  void awaits_kv(std::uint32_t request);
  /// All KV that a request waits for is here; it has tokens to compute.
  void kv_arrived(std::uint32_t request);
  /// The KV of a prompt that has left has been read; or the request, whose KV has arrived, has no answer to compute.
  void release(std::uint32_t request);
  /// The request leaves before its end, in whatever state it is here; batches in flight run on without it.
  struct Cancelled {
    std::uint64_t tokens = 0;  ///< whose KV was here
    TtftTimes times;           ///< parts of its time here, if it has no token
  };
  Cancelled cancel(std::uint32_t request);
  /// A prompt that has left, and whose KV nobody will read: keeps the KV until the lease ends. @return tokens
  std::uint64_t keep(std::uint32_t request, std::uint64_t lease);
  void end_lease(std::uint64_t lease);
  /// The instance has failed, and all its requests have been cancelled: KV is lost in its GPUs and in host memory.
  void forget();
  /// Memory has been given back: promises it to requests that wait for it outside of batches.
  void promise();
  /// The request's first token is known here. @return the parts of its time in this instance
  TtftTimes first_token(std::uint32_t request);

 private:
  bool is_paged() const { return !spec_.whole; }
  Time now() const { return executor_.fabric().now(); }
  EngineSpec engine_spec(const Setting& setting) const;
  /// Allocates memory. @param paged_blocks  of the KV cache, including the reserved block
  std::unique_ptr<Scheduler> load(std::uint32_t paged_blocks, const HostKv& host, std::uint64_t seed);
  void promised(const Reservation& reservation);
  /// Reports load and memory.
  void report();

  void on_composed(std::uint32_t pass, const Iteration& iteration) override;
  void on_asked(const ScheduledBatch& batch) override;
  void on_attention_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t layer,
                            JobRef job) override;
  void on_batch_begun(std::uint32_t pass, const ScheduledBatch& batch) override;
  void on_activity(std::uint32_t pass, std::uint32_t stage, PassActivity activity, Time when) override;
  bool follows_activity(std::uint32_t pass) const override { return ttft_ && ttft_->follows(pass); }
  void on_begun(std::uint32_t request) override;
  void on_iteration(std::uint32_t number, const Iteration& iteration) override;
  void on_token(std::uint32_t request) override;
  void on_finished(std::uint32_t request) override;
  void on_batch_done(const ScheduledBatch& batch) override;
  void on_kv_loaded(std::uint32_t request) override { kv_arrived(request); }
  void on_kv_stored(std::uint32_t replica, const KvTier::Contents& contents) override;
  void on_kv_read(std::uint32_t replica, std::uint32_t read) override;
  void on_kv_written(std::uint32_t replica, const KvTier::Contents& contents) override {
    scheduler_->written(replica, contents);
  }
  Time next_offload() override;

  std::uint32_t id_;
  InstanceSpec spec_;
  std::string suffix_;
  bool brings_first_token_, kv_follows_promise_, sees_kv_at_step_;
  Executor& executor_;
  InstanceClient& client_;
  Grid grid_;
  std::unique_ptr<Scheduler> scheduler_;
  Engine engine_;
  std::optional<KvOffload> offload_;
  std::optional<TtftClock> ttft_;      ///< if memory is paged, and a part of the TTFT is here
  std::vector<std::uint32_t> unseen_;  ///< requests whose KV has arrived during a step
  EngineLoad reported_;
  Bytes reported_kv_ = 0;  ///< promised on a rank of stage 0
};

}  // namespace railyard::workload::inference
