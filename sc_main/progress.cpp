#include "sc_main/progress.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace railyard {

namespace {

// Below these limits, an estimate of the remaining time is unreliable.
constexpr double kLeastRatio = 0.01, kLeastWallSeconds = 1;
constexpr double kMinute = 60, kHour = 3600;

std::string left_text(double seconds) {
  if (seconds < kMinute) return fmt::format("{:.0f} s", std::ceil(seconds));
  if (seconds < kHour) return fmt::format("{:.0f} min", std::ceil(seconds / kMinute));
  return fmt::format("{:.1f} h", seconds / kHour);
}

}  // namespace

bool ProgressLine::due(double wall_s) {
  if (wall_s - last_s_ < interval_s_) return false;
  last_s_ = wall_s;
  return true;
}

std::string ProgressLine::text(double ratio, Time simulated, const std::string& what, double wall_s) {
  ratio = std::clamp(ratio, 0.0, 1.0);
  std::string text =
      fmt::format("{:.0f} %, {:.3f} s simulated, {}", std::floor(100 * ratio), simulated.seconds(), what);
  if (ratio >= kLeastRatio && wall_s >= kLeastWallSeconds)
    text += fmt::format(", about {} left", left_text(wall_s * (1 - ratio) / ratio));
  return text;
}

}  // namespace railyard
