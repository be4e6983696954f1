// Latencies before, during and after the events of a scenario: before the first one, until the last one, and from then on. A request
// belongs to the period of its arrival, and the time between two tokens to that of the second one.
#pragma once

#include <array>
#include <optional>

#include "base/units.h"
#include "sc_main/distribution.h"

namespace railyard {

class ServingPeriods {
 public:
  static constexpr std::size_t kPeriods = 3;
  static constexpr std::array<const char*, kPeriods> kNames{"before", "during", "after"};
  /// From the first event to the last one.
  struct During {
    Time from, until;
  };
  struct Period {
    Distribution ttft, tpot;
    TimeHistogram itl;
  };

  explicit ServingPeriods(const std::optional<During>& during = {}) : during_(during) {}

  bool has_events() const { return during_.has_value(); }
  /// @pre has_events()
  Period& at(Time when) { return periods_[when < during_->from ? 0 : when < during_->until ? 1 : 2]; }
  const std::array<Period, kPeriods>& all() const { return periods_; }

 private:
  std::optional<During> during_;
  std::array<Period, kPeriods> periods_;
};

}  // namespace railyard
