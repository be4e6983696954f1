// The SMs of a GPU and the bandwidth of its memory, shared by the kernels that run on it.
//
// A kernel alone takes its KernelTime. Beside other kernels it runs on its share of the GPU. When the share changes,
// the fraction f of its work that is done stays done, and the rest takes (1 - f) x T(new share), with T =
// KernelTime::seconds_on().
//
//   SMs        Thread blocks are not preempted. A newly started kernel waits until a kernel that holds more than its
//              share gives SMs up: at the end of a wave, or, if that kernel is persistent, at its end. It does not
//              wait if both fit on an SM by threads, registers and shared memory. Kernels share the SMs that claims
//              leave max-min fairly.
//   claims     A collective holds its CTAs from the first instant at which all of them are resident until it ends. This
//              includes the time it waits for peers. Claims come before kernels, in the order in which they were made. A
//              claim of a stream of high priority gets SMs at the end of a wave. A claim of normal priority stands behind
//              the thread blocks of all kernels that began before it: blocks of equal priority start in the order in
//              which their kernels reached the front of their streams (Amert et al., GPU scheduling on the NVIDIA TX2,
//              RTSS 2017, section 3). Such a claim gets SMs when these kernels have ended; it does not use SMs that
//              their last waves leave free. Later kernels of their chains come behind the claim, and so do kernels
//              that begin at the same instant. Kernels whose blocks all run already are in no claim's way: their free
//              SMs are free.
//   bandwidth  Messages of the fabric take their part of the HBM rate and of the L2 rate first; kernels share the rest
//              max-min fairly. The demand of a message is added when it starts and removed when it ends
//              (memory_traffic.h).
//
// The cost is O(1) events per kernel. A chain of kernels that runs undisturbed is one event.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/units.h"
#include "gpu/kernels/kernel_chain.h"
#include "gpu/stream.h"
#include "transport/device/calendar.h"

namespace railyard::gpu {

struct GpuDatasheet;

/// What an SM array does at an instant, for waveforms.
struct SmState {
  std::uint32_t active_sms = 0;
  double clock_ratio = 1;   ///< share of the datasheet's clock; the lowest among the running kernels
  double hbm_gb_per_s = 0;  ///< kernels and messages
  double l2_gb_per_s = 0;   ///< kernels and messages
  double watts = 0;         ///< of the board (energy.h); 0: not known
};

class SmListener {
 public:
  virtual void on_sms(const SmState& state) = 0;
  /// Number of resident thread blocks of a stream's kernel or collective. @param stream  null: not on a stream
  virtual void on_ctas(const Stream* stream, std::uint64_t ctas) = 0;
  /// A kernel of a stream's chain runs; called again while it runs.
  virtual void on_kernel(const Stream&, const KernelChain&, [[maybe_unused]] std::uint32_t index) {}

 protected:
  ~SmListener() = default;
};

/// HBM traffic of messages, bytes per second.
struct MessageTraffic {
  MessageTraffic(double rate = 0) : taken(rate), all(rate) {}
  MessageTraffic(double taken, double all) : taken(taken), all(all) {}
  double taken;  ///< from the rates of kernels: at most what the ports carry
  double all;    ///< each message with its own rate, for its own time; so its sum over time is their bytes
  bool operator==(const MessageTraffic& other) const { return taken == other.taken && all == other.all; }
};

/// Knows the HBM traffic of messages.
class TrafficSource {
 public:
  /// A kernel begins on an SM array that was not watched. From now on, set_traffic() must report changes.
  /// @return the current traffic
  virtual MessageTraffic on_watched() = 0;
  /// Whether all traffic from now on is of the collective that was replayed last, until another message or replay begins.
  virtual bool is_of_last_replay() const = 0;
  /// Whether there is no traffic until another message or replay begins.
  virtual bool is_quiet() const = 0;
  /// Messages and replays that have begun.
  virtual std::uint64_t begun() const = 0;

 protected:
  ~TrafficSource() = default;
};

/// Sums over a run.
struct SmTotals {
  double claim_busy = 0, kernel_busy = 0;               ///< SM-seconds of claims and of kernels
  double kernel_bytes = 0;                              ///< HBM traffic of kernels
  double tensor_j = 0;                                  ///< KernelTime::tensor_j
  double kernel_seconds = 0, kernel_seconds_alone = 0;  ///< of completed chains, and if each had the GPU alone
  double claim_wait_seconds = 0;                        ///< until claims were resident
  bool operator==(const SmTotals& other) const {
    return claim_busy == other.claim_busy && kernel_busy == other.kernel_busy && kernel_bytes == other.kernel_bytes &&
           tensor_j == other.tensor_j && kernel_seconds == other.kernel_seconds &&
           kernel_seconds_alone == other.kernel_seconds_alone && claim_wait_seconds == other.claim_wait_seconds;
  }
};
/// What is added to the totals, in this order: a sum of floating-point numbers depends on it.
using SmLog = std::vector<std::pair<double SmTotals::*, double>>;

class SmClient {
 public:
  /// The chain of kernels is complete.
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

