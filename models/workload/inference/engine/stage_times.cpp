#include "workload/inference/engine/stage_times.h"

namespace railyard::workload::inference {

StageTimes::StageTimes(std::uint32_t stages, std::uint32_t max_in_flight)
    : max_in_flight_(max_in_flight), times_(stages) {}

void StageTimes::composed(Time now) {
  count(now);
  batches_.emplace_back();
}

void StageTimes::begun(std::uint32_t pass, std::uint32_t stage, Time now) {
  count(now);
  batches_[pass - first_] = {stage, Batch::Place::on_stage};
}

void StageTimes::done(std::uint32_t pass, Time now) {
  count(now);
  batches_[pass - first_].place = Batch::Place::left_stage;
}

void StageTimes::completed(Time now) {
  count(now);
  batches_.pop_front();
  ++first_;
}

void StageTimes::occupied(bool is_occupied, Time now) {
  count(now);
  is_occupied_ = is_occupied;
}

void StageTimes::count(Time now) {
  if (now == counted_) return;
  for (std::uint32_t p = 0; p < times_.size(); ++p) times_[p][use(p)] += now - counted_;
  counted_ = now;
}

StageTimes::Use StageTimes::use(std::uint32_t stage) const {
  for (const Batch& batch : batches_)
    if (batch.stage == stage && batch.place == Batch::Place::on_stage) return kBusy;
  if (!is_occupied_ && batches_.empty()) return kNoWork;
  if (batches_.size() < max_in_flight_) {
    // A batch that only the host keeps from this stage is not missing.
    if (stage == 0 && !batches_.empty() && batches_.back().place == Batch::Place::host) return kHost;
    return kFill;
  }
  // The next batch of this stage, or the oldest one if all have passed the stage.
  const Batch* next = &batches_.front();
  for (const Batch& batch : batches_) {
    const bool has_passed = batch.place != Batch::Place::host &&
                            (batch.stage > stage || (batch.stage == stage && batch.place == Batch::Place::left_stage));
    if (has_passed) continue;
    next = &batch;
    break;
  }
  if (next->place == Batch::Place::host) return kHost;
  if (next->place == Batch::Place::on_stage) return kImbalance;
  return next->stage + 1 == times_.size() ? kTokens : kTransfer;
}

}  // namespace railyard::workload::inference
