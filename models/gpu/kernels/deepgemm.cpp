#include "gpu/kernels/deepgemm.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/units.h"

namespace railyard::gpu {
namespace {

constexpr std::uint32_t kStepDepth = 128;         // of K
constexpr std::uint32_t kInstructionRows = 64;    // of a tensor instruction of one warp group
constexpr double kSharedMemoryPerClock = 128;     // bytes per SM
constexpr double kLanes = 128;                    // of an SM, one instruction per clock each
constexpr std::uint64_t kLeastClusterRows = 512;  // smaller problems use no clusters
constexpr std::uint32_t kMostUnrolled = 4;        // positions of a change of scale that the compiler unrolls

bool allowed(std::uint32_t m, std::uint32_t n) {
  if (n > kStepDepth && n != 144 && n != 160 && n != 192) return false;  // registers, or more than two scales
  return m <= 128 || n <= 128;
}

/// What the library compares: fewer waves first, then more tiles in the last wave.
struct Choice {
  DeepGemmTile tile;
  std::uint64_t waves = 0, last = 0;
};

bool better(const Choice& a, const Choice& b, std::uint64_t m, std::uint64_t n) {
  if (a.waves != b.waves) return a.waves < b.waves;
  if (a.last != b.last) return a.last > b.last;
  if (a.tile.m == b.tile.m) return a.tile.n < b.tile.n;
  if (a.tile.n == b.tile.n) return a.tile.m < b.tile.m;
  return a.tile.n > b.tile.n && a.tile.n <= n && a.tile.m <= m;
}

}  // namespace

std::uint64_t deepgemm_row_tiles(std::uint64_t m, std::uint32_t groups) {
  constexpr double kLastTile = 0.5;
  const double of_group = std::max(1.0, static_cast<double>(m) / kGroupRows + kLastTile);
  return static_cast<std::uint64_t>(std::ceil(groups * of_group));
}

DeepGemmTile deepgemm_tile(std::uint64_t m, std::uint64_t n, std::uint32_t sms, bool grouped) {
  constexpr std::uint32_t kRows[] = {64, 128, 256}, kColumns = 16, kMostColumns = 192;
  Choice best;
  for (const std::uint32_t rows : kRows) {
    if (grouped && rows != kGroupRows) continue;
    for (std::uint32_t columns = kColumns; columns <= kMostColumns; columns += kColumns) {
      if (!allowed(rows, columns)) continue;
      const std::uint64_t tiles = ceil_div(m, rows) * ceil_div(n, columns);
      const std::uint64_t last = tiles % sms;
      Choice choice{{rows, columns, false, false}, ceil_div(tiles, sms), last == 0 ? sms : last};
      if (best.waves == 0 || better(choice, best, m, n)) best = choice;
    }
  }
  DeepGemmTile tile = best.tile;
  tile.cluster = m >= kLeastClusterRows && sms % 2 == 0;
  tile.shares_inputs = tile.cluster && tile.m > tile.n;
  return tile;
}

double deepgemm_step_clocks(const KernelConstants::DeepGemm& constants, const DeepGemmTile& tile, double mma_clocks) {
  const double instructions = static_cast<double>(tile.m) / kInstructionRows;
  const double read = instructions * (kInstructionRows + tile.n) * kStepDepth / kSharedMemoryPerClock;
  const bool one_scale = kStepDepth % tile.n == 0;
  const bool unrolled = kStepDepth / std::gcd(kStepDepth, tile.n) <= kMostUnrolled;
  const double select = one_scale || unrolled ? 0 : static_cast<double>(tile.m) * tile.n / kLanes;
  return std::max(mma_clocks, read) + constants.step_clocks + (tile.cluster ? constants.cluster_clocks : 0) + select;
}

}  // namespace railyard::gpu
