// The handoff of KV from any instance to any other: from the attention replica with the prompt to the one with the answer.
//
// With a staging connector, a kernel of the GPU that sends gathers KV in one buffer before its copy, and a kernel of the GPU that gets it
// brings it to its blocks (KvStaging).
//
// KvExchange sends the KV of prompts. Either prefill ranks push it as soon as a layer, a chunk or the prompt is complete, or
// the decode instance fetches it after the prompt. Who pushes or fetches first posts the descriptors of the transfer (KvConnector).
// From when on it may do so is the horizon of each pair of instances (kv_sends.h). Before the first transfer, the two meet
// (kv_contacts.h).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "workload/inference/engine/instance.h"
#include "workload/inference/engine/serving_rules.h"
#include "workload/inference/scheduler/scheduled_batch.h"
#include "workload/inference/service/handoff_plan.h"
#include "workload/inference/service/kv_contacts.h"
#include "workload/inference/service/kv_end.h"
#include "workload/inference/service/kv_loads.h"
#include "workload/inference/service/kv_sends.h"

namespace railyard::workload::inference {

/// What the KV of a request took to get from one instance to the other.
struct KvMoved {
  std::uint32_t request = 0, from = 0, to = 0;  ///< ids of instances
  std::uint32_t from_replica = 0, to_replica = 0;
  Bytes bytes = 0;
  std::uint64_t descriptors = 0;
  Time begun;      ///< the first copy or post; fetched: the wait for the handshake
  Time handshake;  ///< from the end of the prompt, until the two instances have met
  Time post;       ///< from there, fetched: until the last post is done; pushed: the longest time that a rank posted
  Time landed;     ///< the last byte is in its block
  /// Of the copy that landed last: from its first byte; its time alone on the fabric; and the kernels before and after it.
  Time wire, alone, staging;
  const transport::PortCounters* waited_at = nullptr;  ///< port for which a message waited longest; null: none waited
  Time waited;
  std::optional<TrafficClass>
      waited_for;  ///< that had the line of that port longest while messages waited; none is known
};

class KvExchangeClient {
 public:
  // The prompt of the request is complete, and its KV waits for a handshake that has begun, or is over now; and all reads are posted.
  virtual void on_kv_meets(std::uint32_t request) = 0;
  virtual void on_kv_met(std::uint32_t request) = 0;
  virtual void on_kv_posted(std::uint32_t request) = 0;
  /// Comes before on_kv_arrived(), unless nothing had to be moved.
  virtual void on_kv_moved(const KvMoved& moved) = 0;
  /// All KV of the request's prompt has arrived.
  virtual void on_kv_arrived(std::uint32_t request) = 0;
  /// Fetched or pushed per layer: fetch() or expect() is not called before for these two.
  virtual Time next_transfer(const Instance& from, const Instance& to) = 0;
  /// Otherwise: no rank of `from` has the KV of a chunk, which it does not have by now, before.
  virtual Time next_kv(const Instance& from) = 0;

 protected:
  ~KvExchangeClient() = default;
};

class KvExchange : private JobClient, private JobNamer, private KvContactsClient {
 public:
  /// @param names_requests  names of jobs contain the request
  KvExchange(HandoffGrain grain, KvConnector connector, bool names_requests, Executor& executor,
             KvExchangeClient& client)
      : grain_(grain),
        connector_(std::move(connector)),
        names_requests_(names_requests),
        executor_(executor),
        client_(client) {
    executor_.fabric().keep_line_users();
  }

  /// expected() knows what is on its way. Call before the first transfer.
  void follow_loads() { loads_.emplace(executor_.fabric()); }
  /// How long the KV of a prompt would take now from one to the other, over links as loaded. @pre follow_loads()
  Time expected(const KvEnd& from, const KvEnd& to, std::uint64_t prompt_tokens);

  /// Instances have streams for the kernels that stage KV. Call before the simulation starts, if the connector stages.
  /// @param instances  all of the service, by id
  void follow_staging(const std::vector<Instance*>& instances);
  /// Instances meet before the first transfer. Call before the simulation starts. Arguments: see KvContacts
  void follow_contacts(std::vector<Instance*> instances, bool have_met);
  /// See KvContacts.
  void begun_anew(const Instance& instance) {
    if (contacts_) contacts_->begun_anew(instance);
  }

