// What a generator says of a pass course (pass_course.h).
#pragma once

#include <cstdint>
#include <vector>

#include "execution/communicator.h"
#include "execution/job.h"

namespace railyard::execution {

/// Kernels on every rank, or a collective of all: of one communicator, or in parts.
struct CourseStep {
  const gpu::SharedChain* kernels = nullptr;         ///< of each rank; null: a collective. It outlives the course
  Communicator* communicator = nullptr;              ///< of the collective; its members are the ranks of the course
  const collective::CollectiveSpec* spec = nullptr;  ///< of the collective; outlives the course
  JobLabel label;                                    ///< its namer's of_member() names the kernels of a rank
  Time launched = {};  ///< when the host has launched it, after the begin of its launches; zero: it is not waited for
  std::uint64_t turn = 0;  ///< of the collective, in the calendar: Executor::take_turn()
};

/// Launches of a host, one after the other, in one job of its stream.
struct CourseLaunches {
  Rank* host = nullptr;  ///< null: all were over long ago
  gpu::Stream* stream = nullptr;
  Time takes;               ///< the job
  Time before;              ///< launches before the job's begin
  std::uint32_t count = 0;  ///< of launches in the job
  JobLabel label;
  std::vector<JobRef> after = {};
};

}  // namespace railyard::execution
