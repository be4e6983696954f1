// The work that a generator emits and devices execute. A job is a chain of kernels, one member of a collective, a copy
// (one or more messages), one side of an exchange between two ranks, work of a host, a delay, or a wait until the
// fabric is quiet. A job belongs to a stream of a rank. A job can wait for jobs of other streams. Job objects are
// reused.
//
// A copy leaves its stream when its messages are posted; it is done when its last byte has arrived.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "collective/collective.h"
#include "execution/job_label.h"
#include "execution/rank.h"

namespace railyard::execution {

struct CopyTarget {
  transport::Window destination = 0;  ///< of a read: the memory that is read
  Bytes bytes = 0;
};

/// A kernel that copies instead of a copy engine: each CTA holds an SM from the first byte to the last one.
struct CopyKernel {
  gpu::Gpu* gpu = nullptr;  ///< that runs it
  std::uint32_t ctas = 0;
  gpu::CtaFootprint footprint;
  double bytes_per_s = 0;  ///< of a CTA at most
};

/// Messages from a rank's memory to other memories, or in the opposite direction.
struct Copy {
  std::vector<CopyTarget> transfers;
  std::uint8_t traffic_class = 0;
  transport::Engine engine = transport::Engine::copy_engine;
  transport::MessageKind kind = transport::MessageKind::write;  ///< or read
  bool tells_waits = false;                                     ///< JobClient::on_copy_waited() is called
  std::uint32_t queue_pair = 0;                                 ///< messages of one queue pair keep their order
  Time start{};  ///< time of the engine before the first byte; occupies the stream
  /// Copies instead of a copy engine, and occupies the stream until the bytes have arrived; outlives the copy.
  const CopyKernel* kernel = nullptr;
};

/// A transfer between two members of a communicator.
struct Exchange {
  std::uint32_t from = 0, to = 0;  ///< members
  std::uint64_t tag = 0;
  Bytes bytes = 0;
  transport::Engine engine = transport::Engine::sm;  ///< sm: by kernels on both sides, as in NCCL
};

/// An exchange by copy engines is a `send` and a `receive`; an exchange by SMs is a collective of two members.
enum class JobKind : std::uint8_t { kernel, collective, copy, send, receive, host, delay, quiet };

class Executor;
class Job;
class PassCourse;

/// Jobs that wait for a job, in the order in which they were added. Most jobs have few.
class Dependents {
 public:
  void add(Job& job) {
    if (count_ < kInside)
      inside_[count_] = &job;
    else
      more().push_back(&job);
    ++count_;
  }
  std::uint32_t count() const { return count_; }
  Job& operator[](std::uint32_t i) const { return *(i < kInside ? inside_[i] : (*more_)[i - kInside]); }
  /// Brings them into the cache.
  void fetch() const {
    for (std::uint32_t i = 0; i < std::min(count_, kInside); ++i) __builtin_prefetch(inside_[i]);
  }
  void clear() {
    if (count_ > kInside) more_->clear();
    count_ = 0;
  }

