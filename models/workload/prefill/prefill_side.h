// The prefill grid at work: admitted prompts become chunks, chunks become passes, and what a pass leaves in a rank's KV cache
// is handed to its decode owners. Stage 0 is given its next chunk when it begins the last one, so that it never runs dry.
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

class PrefillSide : private PassClient, private JobClient, private transport::CalendarClient {
 public:
  PrefillSide(Grid& prefill, Grid& decode, const PrefillSpec& spec, Dispatcher& dispatcher, JobSink& sink,
              PrefillClient& client);

  /// Prefills a request after those admitted before it.
  void admit(std::uint32_t request);
  const Passes& passes() const { return passes_; }
  std::uint64_t tokens_done() const { return tokens_done_; }
  /// What a job of this side is part of, for waveforms: "Chunk[3]", with "_Req[n]" where a run has several.
  std::string work_label(const Job& job) const;

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
  void on_job_begun(const Job&) override {}
  void on_job_done(const Job& job) override;
  void on_collective_done(const collective::Collective&, const JobTag&) override {}
  /// Of a handoff: this side's only jobs.
  JobRecord record(const JobTag& tag) const;
  std::string name_of(JobKind, const JobTag& tag) const override { return record(tag).name(); }
  void on_event(std::uint32_t tag, std::uint64_t data) override;

  Grid& prefill_;
  Grid& decode_;
  const PrefillSpec& spec_;
  Dispatcher& dispatcher_;
  JobSink& sink_;
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
