// Moves the KV cache of whole prompts from one instance to another, when the receiver asks for it.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "workload/inference/handoff.h"

namespace railyard::workload::inference {

class KvTransferClient {
 public:
  /// All KV of a request has arrived.
  virtual void on_kv_arrived(std::uint32_t request) = 0;

 protected:
  ~KvTransferClient() = default;
};

class KvTransfer : private JobClient, private JobNamer {
 public:
  KvTransfer(Instance& from, Instance& to, Executor& executor, KvTransferClient& client)
      : from_(from), executor_(executor), client_(client), plan_(from, to), to_(to) {}

  /// Each rank sends its part of these tokens, in its stream of handoffs. If no rank has a part, the KV has arrived.
  void send(std::uint32_t request, const HandoffPlan::Tokens& tokens);
  const HandoffPlan& plan() const { return plan_; }

 private:
  // Handoff_PP[p]_TP[t]_Req[n]
  struct Fields {
    std::uint32_t request;
    std::uint32_t stage : 16, tp : 16;
  };
  void on_job_done(const Job& job) override;
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override { return work(arguments); }
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "kv"; }
  Recorded recorded(std::uint64_t) const override { return Recorded::stage; }

  Instance& from_;
  Executor& executor_;
  KvTransferClient& client_;
  HandoffPlan plan_;
  Instance& to_;
  std::unordered_map<std::uint32_t, std::uint32_t> left_;  ///< copies under way, by request
};

}  // namespace railyard::workload::inference
