// Prefill on the prefill grid. Admitted prompts become chunks, and chunks become passes. The KV cache that a pass leaves on a rank
// is handed to the decode ranks that need it. Stage 0 receives its next chunk when it begins the chunk before, so that it is never
// idle for lack of a chunk.
#pragma once

#include <deque>
#include <vector>

#include "workload/prefill/handoff_plan.h"
#include "workload/prefill/passes.h"
#include "workload/prefill/spec.h"

namespace railyard::workload::prefill {

class PrefillClient {
 public:
  virtual void on_prefill_begun(std::uint32_t request) = 0;
  virtual void on_first_token(std::uint32_t request) = 0;
  /// After the first token, once the last byte of the prompt's KV is with its decode owners.
  virtual void on_kv_landed(std::uint32_t request) = 0;

 protected:
  ~PrefillClient() = default;
};

class PrefillSide : private PassClient, private JobClient, private JobNamer, private transport::CalendarClient {
 public:
  PrefillSide(Grid& prefill, Grid& decode, const PrefillSpec& spec, Executor& executor, PrefillClient& client);

  /// Prefills a request after those admitted before it.
  void admit(std::uint32_t request);
  const Passes& passes() const { return passes_; }
  std::uint64_t tokens_done() const { return tokens_done_; }

 private:
  struct Chunk {
    std::uint32_t request, index, tokens, start;
    bool last;
  };
  struct Progress {
    std::uint32_t handoffs_left = 0;
    bool first_token = false;
  };

  void schedule();
  void emit(const Chunk& chunk);
  void hand_off(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t first_layer,
                std::uint32_t last_layer, std::uint32_t named_layer, std::uint64_t begin, JobRef after);
  void check_landed(std::uint32_t request);

  void on_pass_begun(std::uint32_t pass) override;
  void on_attention_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t layer,
                            JobRef job) override;
  void on_stage_emitted(std::uint32_t, std::uint32_t, std::uint32_t, JobRef) override {}
  void on_pass_done(std::uint32_t pass) override;
  void on_job_done(const Job& job) override;
  // This side's own jobs: Handoff_PP[p]_TP[t]_Chunk[c], with _Layer[l] when handed off per layer.
  struct Fields {
    std::uint32_t pass : 24, stage : 8;
    std::uint32_t tp : 12, layer : 16, per_layer : 1;
    std::uint32_t : 3;
  };
  static constexpr std::uint32_t kAllLayers = ~0u;
  std::uint32_t request_name(const Chunk& chunk) const;
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "kv"; }
  Recorded recorded(std::uint64_t arguments) const override;
  void on_event(std::uint32_t tag, std::uint64_t data) override;

  Grid& prefill_;
  Grid& decode_;
  const PrefillSpec& spec_;
  Executor& executor_;
  PrefillClient& client_;
  HandoffPlan plan_;
  Passes passes_;
  std::deque<Chunk> waiting_;       ///< admitted, not emitted
  std::vector<Chunk> emitted_;      ///< by pass
  std::uint32_t begun_ = 0;         ///< passes that stage 0 has begun
  std::vector<Progress> progress_;  ///< by request
  bool scheduled_ = false;
  std::uint64_t tokens_done_ = 0;
};

}  // namespace railyard::workload::prefill