  const HandoffPlan& plan(const Instance& from, const Instance& to) { return way(from, to).plan; }
  /// When KV may be sent from one to the other.
  transport::Horizon& sends(const Instance& from, const Instance& to) { return way(from, to).sends; }
  /// Whether KV is under way, or will be.
  bool moves() const { return !prompts_.empty(); }
  /// Whether prefill ranks send KV when it is computed; otherwise the decode instance fetches it.
  bool pushes() const { return grain_ != HandoffGrain::fetched; }

  /// KV of the prompt of a request.
  struct Transfer {
    std::uint32_t request = 0;
    KvEnd from, to;
    std::uint64_t begin = 0;   ///< tokens before this one are there already
    std::uint64_t prompt = 0;  ///< tokens
  };
  /// Each prefill rank sends its share of a prompt's tokens. The prompt has been computed.
  void fetch(const Transfer& transfer);

  /// The request has been cancelled in both instances. Copies under way run on, and nobody waits for them.
  void cancel(std::uint32_t request);

  // Pushed KV: expect() before the prompt is in a batch, composed() and on_attention_emitted() for each batch, computed()
  // when the prompt has its first token.
  void expect(const Transfer& transfer);
  void composed(const Instance& instance, std::uint32_t pass, const ScheduledBatch& batch);
  /// Rank (stage, t) has the KV of a layer when `job` is done. Emits the copies that are complete at that time.
  void on_attention_emitted(const Instance& instance, std::uint32_t pass, std::uint32_t stage, std::uint32_t t,
                            std::uint32_t layer, JobRef job);
  void computed(std::uint32_t request);

 private:
  static constexpr std::uint32_t kWhole = ~0u;
  /// Tokens of a prompt that are sent together.
  struct Part {
    std::uint32_t request = 0;
    KvEnd from, to;
    std::uint32_t chunk = kWhole;  ///< number among the chunks of the prompt
    std::uint32_t pass = 0;        ///< of the instance `from`, that computes the chunk
    HandoffPlan::Tokens tokens;
    std::uint32_t left = 0;  ///< copies and posts under way
    bool is_cancelled = false;
    std::vector<Time> earliest;  ///< fetched: by prefill rank, when its copy may begin
    /// Of the latest copy of a prefill rank: its own times, and that of the kernel before it.
    struct Staged {
      Time gathered, wire, alone;
    };
    std::map<std::uint32_t, Staged> staged;
  };
  struct Prompt : Transfer {
    std::uint64_t sent = 0;    ///< tokens that parts contain, or that need not be sent
    std::uint32_t chunks = 0;  ///< in batches
    std::uint32_t left = 0;    ///< copies under way
    std::uint32_t posts = 0;   ///< of reads, under way
    bool meets = false;        ///< its instances
    bool is_computed = false;
    Time computed;  ///< when that was known
    KvMoved moved;
    std::vector<Time> posted;  ///< pushed: by prefill rank, time of its posts
    /// Of all messages, for ports while a class had their lines.
    std::map<std::pair<const transport::PortCounters*, std::uint8_t>, Time> waits;
  };
  struct Way {
    HandoffPlan plan;
    KvSends sends;
  };
  // Handoff_PP[p]_TP[t]; KvPost_PP[p]_TP[t] of the rank that posts; KvGather_PP[p]_TP[t] and KvScatter_PP[p]_TP[t]. t counts the ranks of a
  // stage over all replicas. With _Chunk[c], _Layer[l] and _Req[n] as far as they apply, and the instances if there are several of
  // a role: _FromInst[a]_ToInst[b].
  enum What : std::uint8_t { kCopy, kPost, kGather, kScatter };
  struct Fields {
    /// rank, source: p*tp+t of a replica.
    std::uint64_t part : 29, rank : 10, source : 10, layer : 12, per_layer : 1, what : 2;  ///< source: of a scatter
  };

