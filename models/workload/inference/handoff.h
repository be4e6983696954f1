// The KV handoff between two instances. HandoffPlan lists the KV bytes that each prefill rank sends to each decode
// rank: the layers that their two stages share, times the KV heads that the decode rank needs from that prefill rank.
// If prefill ranks replicate a head, decode ranks are distributed over the replicas. Handoff emits each copy when its
// KV is complete on the prefill rank.
#pragma once

#include <vector>

#include "workload/inference/batch.h"

namespace railyard::workload::inference {

class HandoffPlan {
 public:
  HandoffPlan(const Instance& prefill, const Instance& decode);

  struct Share {
    std::uint32_t decode_rank = 0;
    std::uint32_t heads = 0;
    std::uint32_t first_layer = 0, last_layer = 0;  ///< [first, last), global
  };
  /// Shares that prefill rank p*tp+t sends.
  const std::vector<Share>& shares(std::uint32_t rank) const { return shares_[rank]; }
  /// Tokens [begin, end) of a prompt.
  struct Tokens {
    std::uint64_t begin = 0, end = 0, prompt = 0;
  };
  /// Bytes of a share for these tokens in the layers [first, last). In a layer with a window, only tokens count that
  /// are in the window of the first token after the prompt.
  Bytes bytes(const Share& share, std::uint32_t first, std::uint32_t last, const Tokens& tokens) const;
  Bytes bytes(const Share& share, const Tokens& tokens) const {
    return bytes(share, share.first_layer, share.last_layer, tokens);
  }

 private:
  transformer::ModelShape model_;
  std::vector<std::vector<Share>> shares_;
  Bytes head_bytes_ = 0;  ///< key and value of one token, one layer and one head
};

class HandoffClient {
 public:
  /// A copy of the request has arrived. It was the last copy if done() is true and no part of the prompt is left to
  /// prefill.
  virtual void on_handed_off(std::uint32_t request) = 0;

 protected:
  ~HandoffClient() = default;
};

class Handoff : private JobClient, private JobNamer {
 public:
  /// @param chunks  chunk of each prefill pass, by number; the owner appends it before the pass is emitted
  Handoff(Instance& prefill, Instance& decode, const PrefillSpec& spec, const std::vector<Batch::Chunk>& chunks,
          Executor& executor, HandoffClient& client);

  /// Rank (stage, t) has the KV of a layer when `job` is done. Emits the copies that are complete at that time.
  void on_attention_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t layer, JobRef job);
  /// True if all copies of the request that were emitted have arrived.
  bool done(std::uint32_t request) const { return left_[request] == 0; }

 private:
  // Handoff_PP[p]_TP[t]_Chunk[c]; with _Layer[l] if the handoff is per layer.
  struct Fields {
    std::uint32_t pass : 24, stage : 8;
    std::uint32_t tp : 12, layer : 16, per_layer : 1;
    std::uint32_t : 3;
  };
  /// @param begin  first token of the prompt that is sent
  void emit(Fields fields, std::uint32_t first_layer, std::uint32_t last_layer, std::uint64_t begin, JobRef after);
  bool names_requests() const { return spec_.requests.size() > 1; }

  void on_job_done(const Job& job) override;
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "kv"; }
  Recorded recorded(std::uint64_t arguments) const override;

  Instance& prefill_;
  Instance& decode_;
  const PrefillSpec& spec_;
  const std::vector<Batch::Chunk>& chunks_;
  Executor& executor_;
  HandoffClient& client_;
  HandoffPlan plan_;
  std::vector<std::uint32_t> left_;  ///< copies in flight, by request
};

}  // namespace railyard::workload::inference