 private:
  std::vector<Job*>& more() {
    if (more_ == nullptr) more_ = std::make_unique<std::vector<Job*>>();
    return *more_;
  }
  static constexpr std::uint32_t kInside = 3;
  std::uint32_t count_ = 0;
  std::array<Job*, kInside> inside_;
  std::unique_ptr<std::vector<Job*>> more_;  ///< made for the first one, and kept
};

/// Kernels of a rank, and the collective before them, which did not run, because their pass was composed.
struct ComposedPart {
  bool has_collective;  ///< false: other kernels end at `ended`, and so `began` and `entered`
  bool has_kernels;     ///< false: another collective follows at once
  Time began;           ///< the collective, on this rank: it waits for the others
  Time entered;         ///< all members entered the collective
  Time ended;           ///< its end on this rank
  Time begun, done;     ///< of the kernels
};

/// The emitter of a job.
class JobClient {
 public:
  virtual void on_job_begun(const Job&) {}
  virtual void on_job_done(const Job&) {}
  /// Links failed, and no path is left for bytes that this job sends.
  /// @return true: the run goes on without these bytes, and on_job_failed() follows. False: the run ends here.
  virtual bool on_cut_off(const Job&) { return false; }
  /// Of a copy that tells waits: MessageClient::on_waited() of one of its messages.
  virtual void on_copy_waited(const Job&, const transport::PortCounters&, std::uint8_t /*traffic_class*/, Time) {}
  /// Called instead of on_job_done(); status() gives the reason. Next, all jobs that wait for this job, directly or
  /// indirectly, are cancelled. The client must not emit more jobs that wait for any of them.
  virtual void on_job_failed(const Job&) {}
  /// Of a pass course, instead of on_job_begun() and on_job_done(): these parts of a rank, one after the other. It was told
  /// that the first collective has begun. The job that runs now is `next`; it begins at its begun_at(), now or later.
  /// @param like  the first member, for which this was called just before with the same parts; null: `next` is that one, or
  /// differs
  virtual void on_composed(const Job& /*next*/, const std::vector<ComposedPart>& /*parts*/, const Job* /*like*/) {}
  /// All members are done without failure. If they were composed, nobody is told. Called after on_job_done() of each member.
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
  Time reached_at() const { return reached_at_; }  ///< it reached the front of its stream
  Time ready_at() const { return ready_at_; }      ///< all jobs for which it waits were done
  Time begun_at() const { return begun_at_; }
  Time duration() const { return duration_; }   ///< of a finished kernel, including slow-down by sharing its GPU
  Bytes bytes() const { return bytes_; }        ///< of a copy: all its messages
  const Copy& copied() const { return copy_; }  ///< of a copy or a send
  /// Of a copy whose bytes have arrived.
  struct Delivery {
    Time uncontended;                                    ///< of the message that takes longest alone
    const transport::PortCounters* waited_at = nullptr;  ///< port for which one of its messages waited longest
    Time waited;
  };
  const Delivery& delivery() const { return delivery_; }
  Time start() const { return copy_.start; }                          ///< of a copy: start time of its engine
  std::uint8_t traffic_class() const { return copy_.traffic_class; }  ///< of a copy or a send
  const collective::Collective* collective() const { return collective_; }
  std::uint32_t member() const { return member_; }
  const gpu::Stream& stream() const { return *stream_; }
  /// Of a kernel job.
  const gpu::SharedChain& kernels() const { return chain_; }
  /// Of a collective, or a kernel that copies: the GPU of its CTAs, and how many they are.
  gpu::Gpu& cta_gpu() const;
  std::uint32_t ctas() const;
  /// The same: are they resident, or do they wait for SMs?
  bool holds_sms() const;
  bool waits_for_sms() const;

 private:
  friend class Executor;
  friend class PassCourse;
  void begin() override;
  void reached() override;
  void ready() override;
  gpu::Activity activity() const override;
  void on_kernel_done() override;
  void on_claim_resident() override;
  void on_event(std::uint32_t tag, std::uint64_t) override {
    if (tag == kPostTag) return post();
    tag == kLandTag ? land() : over();
  }
  void on_delivered(transport::Message& message) override;
  void on_waited(const transport::Message&, const transport::PortCounters& port, std::uint8_t traffic_class,
                 Time time) override {
    client_->on_copy_waited(*this, port, traffic_class, time);
  }
  bool on_cut_off(const transport::Message& message) override;
  void on_undeliverable(transport::Message& message) override;
  std::string name_of(const transport::Message&) const override { return name(); }
  static constexpr std::uint32_t kOverTag = 0, kPostTag = 1, kLandTag = 2;
  void post();           ///< posts the messages; the stream goes on, unless a kernel copies
  void begin_copying();  ///< by a kernel, whose CTAs are resident
  void land();           ///< one of what a copy waits for: its messages, and the time of the kernel that copies
  void cancel();         ///< ends the job without running it
  void done();           ///< notifies, and frees the object
  void over();           ///< like done(), and the stream goes on
  void tell();           ///< notifies the client and the dependents

  // Many jobs wait in streams. What all of them need comes first, in few cache lines; what copies and exchanges need is last.
  Kind kind_ = Kind::kernel;
  Status status_ = Status::ok;
  bool claimed_ = false;
  std::uint32_t member_ = 0;
  Executor* executor_ = nullptr;
  JobClient* client_ = nullptr;
  Rank* rank_ = nullptr;
  gpu::Stream* stream_ = nullptr;
  JobLabel label_;
  std::uint64_t generation_ = 0;
  Dependents dependents_;
  Time reached_at_, ready_at_, begun_at_, duration_;
  gpu::SharedChain chain_;
  Bytes bytes_ = 0;
  collective::Collective* collective_ = nullptr;
  PassCourse* course_ = nullptr;  ///< whose steps it takes, one after the other, as if each were a job
  std::uint32_t step_ = 0;
  gpu::SmArray::Slot claim_ = 0;
  Job* peer_ = nullptr;  ///< the other side of an exchange
  Copy copy_;            ///< also of a send
  std::uint32_t landing_ = 0;
  Delivery delivery_;
};

/// A reference to a job that may be finished. It stays valid after the job object has been reused.
struct JobRef {
  Job* job = nullptr;
  std::uint64_t generation = 0;
};

}  // namespace railyard::execution