  Way& way(const Instance& from, const Instance& to);
  bool is_per_layer() const { return grain_ == HandoffGrain::per_layer; }
  /// No copy from one to the other is asked for, or becomes complete, before.
  Time next_sent(const Instance& from, const Instance& to);
  /// Time of a thread for these descriptors.
  Time posting(std::uint64_t descriptors) const {
    return Time::seconds(static_cast<double>(descriptors) * connector_.descriptor_us * 1e-6);
  }
  Part& part(std::uint32_t number) { return parts_[number - first_part_]; }
  const Part& part(std::uint32_t number) const { return parts_[number - first_part_]; }
  /// Forgets parts that have arrived.
  void forget();
  bool is_staged(const Part& part, std::uint32_t from_rank, const HandoffPlan::Share& share) const;
  /// Shares of a part, of these layers, that are staged and not empty.
  std::vector<HandoffPlan::Share> staged(const Part& part, std::uint32_t from_rank, std::uint32_t first_layer,
                                         std::uint32_t last_layer);
  /// The same, of the copy with this label.
  std::vector<HandoffPlan::Share> staged_of(const Fields& fields);
  /// Emits the kernel that brings so many bytes to a buffer of the rank (kGather), or from there to their blocks (kScatter).
  JobRef stage(const KvEnd& end, Fields fields, Bytes bytes, const std::vector<JobRef>& after);
  /// Sends a rank's share of the layers [first_layer, last_layer) of a part.
  void emit(Fields fields, std::uint32_t first_layer, std::uint32_t last_layer, const std::vector<JobRef>& after);
  /// Descriptors of a share of the layers [first, last) of a part.
  std::uint64_t descriptors(const Part& part, std::uint32_t from_rank, const HandoffPlan::Share& share,
                            std::uint32_t first_layer, std::uint32_t last_layer) const;
  /// Pieces of memory of a block in the layers [first, last) of a share. @param is_whole  the share has all heads of both ranks
  std::uint64_t regions(const Grid& from, const HandoffPlan::Share& share, std::uint32_t first_layer,
                        std::uint32_t last_layer, bool is_whole) const;
  /// Blocks of a part's tokens, or runs of them that are neighbours on both sides.
  std::uint64_t blocks(const Part& part, bool merges) const;
  /// Whether a share has all heads of both ranks.
  static bool is_whole(const Grid& from, const Grid& to, std::uint32_t from_rank, const HandoffPlan::Share& share) {
    return share.heads == from.kv().heads(from_rank % from.tp()).count() &&
           share.heads == to.kv().heads(share.decode_rank % to.tp()).count();
  }
  /// Emits the work of the thread of a rank that posts. @return no job if it takes no time
  std::vector<JobRef> post(Rank& rank, Fields fields, std::uint64_t descriptors, const std::vector<JobRef>& after);
  void on_posted(std::uint32_t request);
  /// Time of the handshake of each rank of `to`: for each rank from which it reads, the metadata, and descriptors of all its KV cache.
  /// Pushed: of each rank of `from`, for those to which it writes.
  std::vector<Time> handshakes(const KvEnd& from, const KvEnd& to);
  /// Pushed: time in which each rank of `to` gets the metadata of those that write to it, so that it can announce its blocks.
  std::vector<Time> announcements(const KvEnd& from, const KvEnd& to);
  void on_met(const KvEnd& from, const KvEnd& to) override;
  void check_arrived(std::uint32_t request);

  void on_job_begun(const Job& job) override;
  void on_copy_waited(const Job& job, const transport::PortCounters& port, std::uint8_t traffic_class,
                      Time time) override;
  void on_job_done(const Job& job) override;
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t arguments) const override {
    return JobLabel::fields_of<Fields>(arguments).what == kPost ? "host" : "kv";
  }
  Recorded recorded(std::uint64_t arguments) const override;
  HostWork host_work(std::uint64_t) const override { return HostWork::posts; }

  HandoffGrain grain_;
  KvConnector connector_;
  bool names_requests_;
  Executor& executor_;
  KvExchangeClient& client_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Way> ways_;  ///< by the ids of two instances
  std::unordered_map<std::uint32_t, Prompt> prompts_;            ///< whose KV has not arrived
  std::optional<KvLoads> loads_;
  std::optional<KvContacts> contacts_;
  std::vector<std::vector<gpu::Stream*>> staging_streams_;  ///< by instance and rank
  std::deque<Part> parts_;        ///< with copies under way; those of the latest pass are at the end
  std::uint32_t first_part_ = 0;  ///< number of the oldest one
};

}  // namespace railyard::workload::inference
