// How far the program of a rank is (rank_programs.h): its jobs run in order, and each takes at least a time that is known.
#pragma once

#include <optional>

#include "base/units.h"
#include "gpu/kernels/kernel_chain.h"

namespace railyard::workload {

/// The time of kernels on a GPU of their own. They never take less, whatever runs beside them. None: zero.
inline Time least_time(const gpu::SharedChain& kernels) {
  // Less than the time alone by more than what is lost in rounding.
  constexpr double kRounding = 1e-9;
  return kernels == nullptr ? Time() : since(Time::seconds(kernels->seconds * (1 - kRounding)), Time::fs(1));
}

class ProgramClock {
 public:
  /// A job has been added to the program. @param least  its time, at least
  void add(Time least) { work_ += least; }
  /// The next job begins.
  void begin(Time now) { begun_at_ = now; }
  /// It ends. @param least  as it was added
  void end(Time least) {
    done_ += least;
    begun_at_.reset();
  }

  /// Least times of all jobs that have been added: a place in the program, behind them.
  Time work() const { return work_; }
  /// The earliest instant at which the program comes to a place; now if it has been there.
  Time reaches(Time place, Time now) const {
    return place <= done_ ? now : later(now, begun_at_.value_or(now) + (place - done_));
  }

 private:
  Time work_, done_;              ///< of all jobs, and of those that have ended
  std::optional<Time> begun_at_;  ///< none: the next job has not begun
};

}  // namespace railyard::workload
