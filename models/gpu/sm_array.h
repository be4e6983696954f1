// The SMs of a GPU and the bandwidth of its memory, shared by the kernels that run on it.
//
// A kernel alone takes its KernelTime. Beside others it runs on what it gets: at each change of that, the fraction f of
// it that is done is fixed and the rest takes (1 - f) x T(new share), T being KernelTime::seconds_on().
//
//   SMs        Thread blocks are not preempted. A newly started kernel waits until a kernel that holds more than its
//              share gives SMs up: at the end of a wave, or, if that kernel is persistent, at its end. It does not
//              wait where both fit on an SM by threads, registers and shared memory. Kernels share max-min fairly what
//              claims leave.
//   claims     A collective holds its CTAs from the first instant at which all of them are resident until it ends;
//              waiting for peers is included. Claims come before kernels, in the order in which they were made.
//   bandwidth  Kernels share max-min fairly what the fabric's messages leave of the HBM rate, and the L2 rate. A
//              message's demand is registered when it starts and removed when it ends (memory_traffic.h).
//
// Everything is O(1) events a kernel. A chain of kernels that nobody disturbs is one event.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "gpu/datasheet.h"
#include "gpu/kernels/kernel_chain.h"
#include "transport/device/calendar.h"

namespace railyard::gpu {

class Stream;

/// What an SM array does at an instant, for waveforms.
struct SmState {
  std::uint32_t active_sms = 0;
  double clock_ratio = 1;   ///< of the datasheet's clock; the lowest of the kernels that run
  double hbm_gb_per_s = 0;  ///< of kernels and messages
  double l2_gb_per_s = 0;   ///< of kernels
};

class SmListener {
 public:
  virtual void on_sms(const SmState& state) = 0;
  /// Thread blocks of a stream's kernel or collective that are resident; null: of none's.
  virtual void on_ctas(const Stream* stream, std::uint64_t ctas) = 0;

 protected:
  ~SmListener() = default;
};

/// Who knows what messages read and write in the HBM.
class TrafficSource {
 public:
  /// A kernel begins where nobody looked: set_traffic() says from now on what changes. @return bytes per second until then
  virtual double on_watched() = 0;

 protected:
  ~TrafficSource() = default;
};

class SmClient {
 public:
  /// The chain has run.
  virtual void on_kernel_done() {}
  /// All CTAs of a claim that had to wait are resident.
  virtual void on_claim_resident() {}

 protected:
  ~SmClient() = default;
};

class SmArray : private transport::CalendarClient {
 public:
  using Slot = std::uint32_t;

  /// @param datasheet  outlives it
  SmArray(const GpuDatasheet& datasheet, transport::Calendar& calendar) : sheet_(datasheet), calendar_(calendar) {}

  /// Runs a chain of at least one kernel. The client is told when it is over, after this has returned.
  void run(SharedChain chain, SmClient& client, const Stream* stream = nullptr);
  /// Holds CTAs, one an SM (or all SMs), until release(). The client is told unless they are resident() at once.
  Slot claim(std::uint32_t ctas, const CtaFootprint& footprint, SmClient& client, const Stream* stream = nullptr);
  bool resident(Slot slot) const { return claims_[slot].state == State::running; }
  void release(Slot slot);
  /// Kernels that start from now on run at `ratio` of full speed; one that runs keeps it. @pre 0 < ratio <= 1
  void set_speed(double ratio) { speed_ratio_ = ratio; }
  /// What messages read and write in its HBM from now on. A change of less than 0.5 % of the HBM rate waits for the
  /// next one.
  void set_traffic(double bytes_per_second);
  /// Asked when somebody begins to look; null: set_traffic() says all.
  void set_traffic_source(TrafficSource* source) { source_ = source; }
  /// Kernels run, or somebody listens: traffic matters.
  bool watched() const;

  std::uint32_t count() const { return sheet_.sm.count; }
  /// SMs with work, at most all of them.
  std::uint32_t active() const { return state().active_sms; }

  // Totals since the start, for utilisation and reports.
  double busy_sm_seconds(Time now) const;
  double kernel_bytes(Time now) const;                                   ///< HBM traffic of kernels
  double kernel_seconds() const { return kernel_seconds_; }              ///< of chains that have run
  double kernel_seconds_alone() const { return kernel_seconds_alone_; }  ///< the same with the GPU for each alone
  double claim_wait_seconds() const { return claim_wait_seconds_; }      ///< until claims were resident

  /// Several may listen. Before any kernel.
  void add_listener(SmListener& listener) { listeners_.push_back(&listener); }

