// What pass courses (pass_course.h) have found out about kernels and collectives of the ranks of a communicator. A generator
// whose chains of kernels live as long as the run keeps it from course to course.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "collective/reuse.h"
#include "gpu/sm_array.h"

namespace railyard::execution {

/// Kernels of a member as they ran.
struct KeptKernels {
  Time took;
  double speed = 1;  ///< of the GPU
  gpu::SmLog log;
  bool is_complete = false;
  bool operator==(const KeptKernels& other) const {
    return took == other.took && speed == other.speed && is_complete == other.is_complete && log == other.log;
  }
};

struct CourseMemory {
  /// When kernels began: at once after a replay, or when no more messages of it took memory bandwidth.
  enum Begin : std::size_t { kAtOnce, kUndisturbed, kBegins };
  struct Kernels {
    const gpu::KernelChain* chain = nullptr;
    const collective::Recording* after = nullptr;
    std::vector<std::array<KeptKernels, kBegins>> members;
    std::array<bool, kBegins> alike{};  ///< what the first member has kept is true for all
    bool is_foreseen = false;
    KeptKernels foreseen;  ///< without messages, on each member
  };
  /// A recording of a collective of the course, with times after its begin.
  struct Replay {
    const collective::CollectiveSpec* spec = nullptr;
    const collective::KnownRecording* known = nullptr;
    std::vector<Time> done;   ///< by member
    std::vector<Time> moved;  ///< by member: last change of the traffic of its memory
    bool alike = false;       ///< both are the same for all members
    std::uint64_t times = 0;  ///< in what is being composed
  };

  std::deque<Kernels> kernels;
  std::deque<Replay> replays;

  void clear() {
    kernels.clear();
    replays.clear();
  }
};

}  // namespace railyard::execution
