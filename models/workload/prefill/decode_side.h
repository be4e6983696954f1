// The decode grid at work: at each step the requests whose KV has landed form one batch, up to max_batch, first come first
// served; the step passes through every stage, its sampled tokens go back to the first stage, and the next step begins.
//
// The batch of a step is made up when the step before is done; by an asynchronous host when the step before begins, so that its
// own time is hidden behind that step.
#pragma once

#include <deque>
#include <vector>

#include "workload/prefill/passes.h"
#include "workload/prefill/spec.h"

namespace railyard::workload::prefill {

class DecodeClient {
 public:
  virtual void on_decode_begun(std::uint32_t request) = 0;
  virtual void on_token(std::uint32_t request) = 0;
  virtual void on_decoded(std::uint32_t request) = 0;

 protected:
  ~DecodeClient() = default;
};

class DecodeSide : private PassClient, private JobClient, private transport::CalendarClient {
 public:
  DecodeSide(Grid& grid, const PrefillSpec& spec, Dispatcher& dispatcher, JobSink& sink, DecodeClient& client);

  /// All KV of the request is here. @pre it has tokens left to decode
  void ready(std::uint32_t request);
  const Passes& passes() const { return passes_; }
  std::uint32_t steps() const { return steps_; }
  /// What a job of this side is part of, for waveforms: "Step_[3]".
  static std::string work_label(const Job& job) { return "Step_[" + std::to_string(job.tag().run) + "]"; }
  /// Summed over steps: from when a step is prepared, or the one before it is done if that is later, until its tokens.
  double step_seconds() const { return step_seconds_; }
  std::uint64_t tokens() const { return tokens_; }

 private:
  struct Decoding {
    std::uint32_t request, left;
    std::uint64_t context;
  };  ///< `left`: tokens that no step makes yet
  struct Member {
    std::uint32_t request;
    bool first, last;
  };  ///< of a step; its first, its last
  struct Step {
    std::vector<Member> members;
    Time emitted;
  };
  void schedule();
  void step();

  void on_pass_begun(std::uint32_t pass) override;
  void on_attention_emitted(std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, JobRef) override {}
  void on_stage_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, JobRef job) override;
  void on_pass_done(std::uint32_t pass) override;
  void on_job_begun(const Job&) override {}
  void on_job_done(const Job& job) override;
  void on_collective_done(const collective::Collective&, const JobTag&) override {}
  /// Of sampled tokens on their way back: this side's own jobs.
  JobRecord record(const JobTag& tag) const;
  std::string name_of(JobKind, const JobTag& tag) const override { return record(tag).name(); }
  void on_event(std::uint32_t tag, std::uint64_t data) override;

  Grid& grid_;
  const PrefillSpec& spec_;
  Dispatcher& dispatcher_;
  JobSink& sink_;
  DecodeClient& client_;
  Passes passes_;
  std::deque<Decoding> ready_;
  std::vector<Decoding> batch_;
  std::vector<JobRef> token_sends_;  ///< sampled tokens on their way to stage 0, by t
  std::vector<std::uint64_t> context_;
  bool scheduled_ = false;
  std::deque<Step> in_flight_;
  std::uint32_t steps_ = 0, begun_ = 0, done_ = 0;
  Time step_done_;  ///< the latest
  double step_seconds_ = 0;
  std::uint64_t tokens_ = 0;
};

}  // namespace railyard::workload::prefill
