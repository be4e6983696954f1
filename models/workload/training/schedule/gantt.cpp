#include "workload/training/schedule/gantt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "workload/training/schedule/slots.h"

namespace railyard::workload::training {

namespace {

/// Columns of instants.
class Scale {
 public:
  Scale(const ScheduleTimes& times, std::size_t columns) : makespan_(times.makespan), columns_(columns) {
    constexpr std::uint64_t kMostColumnsPerUnit = 4;
    std::uint64_t unit = 0;
    for (const auto& slots : times.slots)
      for (const SlotTimes& slot : slots) unit = std::gcd(std::gcd(unit, slot.start.fs()), slot.end.fs());
    const std::uint64_t units = unit == 0 ? 0 : makespan_.fs() / unit;
    if (units > 0 && units <= columns) columns_ = units * std::min(columns / units, kMostColumnsPerUnit);
  }

  std::size_t columns() const { return columns_; }
  std::size_t column(Time t) const {
    return makespan_ == Time() ? 0 : share(Time::fs(columns_), t.fs(), makespan_.fs()).fs();
  }

 private:
  Time makespan_;
  std::size_t columns_;
};

/// A slot in so many columns.
std::string cell(const Slot& slot, bool is_first_stage, std::size_t columns) {
  const char letter = letter_of(slot.kind);
  std::string text(1, is_first_stage ? letter : static_cast<char>(std::tolower(letter)));
  const std::string number = std::to_string(slot.micro_batch);
  const std::size_t digits = std::min(number.size(), columns - 1);
  text += number.substr(number.size() - digits);
  text.resize(columns, '-');
  return text;
}

}  // namespace

std::string gantt_of(const Schedule& schedule, const ScheduleTimes& times, std::size_t width) {
  const std::size_t margin = fmt::format("rank {} |", schedule.ranks() - 1).size();
  const Scale scale(times, width - margin);
  std::string chart;
  for (std::uint32_t rank = 0; rank < schedule.ranks(); ++rank) {
    const auto first_stage = static_cast<std::uint32_t>(
        std::find(schedule.rank_of.begin(), schedule.rank_of.end(), rank) - schedule.rank_of.begin());
    std::string line(scale.columns(), '.');
    for (std::size_t i = 0; i < schedule.slots[rank].size(); ++i) {
      const Slot& slot = schedule.slots[rank][i];
      const std::size_t begin = scale.column(times.slots[rank][i].start), end = scale.column(times.slots[rank][i].end);
      if (begin < end) line.replace(begin, end - begin, cell(slot, slot.stage == first_stage, end - begin));
    }
    chart += fmt::format("{:<{}}|{}\n", fmt::format("rank {}", rank), margin - 1, line);
  }
  chart += "F forward, B backward, I of inputs, W of weights; then the last digits of the micro-batch; . idle";
  if (schedule.stages() > schedule.ranks()) chart += "; f b i w: later stages";
  return chart + "\n";
}

}  // namespace railyard::workload::training