 private:
  enum class State : std::uint8_t { free, waiting, running };
  struct Kernel {
    State state = State::free;
    bool alone = false;    ///< no other kernel is there: one event for the whole chain
    double asked_sms = 0;  ///< that somebody waits for
    bool yields = false;   ///< it is at a wave boundary right now
    bool boundary_set = false;
    SharedChain chain;
    SmClient* client = nullptr;
    const Stream* stream = nullptr;
    double speed = 1;
    Time begun;
    std::uint32_t index = 0;  ///< the kernel of the chain that runs ...
    double done = 0;          ///< ... and the fraction of it that was done ...
    Time from;                ///< ... when the share became what it is
    KernelShare share;
    double uncovered_sms = 0;  ///< SMs that no claim and no kernel before it is on: each counts as active once
    std::uint32_t end = 0, boundary = 0, tell = 0;  ///< generations of the events that count
  };
  struct Claim {
    State state = State::free;
    std::uint32_t sms = 0;
    CtaFootprint footprint;
    SmClient* client = nullptr;
    const Stream* stream = nullptr;
    Time asked;
    std::uint64_t order = 0;
  };
  /// How far a kernel has come, and what it has used since `from`.
  struct Progress {
    std::uint32_t index = 0;
    double done = 0;
    double busy_sm_seconds = 0, bytes = 0;
  };

  bool fit(const CtaFootprint& a, std::uint32_t of_a, const CtaFootprint& b, std::uint32_t of_b) const;
  bool fits_beside(const Claim& claim, const KernelTime& kernel) const;
  /// Neither keeps the other off its SMs.
  bool beside(const KernelTime& a, const KernelTime& b) const;
  double wanted(const KernelTime& kernel) const;
  double occupied(const Kernel& kernel, const KernelTime& running) const;
  /// SMs that claims leave to a kernel.
  double room_for(const KernelTime& kernel) const;
  double claimed_sms() const;

  /// What a kernel of the chain takes with the share it has, or, alone, will have.
  double seconds(const Kernel& kernel, std::uint32_t index) const;
  Progress progress(const Kernel& kernel, Time now) const;
  /// Makes a kernel's progress so far final, before its share changes.
  void settle(Kernel& kernel, const Progress& progress, Time now);
  void settle_claims(Time now);
  /// Before claims change: a kernel that runs in an undisturbed chain becomes its current one.
  void catch_up();

  /// Hands out SMs and bandwidth anew, and sets the events that follow.
  void allocate();
  /// @return who is to be told
  std::vector<SmClient*> admit_claims(Time now, const std::vector<Progress>& at);
  /// By slot; SMs below 1: the kernel waits.
  std::vector<KernelShare> share_sms(const std::vector<Progress>& at);
  /// What messages leave to kernels.
  KernelShare bandwidth_left() const;
  void share_bandwidth(const std::vector<Progress>& at, std::vector<KernelShare>& given) const;
  double held(const Kernel& kernel, const KernelTime& running) const {
    return std::min(kernel.share.sms, wanted(running));
  }
  static bool may_move(const Kernel& kernel, const Progress& at);
  const KernelTime& running(std::size_t slot, const std::vector<Progress>& at) const {
    return kernels_[slot].chain->kernels[at[slot].index];
  }
  /// Sets the events of a kernel whose share has just been settled.
  void plan(Kernel& kernel);
  void pause(Kernel& kernel, const Progress& at, Time now);
  void plan_boundary(Kernel& kernel);
  void plan_tell(Kernel& kernel, Time now);
  /// Until the SMs that it is asked for have come to the end of a CTA.
  double seconds_to_boundary(const Kernel& kernel, double done) const;
  void set(Time when, std::uint32_t tag, const Kernel& kernel, std::uint32_t generation);
  void on_event(std::uint32_t tag, std::uint64_t data) override;
  void on_end(Kernel& kernel);
  SmState state() const;
  void tell();
  void tell_ctas(const Stream* stream, std::uint64_t ctas) const;

  const GpuDatasheet& sheet_;
  transport::Calendar& calendar_;
  std::vector<Kernel> kernels_;  ///< by slot
  std::vector<Claim> claims_;    ///< by slot
  std::uint64_t claims_so_far_ = 0;
  double speed_ratio_ = 1;
  double traffic_ = 0, traffic_shared_ = 0;  ///< bytes per second: now, and as kernels have been told
  TrafficSource* source_ = nullptr;
  Time claims_since_;
  double claim_busy_ = 0, kernel_busy_ = 0, kernel_bytes_ = 0;
  double kernel_seconds_ = 0, kernel_seconds_alone_ = 0, claim_wait_seconds_ = 0;
  std::vector<SmListener*> listeners_;
};

/// HBM as a capacity: what is allocated and the most there ever was.
class Hbm {
 public:
  explicit Hbm(Bytes capacity) : capacity_(capacity) {}
  void allocate(Bytes bytes) {
    used_ += bytes;
    peak_ = std::max(peak_, used_);
  }
  void free(Bytes bytes) { used_ -= bytes; }
  Bytes capacity() const { return capacity_; }
  Bytes used() const { return used_; }
  Bytes peak() const { return peak_; }

 private:
  Bytes capacity_, used_ = 0, peak_ = 0;
};

}  // namespace railyard::gpu
