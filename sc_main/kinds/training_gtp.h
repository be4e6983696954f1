// Outputs of a training step whose ranks divide matrices (workload.gtp): times of gathers and scatters, and gtp.csv.
#pragma once

#include <string>

#include "workload/training/run/training_step.h"

namespace railyard {

/// Mean of all ranks, of one step.
struct GtpTimes {
  double gathers_s = 0, gather_exposed_s = 0;
  double scatters_s = 0, scatter_exposed_s = 0;
};

/// @pre the ranks divide matrices
GtpTimes gtp_times(const workload::training::TrainingStep& step, std::uint32_t layers, double steps);
/// A row for each layer, embedding and head, and each use: means of all ranks, of one step.
void write_gtp_table(const std::string& file, const workload::training::TrainingStep& step, std::uint32_t layers,
                     double steps);

}  // namespace railyard
