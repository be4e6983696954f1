// Jobs and the dispatcher: what a workload generator emits and what devices execute. A job is a chain of kernels, one member of
// a collective, a send (one or more messages), work of a host or a delay; it belongs to a stream of a rank, and it may wait for jobs of other
// streams.
// The dependency may be declared late, as long as the job has not begun. Job objects are reused when their job is done.
//
// A send leaves its stream as soon as it is posted; it is done when its last byte has landed.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "collective/collective.h"
#include "gpu/gpu.h"
#include "gpu/stream.h"
#include "workload/job_listener.h"

namespace railyard::workload {

/// What a job means to its generator; the dispatcher only hands it back.
struct JobTag {
  std::uint32_t run = 0;  ///< which chunk or step, by the generator's own count
  std::uint16_t stage = 0;
  std::uint16_t tp = 0;
  std::uint16_t layer = 0;           ///< global
  std::uint8_t what = 0;             ///< the generator's own kinds
  bool first = false, last = false;  ///< of the run's jobs on this rank
};

/// A rank's place to run: its GPU and its streams on it.
struct RankDevice {
  gpu::Gpu* gpu = nullptr;
  gpu::Stream compute;  ///< kernels and tensor-parallel collectives
  gpu::Stream pp;       ///< pipeline sends
  gpu::Stream kv;       ///< KV-cache handoffs
  gpu::Stream host;     ///< the host that launches its kernels
};

struct Transfer {
  transport::Window destination = 0;
  Bytes bytes = 0;
};

enum class JobKind : std::uint8_t { kernel, collective, send, host, delay };

class Dispatcher;
class Job;

class JobClient {
 public:
  virtual void on_job_begun(const Job& job) = 0;
  virtual void on_job_done(const Job& job) = 0;
  /// All members are done; told after their own on_job_done.
  virtual void on_collective_done(const collective::Collective& collective, const JobTag& tag) = 0;
  /// As in outputs, for errors; empty where there is nothing to say.
  virtual std::string name_of(JobKind, const JobTag&) const { return {}; }

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
  std::string name() const { return client_->name_of(kind_, tag_); }
  const JobTag& tag() const { return tag_; }
  Time reached_at() const { return reached_at_; }  ///< its stream got to it
  Time ready_at() const { return ready_at_; }      ///< it waited for nothing but its turn
  Time begun_at() const { return begun_at_; }
  Time duration() const { return duration_; }  ///< of a kernel that is done, with all that it shared its GPU with
  Bytes bytes() const { return bytes_; }       ///< send: all its messages
  const collective::Collective* collective() const { return collective_; }
  std::uint32_t member() const { return member_; }
  const gpu::Stream& stream() const { return *stream_; }
  /// Of a kernel.
  const gpu::SharedChain& kernels() const { return chain_; }
  /// Of a collective: its CTAs are resident, or not yet.
  bool holds_sms() const;
  bool waits_for_sms() const;

 private:
  friend class Dispatcher;
  void begin() override;
  void reached() override;
  void ready() override;
  gpu::Activity activity() const override;
  void on_kernel_done() override;
  void on_claim_resident() override;
  void on_event(std::uint32_t, std::uint64_t) override { over(); }
  void on_delivered(transport::Message& message) override;
  std::string name_of(const transport::Message&) const override { return name(); }
  void done();  ///< tells, and the object is free
  void over();  ///< the same, and the stream goes on
  void tell();  ///< the client and whoever waits

  Dispatcher* dispatcher_ = nullptr;
  JobClient* client_ = nullptr;
  RankDevice* device_ = nullptr;
  JobTag tag_;
  Kind kind_ = Kind::kernel;
  Time reached_at_, ready_at_, begun_at_, duration_;
  gpu::Stream* stream_ = nullptr;
  gpu::SharedChain chain_;
  gpu::SmArray::Slot claim_ = 0;
  collective::Collective* collective_ = nullptr;
  std::uint32_t member_ = 0;
  std::vector<Transfer> transfers_;
  Bytes bytes_ = 0;
  std::uint32_t landing_ = 0;
  std::uint8_t traffic_class_ = 0;
  std::vector<Job*> dependents_;
  std::uint64_t generation_ = 0;
};

/// A job that may be over: safe to keep after its object has been reused.
struct JobRef {
  Job* job = nullptr;
  std::uint64_t generation = 0;
};

class Dispatcher : private collective::CollectiveClient {
 public:
  explicit Dispatcher(transport::Fabric& fabric) : fabric_(fabric), collectives_(fabric) {}

