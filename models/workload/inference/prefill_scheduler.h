// Prefill on the prefill instance. Admitted prompts become chunks, and chunks become passes. The KV cache that a pass
// leaves on a rank is handed off to the decode ranks that need it. Stage 0 receives its next chunk when it begins the
// previous chunk, so stage 0 always has a chunk if one is waiting.
#pragma once

#include <deque>
#include <vector>

#include "workload/inference/handoff.h"
#include "workload/inference/pipeline.h"

namespace railyard::workload::inference {

class PrefillClient {
 public:
  virtual void on_prefill_begun(std::uint32_t request) = 0;
  virtual void on_first_token(std::uint32_t request) = 0;
  /// Called after the first token, when the last byte of the prompt's KV has arrived at its decode ranks.
  virtual void on_kv_landed(std::uint32_t request) = 0;

 protected:
  ~PrefillClient() = default;
};

class PrefillScheduler : private PassClient, private HandoffClient, private transport::CalendarClient {
 public:
  PrefillScheduler(Instance& prefill, Instance& decode, const PrefillSpec& spec, Executor& executor,
                   PrefillClient& client);

  /// Prefills a request after all requests that were admitted earlier.
  void admit(std::uint32_t request);
  const Pipeline& pipeline() const { return pipeline_; }
  std::uint64_t tokens_done() const { return tokens_done_; }

 private:
  void schedule();
  void emit(const Batch::Chunk& chunk);
  void check_landed(std::uint32_t request);

  void on_pass_begun(std::uint32_t pass) override;
  void on_attention_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t layer,
                            JobRef job) override {
    handoff_.on_attention_emitted(pass, stage, t, layer, job);
  }
  void on_stage_emitted(std::uint32_t, std::uint32_t, std::uint32_t, JobRef) override {}
  void on_pass_done(std::uint32_t pass) override;
  void on_handed_off(std::uint32_t request) override;
  void on_event(std::uint32_t tag, std::uint64_t data) override;

  Instance& prefill_;
  const PrefillSpec& spec_;
  Executor& executor_;
  PrefillClient& client_;
  Pipeline pipeline_;
  std::deque<Batch::Chunk> waiting_;   ///< admitted, not emitted yet
  std::vector<Batch::Chunk> emitted_;  ///< by pass
  Handoff handoff_;
  std::uint32_t begun_ = 0;        ///< passes that have begun on stage 0
  std::vector<bool> first_token_;  ///< by request: prefill has produced the first token
  bool scheduled_ = false;
  std::uint64_t tokens_done_ = 0;
};

}  // namespace railyard::workload::inference
