// Decode steps on the decode instance. A step passes through every stage. Its sampled tokens return to the first stage.
// Then the next step of the same requests begins. With pp stages, up to pp steps of different requests are in flight,
// so that all stages can work at the same time, each on a different batch.
//
// Requests whose KV has arrived join the next batch, up to max_batch requests in total, first come first served. If
// fewer than pp batches are in flight, these requests start a new batch at once. A request stays in its group until its
// last token, so requests that decode together stay together, as in vLLM V1's batch queue.
//
// A synchronous host forms the batch of a step when the group's previous step is done. An asynchronous host forms the
// batch when the previous step begins, so that host time overlaps with that step.
#pragma once

#include <deque>
#include <vector>

#include "workload/inference/pipeline.h"
#include "workload/inference/spec.h"

namespace railyard::workload::inference {

class DecodeClient {
 public:
  virtual void on_decode_begun(std::uint32_t request) = 0;
  virtual void on_token(std::uint32_t request) = 0;
  virtual void on_decoded(std::uint32_t request) = 0;

 protected:
  ~DecodeClient() = default;
};

class DecodeScheduler : private PassClient, private JobClient, private JobNamer, private transport::CalendarClient {
 public:
  DecodeScheduler(Instance& instance, const PrefillSpec& spec, Executor& executor, DecodeClient& client);

  /// All KV of the request has arrived. @pre the request has tokens left to decode
  void ready(std::uint32_t request);
  const Pipeline& pipeline() const { return pipeline_; }
  std::uint32_t steps() const { return steps_; }
  /// Sum over steps of the time from a step's start to its tokens. A step starts when it is prepared and the previous
  /// step is done.
  double step_seconds() const { return step_seconds_; }
  std::uint64_t tokens() const { return tokens_; }

 private:
  struct Decoding {
    std::uint32_t request, left;
    std::uint64_t context;
  };  ///< `left`: tokens that no step has been emitted for
  struct Member {
    std::uint32_t request;
    bool first, last;
  };  ///< of a step: is this the request's first step, its last step?
  struct Step {
    std::vector<Member> members;
    Time emitted;
    std::size_t group = 0;
  };
  /// Requests that decode together, one batch at a time.
  struct Group {
    std::vector<Decoding> batch;
    std::vector<JobRef> token_sends;  ///< sampled tokens in flight to stage 0, by t
    std::uint32_t steps = 0, begun = 0, done = 0;
    bool scheduled = false;
  };
  /// Gate of a group. All other gates belong to requests.
  static std::uint32_t step_done(std::size_t group) { return ~static_cast<std::uint32_t>(group); }
  std::size_t decoding() const;
  bool may_step(const Group& group) const;
  void schedule();
  void step(std::size_t group);

  void on_pass_begun(std::uint32_t pass) override;
  void on_attention_emitted(std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, JobRef) override {}
  void on_stage_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, JobRef job) override;
  void on_pass_done(std::uint32_t pass) override;
  // Jobs of the scheduler itself: sampled tokens to the first stage, D_Token_FromP[p]_ToP[0]_TP[t]_Step_[s].
  struct Fields {
    std::uint32_t step;
    std::uint32_t stage : 16, tp : 16;
  };
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "pp"; }
  Recorded recorded(std::uint64_t) const override { return Recorded::stage; }
  void on_event(std::uint32_t tag, std::uint64_t data) override;

  Instance& instance_;
  const PrefillSpec& spec_;
  Executor& executor_;
  DecodeClient& client_;
  Pipeline pipeline_;
  std::deque<Decoding> ready_;
  std::vector<Group> groups_;  ///< one per stage
  std::deque<Step> in_flight_;
  std::uint32_t steps_ = 0, done_ = 0;
  Time step_done_;  ///< end of the latest finished step
  double step_seconds_ = 0;
  std::uint64_t tokens_ = 0;
};

}  // namespace railyard::workload::inference
