// Times a million matrix products on an H100: shapes that all differ, by the formula and by a KernelTimer, which remembers them;
// and the same 128 again and again. Processor time.
#include <cstdint>
#include <cstdio>
#include <ctime>

#include "gpu/kernels/kernel_timer.h"
#include "sc_main/scenario/datasheets/datasheets.h"

using namespace railyard;

namespace {

constexpr int kKernels = 1'000'000;
constexpr std::uint64_t kRepeated = 128;

/// Rows up to 4096, columns and depth in steps of 128 up to 32768.
gpu::GemmShape shape(std::uint64_t number) {
  constexpr std::uint64_t kMultiplier = 6364136223846793005ull,
                          kIncrement = 1442695040888963407ull;  // Knuth's MMIX generator
  const std::uint64_t x = number * kMultiplier + kIncrement;
  return {1 + (x >> 52), 128 * (1 + (x >> 40 & 255)), 128 * (1 + (x >> 30 & 255)), DataType::bf16, 1};
}

template <class Time>
void run(const char* name, std::uint64_t different, Time time) {
  const std::clock_t start = std::clock();
  double sum = 0;
  for (int i = 0; i < kKernels; ++i) sum += time(shape(static_cast<std::uint64_t>(i) % different)).seconds;
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%-28s %d products in %.3f s (%.0f s on the GPU)\n", name, kKernels, seconds, sum);
}

}  // namespace

int main() {
  const gpu::GpuDatasheet h100 = scenario::load_gpu({"H100-SXM5-80GB", "gpu", Origin{"bench"}});
  gpu::KernelTimer all(h100), few(h100);
  run("all different, formula", kKernels, [&](const gpu::GemmShape& s) { return gpu::gemm_time(h100, s); });
  run("all different, remembered", kKernels, [&](const gpu::GemmShape& s) { return all.gemm(s); });
  run("128 shapes, remembered", kRepeated, [&](const gpu::GemmShape& s) { return few.gemm(s); });
}
