// A chart of a schedule in characters: a line for each rank, time from left to right.
//
//   rank 0  |F0F1F2F3............B0--F4B1--
//   rank 1  |  F0F1F2........B0--F3B1--F4
#pragma once

#include <string>

#include "workload/training/schedule/times.h"

namespace railyard::workload::training {

/// A slot is its letter, the last digits of its micro-batch as far as they fit, and '-' up to its end. Letters of a
/// rank's first virtual stage are upper case, of its others lower case. A '.' is idle time. The last line explains this.
/// If all times are multiples of one unit and there is room, a unit has a whole number of columns, at most 4.
/// @param width  columns, at least 40; a line is never longer
std::string gantt_of(const Schedule& schedule, const ScheduleTimes& times, std::size_t width = 120);

}  // namespace railyard::workload::training
