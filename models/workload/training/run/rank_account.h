// Where the time of a rank goes. The compute stream of a rank is followed from begin to end of the run: each instant is
// a kernel, an exposed transfer, work of the host, or a bubble, so the parts add up to the run exactly.
//
//   kernels    a kernel runs; optimizer kernels are counted apart
//   exposed    the stream runs a collective, or waits for a transfer that is under way; by class of traffic
//   host       the stream waits for the host to launch its next kernel
//   bubble     the stream waits for anything else: for other pipeline stages, or for the end of the step
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/units.h"
#include "workload/traffic.h"

namespace railyard::workload::training {

class RankAccount {
 public:
  enum class Busy : std::uint8_t { kernel, optimizer };

  /// Of transfers with the same tag.
  struct Tagged {
    TimeSum transfers, exposed;
  };
  static constexpr std::uint32_t kNoTag = ~0u;

  /// A transfer beside the compute stream was under way from `begun` until now.
  void transferred(TrafficClass traffic, Time begun, Time now, std::uint32_t tag = kNoTag);
  /// The host prepared something for the stream from `begun` until now.
  void launched(Time begun, Time now) { launches_.push_back({begun, now, TrafficClass::tp, kNoTag}); }
  /// The host begins to launch kernels.
  void begin_launches(Time now) { launching_since_ = now; }
  void end_launches(Time now) {
    launched(*launching_since_, now);
    launching_since_.reset();
  }
  /// The compute stream begins a job at `now`, after it waited for transfers of these classes.
  /// @param waited_for  one bit for each class, by number
  void begin(Time now, std::uint32_t waited_for);
  static constexpr std::uint32_t bit(TrafficClass c) { return 1u << number(c); }
  /// The compute stream ends a kernel.
  void end_kernel(Time now, Busy busy);
  /// The compute stream ends a collective that its last member entered at `entered`. A wait for the last member counts
  /// as bubble if the members are of different pipeline stages.
  void end_collective(Time now, TrafficClass traffic, Time entered, bool across_stages);

  double kernels_s() const { return kernels_.seconds(); }
  double optimizer_s() const { return optimizer_.seconds(); }
  double host_s() const { return host_.seconds(); }
  double bubble_s() const { return bubble_.seconds(); }
  double exposed_s(TrafficClass c) const { return exposed_[number(c)].seconds(); }
  /// Transfers of the class, exposed or hidden.
  double transfers_s(TrafficClass c) const { return transfers_[number(c)].seconds(); }
  Tagged tagged(std::uint32_t tag) const { return tag < tagged_.size() ? tagged_[tag] : Tagged(); }
  /// Sum of all parts: the time from the begin of the run to the last job's end.
  TimeSum counted() const;

 private:
  struct Interval {
    Time begun, ended;
    TrafficClass traffic;
    std::uint32_t tag;
  };
  void divide_wait(Time now, std::uint32_t waited_for);

  Time last_end_, begun_;  ///< of jobs of the compute stream
  TimeSum kernels_, optimizer_, host_, bubble_;
  std::array<TimeSum, kTrafficClasses.size()> exposed_, transfers_;
  std::vector<Tagged> tagged_;
  std::vector<Interval> beside_, launches_;  ///< since the last job of the compute stream ended
  std::optional<Time> launching_since_;
};

}  // namespace railyard::workload::training
