#include "sc_main/kinds/training_gtp.h"

#include "sc_main/output_file.h"

namespace railyard {

using workload::training::DividedWeights;
using workload::training::RankAccount;
using workload::training::TrainingStep;

namespace {

struct UseTimes {
  double transfers_s = 0, exposed_s = 0;
};

/// @param place  a layer; then the embedding, and the head
UseTimes times_of(const TrainingStep& step, std::uint32_t place, std::uint32_t use, double steps) {
  UseTimes times;
  double ranks = 0;
  for (std::uint32_t r = 0; r < step.mesh().size(); ++r) ranks += step.mesh().stands_for(r);
  for (std::uint32_t r = 0; r < step.mesh().size(); ++r) {
    const RankAccount::Tagged tagged = step.account(r).tagged(place * DividedWeights::kUses + use);
    const double alike = step.mesh().stands_for(r);
    times.transfers_s += alike * tagged.transfers.seconds() / ranks / steps;
    times.exposed_s += alike * tagged.exposed.seconds() / ranks / steps;
  }
  return times;
}

}  // namespace

GtpTimes gtp_times(const TrainingStep& step, std::uint32_t layers, double steps) {
  GtpTimes sum;
  for (std::uint32_t place = 0; place < layers + 2; ++place)
    for (std::uint32_t use = 0; use < DividedWeights::kUses; ++use) {
      const UseTimes times = times_of(step, place, use, steps);
      const bool scatters = use == DividedWeights::kScatter;
      (scatters ? sum.scatters_s : sum.gathers_s) += times.transfers_s;
      (scatters ? sum.scatter_exposed_s : sum.gather_exposed_s) += times.exposed_s;
    }
  return sum;
}

void write_gtp_table(const std::string& file, const TrainingStep& step, std::uint32_t layers, double steps) {
  OutputFile out(file);
  out.print("layer,use,transfers_s,exposed_s\n");
  for (std::uint32_t place = 0; place < layers + 2; ++place)
    for (std::uint32_t use = 0; use < DividedWeights::kUses; ++use) {
      const UseTimes times = times_of(step, place, use, steps);
      if (times.transfers_s == 0) continue;
      const std::string layer = place < layers ? std::to_string(place) : place == layers ? "embedding" : "head";
      out.print("{},{},{:.15f},{:.15f}\n", layer, DividedWeights::kUseNames[use], times.transfers_s, times.exposed_s);
    }
}

}  // namespace railyard