  /// Runs a chain of at least one kernel. on_kernel_done() follows later, never during this call.
  void run(SharedChain chain, SmClient& client, const Stream* stream = nullptr);
  /// Holds CTAs, one per SM (at most all SMs), until release(). on_claim_resident() follows unless they are resident()
  /// at once. @param stream  with the claim's priority; null: high
  Slot claim(std::uint32_t ctas, const CtaFootprint& footprint, SmClient& client, const Stream* stream = nullptr);
  bool resident(Slot slot) const { return claims_[slot].state == State::running; }
  void release(Slot slot);
  /// Kernels that start from now on run at `ratio` of full speed; a running kernel keeps its speed. @pre 0 < ratio <= 1
  void set_speed(double ratio) {
    expect_present();
    speed_ratio_ = ratio;
  }
  double speed() const { return speed_ratio_; }
  /// The clock as a share of the highest, for energy only. Before the first kernel. @pre 0 < ratio <= 1
  void set_energy_clock(double ratio) { energy_clock_ = ratio; }
  double energy_clock() const { return energy_clock_; }
  const GpuDatasheet& datasheet() const { return sheet_; }
  // Kernels and claims of a pass that is composed (execution/pass_course.h) are added without running.
  /// From now on, what is added to the totals is kept, too. @return false, and nothing is kept, if the array is not idle, or
  /// other messages than those of the last replay take memory bandwidth
  bool keep(SmLog& log);
  /// @return whether a chain that began after keep() was alone until now
  bool stop_keeping();
  /// Whether nothing but this claim is on the array.
  bool has_only(Slot claim) const;
  /// Whether no message takes memory bandwidth until another one begins.
  bool is_without_traffic() const { return source_ != nullptr && source_->is_quiet(); }
  /// What a chain would add to the totals if it ran alone, without traffic.
  /// @param took  set to its time
  /// @return false: rounding of its times would matter, and the log is not valid
  bool foresee(const SharedChain& chain, SmLog& log, Time& took) const;
  /// Whether kernels take the same time on the other array.
  bool is_like(const SmArray& other) const { return &sheet_ == &other.sheet_ && speed_ratio_ == other.speed_ratio_; }
  void add(const SmLog& log) {
    for (const auto& [sum, more] : log) totals_.*sum += more;
  }
  const SmTotals& totals() const { return totals_; }
  void set_totals(const SmTotals& totals) { totals_ = totals; }
  /// CTAs that were held alone in this interval.
  void add_claim(std::uint32_t ctas, Time from, Time until) {
    totals_.claim_busy += std::min(ctas, count()) * since(until, from).seconds();
  }
  /// Since when the claims have been those of now.
  Time claims_since() const { return claims_since_; }
  /// The only claim is made at `from` instead, now or later, for these CTAs; nothing else may come before.
  void move_claim(Slot slot, std::uint32_t ctas, const CtaFootprint& footprint, Time from);
  /// @throws std::logic_error amid such a pass
  void expect_present() const;
  /// HBM traffic of messages from now on. A change of less than 0.5 % of the HBM rate takes effect with the next
  /// change.
  void set_traffic(const MessageTraffic& traffic);
  /// Asked for the traffic when the array begins to be watched; null: set_traffic() reports every change.
  void set_traffic_source(TrafficSource* source) { source_ = source; }
  /// Whether a kernel is present or a listener is attached. Traffic matters only then.
  bool watched() const;
  bool has_listeners() const { return !listeners_.empty(); }

  std::uint32_t count() const;
  /// SMs with work.
  std::uint32_t active() const { return state().active_sms; }

  // Totals since the start, for utilisation and reports.
  double busy_sm_seconds(Time now) const;
  double kernel_bytes(Time now) const;                                          ///< HBM traffic of kernels
  double tensor_j(Time now) const;                                              ///< KernelTime::tensor_j
  double kernel_seconds() const { return totals_.kernel_seconds; }              ///< time of completed chains
  double kernel_seconds_alone() const { return totals_.kernel_seconds_alone; }  ///< the same if each had the GPU alone
  double claim_wait_seconds() const { return totals_.claim_wait_seconds; }      ///< time until claims were resident

  /// Any number of listeners. Call before the first kernel.
  void add_listener(SmListener& listener) { listeners_.push_back(&listener); }

 private:
  enum class State : std::uint8_t { free, waiting, running };
  struct Kernel {
    State state = State::free;
    bool alone = false;         ///< no other kernel on the GPU: one event for the whole chain
    bool foreseen = false;      ///< it runs later: claims of now do not matter
    double asked_sms = 0;       ///< SMs of this kernel for which a claim or another kernel waits
    bool asked_at_end = false;  ///< a claim stands behind this kernel
    bool yields = false;        ///< the kernel is at a wave boundary now
    bool boundary_set = false, boundary_at_end = false;
    /// Claims of normal priority from this number on stand behind this kernel of the chain.
    std::uint32_t ahead_index = ~0u;
    std::uint64_t ahead_of = 0;
    SharedChain chain;
    SmClient* client = nullptr;
    const Stream* stream = nullptr;
    double speed = 1;
    Time begun;
    std::uint32_t index = 0;  ///< the current kernel of the chain ...
    double done = 0;          ///< ... and its fraction done ...
    Time from;                ///< ... at the last change of the share
    KernelShare share;
    double uncovered_sms = 0;  ///< SMs without a claim or an earlier kernel, so that each SM counts as active once
    std::uint32_t end = 0, boundary = 0, tell = 0;  ///< generations: an event of an older generation is ignored
  };
  struct Claim {
    State state = State::free;
    std::uint32_t sms = 0;
    CtaFootprint footprint;
    SmClient* client = nullptr;
    const Stream* stream = nullptr;
    Time asked;
    std::uint64_t order = 0;
    CommPriority priority = CommPriority::high;
  };
  /// Progress of a chain, and what it has used since `from`.
  struct Progress {
    std::uint32_t index = 0;
    double done = 0;
    double busy_sm_seconds = 0, bytes = 0, tensor_j = 0;
  };

