// What a workload generator emits and devices execute. A job is a chain of kernels, one member of a collective, a copy
// (one or more messages), one side of an exchange between two ranks, work of a host, a delay, or a wait until the fabric is quiet. A job belongs to a stream of
// a rank and may wait for jobs of other streams. Job objects are reused when their job is done.
//
// A copy leaves its stream as soon as its messages are posted; it is done when its last byte has landed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "collective/collective.h"
#include "execution/job_label.h"
#include "execution/rank.h"

namespace railyard::execution {

struct Transfer {
  transport::Window destination = 0;
  Bytes bytes = 0;
};

/// Messages from a rank's memory to others.
struct Copy {
  std::vector<Transfer> transfers;
  std::uint8_t traffic_class = 0;
  transport::Engine engine = transport::Engine::copy_engine;
  std::uint32_t channel = 0;  ///< a queue pair: messages of one channel keep their order
  Time start{};               ///< of the engine, before the first byte; its stream is held
};

/// A transfer between two members of a communicator.
struct Exchange {
  std::uint32_t from = 0, to = 0;  ///< members
  std::uint64_t tag = 0;
  Bytes bytes = 0;
  transport::Engine engine = transport::Engine::sm;  ///< sm: by kernels on both sides, as NCCL does
};

/// An exchange by copy engines is a `send` and a `receive`; one by SMs is a collective of two members.
enum class JobKind : std::uint8_t { kernel, collective, copy, send, receive, host, delay, quiet };

class Executor;
class Job;

/// Who emitted a job.
class JobClient {
 public:
  virtual void on_job_begun(const Job&) {}
  virtual void on_job_done(const Job&) {}
  /// Links were lost, and bytes that this job sends have no way left.
  /// @return whether the run goes on without them; on_job_failed() follows. False: the run ends here.
  virtual bool on_cut_off(const Job&) { return false; }
  /// Instead of on_job_done(); status() says why. Whatever waits for the job is cancelled next, through its own dependents to
  /// the last; the client emits nothing more that waits for any of them.
  virtual void on_job_failed(const Job&) {}
  /// All members are done, and none has failed; called after on_job_done() of each.
  virtual void on_collective_done(const collective::Collective&, const JobLabel&) {}

 protected:
  ~JobClient() = default;
};

class Job final : public gpu::Task,
                  private gpu::SmClient,
                  private transport::MessageClient,
                  private transport::CalendarClient {
 public:
  using Kind = JobKind;

  Kind kind() const { return kind_; }
  const JobLabel& label() const { return label_; }
  Status status() const { return status_; }
  std::string name() const { return label_.name(); }
  const Rank& rank() const { return *rank_; }
  Time reached_at() const { return reached_at_; }  ///< its stream got to it
  Time ready_at() const { return ready_at_; }      ///< it waited for nothing but its turn
  Time begun_at() const { return begun_at_; }
  Time duration() const { return duration_; }  ///< of a kernel that is done, with all that it shared its GPU with
  Bytes bytes() const { return bytes_; }       ///< copy: all its messages
  Time start() const { return copy_.start; }   ///< copy: of its engine
  std::uint8_t traffic_class() const { return copy_.traffic_class; }  ///< copy or send
  const collective::Collective* collective() const { return collective_; }
  std::uint32_t member() const { return member_; }
  const gpu::Stream& stream() const { return *stream_; }
  /// Of a kernel.
  const gpu::SharedChain& kernels() const { return chain_; }
  /// Of a collective: its CTAs are resident, or not yet.
  bool holds_sms() const;
  bool waits_for_sms() const;

 private:
  friend class Executor;
  void begin() override;
  void reached() override;
  void ready() override;
  gpu::Activity activity() const override;
  void on_kernel_done() override;
  void on_claim_resident() override;
  void on_event(std::uint32_t, std::uint64_t) override { kind_ == Kind::copy ? post() : over(); }
  void on_delivered(transport::Message& message) override;
  bool on_cut_off(const transport::Message& message) override;
  void on_undeliverable(transport::Message& message) override;
  std::string name_of(const transport::Message&) const override { return name(); }
  void post();    ///< messages; the stream goes on
  void cancel();  ///< instead of doing anything
  void done();    ///< tells, and the object is free
  void over();    ///< the same, and the stream goes on
  void tell();    ///< the client and whoever waits

  Executor* executor_ = nullptr;
  JobClient* client_ = nullptr;
  Rank* rank_ = nullptr;
  JobLabel label_;
  Kind kind_ = Kind::kernel;
  Status status_ = Status::ok;
  Time reached_at_, ready_at_, begun_at_, duration_;
  gpu::Stream* stream_ = nullptr;
  gpu::SharedChain chain_;
  gpu::SmArray::Slot claim_ = 0;
  bool claimed_ = false;
  collective::Collective* collective_ = nullptr;
  std::uint32_t member_ = 0;
  Copy copy_;  ///< of a send, too
  Bytes bytes_ = 0;
  std::uint32_t landing_ = 0;
  Job* peer_ = nullptr;  ///< other side of an exchange
  std::vector<Job*> dependents_;
  std::uint64_t generation_ = 0;
};

/// A job that may be over: safe to keep after its object has been reused.
struct JobRef {
  Job* job = nullptr;
  std::uint64_t generation = 0;
};

}  // namespace railyard::execution
