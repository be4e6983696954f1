// The time of each pipeline stage of an engine: at each instant the stage runs a batch, or is idle for one of these
// reasons. The times of a stage add up to the time of the run, exactly.
//
//   no_work    no request is in the engine
//   fill       fewer batches are in flight than allowed: nothing more could be scheduled, since the next token of each
//              request depends on a batch in flight
//   host       the stage's next batch is prepared by the host
//   imbalance  the batch for which the stage waits is still on another stage
//   transfer   its activations are under way
//   tokens     its sampled tokens are on their way back to stage 0
//
// A stage waits for its next batch. If all batches in flight have passed the stage, it waits for the oldest one, which
// must leave before another one is composed.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/units.h"

namespace railyard::workload::inference {

class StageTimes {
 public:
  enum Use : std::size_t { kBusy, kNoWork, kFill, kHost, kImbalance, kTransfer, kTokens, kUses };
  static constexpr std::array<const char*, kUses> kNames = {"busy",      "no_work",  "fill",  "host",
                                                            "imbalance", "transfer", "tokens"};
  StageTimes(std::uint32_t stages, std::uint32_t max_in_flight);

  // Events, in the order of their time. Passes are numbered from 0 in the order of their composition.
  void composed(Time now);
  void begun(std::uint32_t pass, std::uint32_t stage, Time now);
  void done(std::uint32_t pass, Time now);
  /// The tokens of the oldest batch are known.
  void completed(Time now);
  /// Whether a request is in the engine.
  void occupied(bool is_occupied, Time now);
  /// Counts the time until now.
  void count(Time now);

  std::uint32_t stages() const { return static_cast<std::uint32_t>(times_.size()); }
  Time time(std::uint32_t stage, Use use) const { return times_[stage][use]; }

 private:
  struct Batch {
    std::uint32_t stage = 0;  ///< the stage that it is on, or has left last
    enum class Place : std::uint8_t { host, on_stage, left_stage } place = Place::host;
  };
  Use use(std::uint32_t stage) const;

  std::uint32_t max_in_flight_;
  Time counted_;
  std::deque<Batch> batches_;  ///< in flight
  std::uint32_t first_ = 0;    ///< number of the oldest one
  bool is_occupied_ = false;
  std::vector<std::array<Time, kUses>> times_;
};

}  // namespace railyard::workload::inference