  void add_up(double SmTotals::*sum, double more) {
    totals_.*sum += more;
    if (log_ != nullptr && more != 0) log_->emplace_back(sum, more);
  }
  bool fit(const CtaFootprint& a, std::uint32_t of_a, const CtaFootprint& b, std::uint32_t of_b) const;
  bool fits_beside(const Claim& claim, const KernelTime& kernel) const;
  /// Whether both kernels can use the same SMs at the same time.
  bool beside(const KernelTime& a, const KernelTime& b) const;
  double wanted(const KernelTime& kernel) const;
  double occupied(const Kernel& kernel, const KernelTime& running) const;
  /// SMs that claims leave for kernel `index` of the chain.
  double room_for(const Kernel& kernel, std::uint32_t index) const;
  static bool stands_behind(const Claim& claim, const Kernel& kernel, std::uint32_t index);
  /// Notes for which claims of normal priority the kernel is in the way, from this claim on.
  void put_ahead(Kernel& kernel, const Claim& claim) const;
  double claimed_sms() const;

  /// Time of kernel `index` of the chain: with the current share, or for a later kernel of a chain alone, its future
  /// share.
  double seconds(const Kernel& kernel, std::uint32_t index) const;
  Progress progress(const Kernel& kernel, Time now) const;
  /// Makes a kernel's progress so far final, before its share changes.
  void settle(Kernel& kernel, const Progress& progress, Time now);
  void settle_claims(Time now);
  /// Call before claims change: brings `index` of undisturbed chains up to the kernel that runs now.
  void catch_up();

  /// Divides SMs and bandwidth again, and schedules the next events.
  void allocate();
  /// Shortcut of allocate() for the most frequent case: `kernel` is the only kernel, and no claim waits.
  void allocate_alone(Kernel& kernel);
  /// Sets the share of a kernel and its next events. A kernel with less than one SM waits.
  /// @param uncovered  SMs without a claim or an earlier kernel; the SMs that this kernel occupies are subtracted
  void give(Kernel& kernel, const KernelShare& share, const Progress& at, bool alone, double& uncovered, Time now);
  /// @return clients to notify
  std::vector<SmClient*> admit_claims(Time now, const std::vector<Progress>& at);
  /// True if the kernel keeps its present SMs until the end of a wave, although its new share is `sms`. If `sms` is less,
  /// the kernel is asked for the difference.
  bool keeps_sms(Kernel& kernel, const Progress& at, double sms) const;
  /// Sets given_. A kernel with less than one SM waits.
  void share_sms(const std::vector<Progress>& at);
  /// Bandwidth that messages leave to kernels.
  KernelShare bandwidth_left() const;
  void share_bandwidth(const std::vector<Progress>& at);
  double held(const Kernel& kernel, const KernelTime& running) const {
    return std::min(kernel.share.sms, wanted(running));
  }
  static bool may_move(const Kernel& kernel, const Progress& at);
  const KernelTime& running(std::size_t slot, const std::vector<Progress>& at) const {
    return kernels_[slot].chain->kernels[at[slot].index];
  }
  /// Of a kernel, or of a chain alone, at full speed.
  double seconds_left(const Kernel& kernel) const;
  /// Schedules the events of a kernel whose share has just changed.
  void plan(Kernel& kernel);
  void pause(Kernel& kernel, const Progress& at, Time now);
  void plan_boundary(Kernel& kernel);
  void plan_tell(Kernel& kernel, Time now);
  /// Time until CTAs have ended on the SMs for which others wait.
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
  double speed_ratio_ = 1, energy_clock_ = 1;
  MessageTraffic traffic_;     ///< now
  double traffic_shared_ = 0;  ///< traffic_.taken, as used in the current shares
  TrafficSource* source_ = nullptr;
  Time claims_since_;
  SmTotals totals_;
  SmLog* log_ = nullptr;
  std::uint64_t runs_ = 0, runs_before_log_ = 0, begun_before_log_ = 0;  ///< chains and claims; messages
  std::vector<SmListener*> listeners_;
  // Scratch space of allocate(), by slot, to avoid allocations.
  std::vector<Progress> at_;
  std::vector<KernelShare> given_;
  std::vector<std::size_t> here_;  ///< slots with kernels
};

}  // namespace railyard::gpu