  JobRef kernel(RankDevice& device, gpu::Stream& stream, gpu::SharedChain chain, const JobTag& tag, JobClient& client,
                const std::vector<JobRef>& after = {});
  /// Keeps a stream for so long, and nothing else.
  JobRef delay(RankDevice& device, gpu::Stream& stream, Time duration, const JobTag& tag, JobClient& client,
               const std::vector<JobRef>& after = {});
  /// The same, as work of host software.
  JobRef host(RankDevice& device, gpu::Stream& stream, Time duration, const JobTag& tag, JobClient& client,
              const std::vector<JobRef>& after = {});
  /// One job on a stream of every member, the compute stream unless another is named; member i's tag has tp = i.
  void collective(const std::vector<RankDevice*>& devices, const collective::Group& group,
                  const collective::CollectiveSpec& spec, collective::ReuseTable* reuse, const JobTag& tag,
                  JobClient& client, std::vector<JobRef>& jobs,
                  const std::vector<JobRef>& after = {},  // after[i]: what member i waits for
                  gpu::Stream RankDevice::*stream = &RankDevice::compute);
  JobRef send(RankDevice& device, gpu::Stream& stream, const std::vector<Transfer>& transfers,
              std::uint8_t traffic_class, const JobTag& tag, JobClient& client, const std::vector<JobRef>& after);

  /// Before the first job. Both outlive the dispatcher or its run.
  void follow(JobListener& jobs, collective::CauseListener& causes) {
    listener_ = &jobs;
    collectives_.follow(causes);
  }
  // What generators tell whoever follows, where they count down themselves and what metrics measure (job_listener.h).
  void reached(const void* owner, std::uint32_t gate) const {
    if (listener_ != nullptr) listener_->on_reached(owner, gate);
  }
  void passed(const void* owner, std::uint32_t gate) const {
    if (listener_ != nullptr) listener_->on_passed(owner, gate);
  }
  void arrived() const {
    if (listener_ != nullptr) listener_->on_arrived();
  }
  void measure(const char* metric, std::uint32_t number) const {
    if (listener_ != nullptr) listener_->on_measure_begun(metric, number);
  }
  void measured(const char* metric, std::uint32_t number, std::uint32_t parts = 1) const {
    if (listener_ != nullptr) listener_->on_measured(metric, number, parts);
  }

  transport::Fabric& fabric() { return fabric_; }
  std::size_t live() const { return live_; }
  std::uint64_t jobs() const { return jobs_; }
  /// Where a run stands still: collectives whose CTAs wait for SMs, who holds those, and a cycle among them.
  std::vector<std::string> sm_waits() const;

 private:
  friend class Job;
  struct Run {
    std::vector<Job*> jobs;  ///< by member
    JobTag tag;
    JobClient* client = nullptr;
  };
  Job& acquire(Job::Kind kind, RankDevice& device, gpu::Stream& stream, const JobTag& tag, JobClient& client);
  JobRef keep(Job::Kind kind, RankDevice& device, gpu::Stream& stream, Time duration, const JobTag& tag,
              JobClient& client, const std::vector<JobRef>& after);
  JobRef push(Job& job, const std::vector<JobRef>& after);
  void release(Job& job);
  static void depend(Job& job, const JobRef& on);
  static JobRef ref(Job& job) { return {&job, job.generation_}; }

  void on_member_done(collective::Collective& collective, std::uint32_t member) override;
  void on_collective_done(collective::Collective& collective) override;
  std::string name_of(const collective::Collective& collective) const override;

  transport::Fabric& fabric_;
  collective::CollectivePool collectives_;
  std::deque<Job> storage_;
  std::vector<Job*> free_;
  std::deque<Run> runs_;
  std::vector<std::uint32_t> free_runs_;
  std::size_t live_ = 0;
  std::uint64_t jobs_ = 0;
  JobListener* listener_ = nullptr;
};

}  // namespace railyard::workload
