#include "gpu/kernels/gemm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "base/units.h"
#include "gpu/kernels/deepgemm.h"
#include "gpu/kernels/device_terms.h"

namespace railyard::gpu {
namespace {

struct Tile {
  std::uint32_t m, n;
};

// In this order: tiles for a pair of SMs with tensor memory; tiles of Hopper's wide instructions, whose narrow side is
// any multiple of 8 (libraries swap operands so that few rows lie along this side); tiles of every architecture; tiles
// that cuBLAS uses on GPUs with small shared memory.
constexpr std::array<Tile, 25> kTiles{
    {{256, 256}, {256, 192}, {192, 256}, {192, 128}, {128, 192}, {128, 8},   {8, 128},   {64, 8},   {8, 64},
     {64, 16},   {16, 64},   {64, 32},   {32, 64},   {256, 128}, {128, 256}, {128, 128}, {256, 64}, {64, 256},
     {128, 64},  {64, 128},  {64, 64},   {64, 32},   {32, 64},   {64, 16},   {16, 64}}};
constexpr std::size_t kHopperTiles = 3, kCommonTiles = 13, kSmallTiles = 21;  // first tile of each group
constexpr std::size_t kRowwiseTile = 15;                                      // 128 x 128
constexpr std::array<std::uint32_t, 10> kSplits{1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
constexpr double kStepBytes = 128;               // one pipeline step: 64 elements of two bytes
constexpr std::uint64_t kLeastSplitDepth = 128;  // of K; a smaller split would spend most of its time in the prologue
constexpr std::uint64_t kMostWaves = 4;          // of split tiles
constexpr double kPartialBytes = 4;              // fp32 partial sums
constexpr double kLeastResultBytes = 2;          // narrower types still write 16-bit results
// Fused experts of vLLM and SGLang (fused_moe.py, get_default_config for few tokens): blocks of 16 rows of an expert and
// 32 columns walk down K in steps of 64, without a split. Each step waits for its weights, of which Triton's pipeline
// has two steps in flight, so a product of few rows takes K / 64 times expert_step_us, however few columns it has: tensor
// parallelism cannot shorten it. Chosen together with the time of the sort (layer_kernels.cpp) on one token on A100,
// H100, L40S and B200 (ai-dynamo/aiconfigurator 095f58a, moe tables). Not used for it: 56 products of up to 64 tokens
// on an H200 (scripts/measure_gpu.py), mean error of log time 0.09.
constexpr double kExpertStepDepth = 64;

/// Properties of a shape that are the same for all candidates.
struct Problem {
  const GpuDatasheet& gpu;
  GemmShape shape;
  double element_bytes, result_bytes;
  double clock_hz, tensor_flop_per_clock;
  double burst, sustained, throttle_seconds;
  double operand_bytes, compulsory_bytes;
  std::array<double, kSplits.size()> steps;      // steps of the main loop, for each split
  double weight_bytes = 0, widening_cycles = 0;  // per weight
  double dirty_bytes = 0;                        // that leave L2 for HBM, after a flush
  std::uint32_t sms = 0;
  std::optional<DeepGemmTile> deepgemm = std::nullopt;  // the only tile
  double walk_seconds = 0;                              // of a block of experts down all of K
};

/// HBM traffic: every operand once. If A and B exceed L2: the mean of this and of what the blocks of tiles of all waves
/// read.
double hbm_bytes(const Problem& p, Tile tile, std::uint64_t rows, std::uint64_t columns, std::uint32_t split) {
  if (p.operand_bytes <= working_bytes(p.gpu)) return p.compulsory_bytes;
  const double wave = static_cast<double>(std::min<std::uint64_t>(p.sms, rows * columns * split * p.shape.groups));
  const double wide = std::min(static_cast<double>(rows), std::max(1.0, std::round(std::sqrt(wave * tile.n / tile.m))));
  const double high = std::min(static_cast<double>(columns), std::ceil(wave / wide));
  const double blocks = std::ceil(rows / wide) * std::ceil(columns / high);
  const double m = std::min<double>(wide * tile.m, static_cast<double>(p.shape.m));
  const double n = std::min<double>(high * tile.n, static_cast<double>(p.shape.n));
  const double result = static_cast<double>(p.shape.m) * p.shape.n * p.result_bytes;
  const double blocked = p.shape.groups * (blocks * p.shape.k * (p.element_bytes * m + p.weight_bytes * n) + result);
  return 0.5 * (p.compulsory_bytes + std::max(blocked, p.compulsory_bytes));
}

/// The time t in seconds for work w at full rate, from t x eta(t) = w: the positive root of a quadratic equation.
double throttled_seconds(const Problem& p, double work) {
  const double tau = p.throttle_seconds;
  if (tau <= 0) return work / p.burst;
  const double b = p.burst * tau - work;
  return (std::sqrt(b * b + 4 * p.sustained * work * tau) - b) / (2 * p.sustained);
}

/// Bytes that L2 sends for a tile and one step of K. The two thread blocks of a cluster (Hopper, B200) share the larger
/// of the operands that they have in common: L2 sends it once, to both.
double strip_bytes(const Problem& p, Tile tile, std::uint64_t rows, std::uint64_t columns) {
  constexpr double kShared = 0.5;
  const double inputs = static_cast<double>(std::min<std::uint64_t>(tile.m, p.shape.m)) * p.element_bytes;
  const double weights = static_cast<double>(std::min<std::uint64_t>(tile.n, p.shape.n)) * p.weight_bytes;
  if (p.deepgemm)
    return inputs + weights - (p.deepgemm->cluster ? kShared * (p.deepgemm->shares_inputs ? inputs : weights) : 0);
  if (!asynchronous_tensor_cores(p.gpu)) return inputs + weights;
  return inputs + weights - kShared * std::max(columns > 1 ? inputs : 0, rows > 1 ? weights : 0);
}

struct Candidate {
  KernelTime time;
  double tensor = 0, feed = 0;  // seconds of all waves, if only this resource counted
};

/// The p-norm of two parts of a body.
double joined(double a, double b, double exponent) {
  const double most = std::max(a, b);
  if (exponent <= 0 || most <= 0) return most;
  return most * std::pow(1 + std::pow(std::min(a, b) / most, exponent), 1 / exponent);
}

/// The fastest candidates if a resource were infinitely fast: seconds.
struct Rivals {
  double without_ctas = std::numeric_limits<double>::infinity();
  double without_l2 = without_ctas, without_hbm = without_ctas;

  /// @param around  fixed time and the sum of parts
  void try_without(double& best, double around, double a, double b, double exponent) {
    if (around + std::max(a, b) < best) best = std::min(best, around + joined(a, b, exponent));
  }
};

/// Keeps a candidate as `best` if it is faster, and as a rival if it would be. A cheap lower bound rejects most of them.
/// @param rows, columns  of tiles in a group  @param tiles  of all groups
void try_tile(const Problem& p, Tile tile, std::uint64_t rows, std::uint64_t columns, std::uint64_t tiles,
              std::size_t split_place, Candidate& best, Rivals& rivals) {
  const GemmShape& shape = p.shape;
  const GpuDatasheet& gpu = p.gpu;
  const std::uint32_t split = kSplits[split_place];
  const std::uint64_t ctas = tiles * split;
  const double waves = static_cast<double>(ceil_div(ctas, p.sms));
  const double step = kStepBytes / p.element_bytes;
  const double steps = p.steps[split_place];
  const double area = static_cast<double>(tile.m) * tile.n;
  const double mma_cycles = 2 * area * step / p.tensor_flop_per_clock;
  const double feed_cycles =
      p.deepgemm ? deepgemm_step_clocks(gpu.kernels.deepgemm, *p.deepgemm, mma_cycles)
                 : std::max((tile.m + tile.n) * kStepBytes / gpu.sm.feed_bytes_per_clock, gpu.kernel.gemm_step_clocks);
  const double epilogue_cycles = area * (split > 1 ? kPartialBytes : p.result_bytes) / gpu.sm.epilogue_bytes_per_clock;
  const double epilogue = waves * epilogue_cycles / p.clock_hz;
  const double widening = waves * steps * tile.n * step * p.widening_cycles / p.clock_hz;
  const double work = waves * steps * mma_cycles / p.clock_hz;
  const double feed = std::max(waves * steps * feed_cycles / p.clock_hz, p.walk_seconds);
  const double around = (gpu.kernel.gemm_fixed_us + (split > 1 ? gpu.kernel.split_k_us : 0)) * kSecondsPerUs;
  const double strip = strip_bytes(p, tile, rows, columns);
  const double reads = static_cast<double>(tiles) * strip * static_cast<double>(shape.k);
  const double partials = split > 1 ? 2.0 * split * shape.m * shape.n * shape.groups * kPartialBytes : 0;
  Candidate c;
  KernelTime& time = c.time;
  time.l2_bytes = reads + partials;
  time.l2_seconds = time.l2_bytes / gpu.l2_bytes_per_s();
  const double exponent = gpu.kernel.overlap_exponent, hbm_rate = gpu.gemm_hbm_bytes_per_s();
  const double least_hbm_seconds = (p.compulsory_bytes + p.dirty_bytes) / hbm_rate;
  const bool is_slower = around + epilogue + std::max(work / p.burst + widening, feed) >= best.time.seconds;
  if (is_slower && around + std::max(time.l2_seconds, least_hbm_seconds) >= rivals.without_ctas) return;
  time.bytes = hbm_bytes(p, tile, rows, columns, split) + p.dirty_bytes;
  time.hbm_seconds = time.bytes / hbm_rate;
  rivals.try_without(rivals.without_ctas, around, time.l2_seconds, time.hbm_seconds, exponent);
  if (is_slower) return;

  const double throttled = throttled_seconds(p, work);
  c.tensor = throttled + widening + epilogue;
  c.feed = feed + epilogue;
  // A step that is mostly tensor instructions.
  if (p.deepgemm && 2 * work > feed) c.tensor = std::max(c.tensor, c.feed);
  const double body = std::max(c.tensor, c.feed);
  rivals.try_without(rivals.without_l2, around, body, time.hbm_seconds, exponent);
  rivals.try_without(rivals.without_hbm, around, body, time.l2_seconds, exponent);
  if (around + std::max({body, time.l2_seconds, time.hbm_seconds}) >= best.time.seconds) return;

  time.clock_ratio = work / p.burst / throttled;
  time.tile_m = tile.m;
  time.tile_n = tile.n;
  time.split_k = split;
  time.ctas = ctas;
  time.waves = static_cast<std::uint32_t>(waves);
  time.longest_cta_seconds = body / waves;
  time.after_seconds = split > 1 ? gpu.kernel.split_k_us * kSecondsPerUs : 0;
  time.fixed_seconds = gpu.kernel.gemm_fixed_us * kSecondsPerUs;
  time.overlap_exponent = exponent;
  time.most_sms = shape.most_sms;
  time.seconds = time.seconds_on({static_cast<double>(p.sms)});
  if (time.seconds < best.time.seconds) best = c;
}

struct Menu {
  std::size_t begin, end;  // range of kTiles
};

/// Most rows of a tile in kernels that widen weights: Marlin's, and Machete's on Hopper.
std::uint32_t most_rows(const GpuDatasheet& gpu) { return facts_of(gpu.architecture).has_tma ? 128 : 64; }

Menu menu_of(const GpuDatasheet& gpu, bool widens) {
  if (widens) return {kCommonTiles, kTiles.size()};
  if (small_shared_memory(gpu)) return {kCommonTiles, kTiles.size()};
  if (tensor_memory(gpu)) return {0, kSmallTiles};
  return {asynchronous_tensor_cores(gpu) ? kHopperTiles : kCommonTiles, kSmallTiles};
}

/// Shared memory holds the operands of the pipeline stages; registers hold accumulators, addresses and operands in
/// transfer.
CtaFootprint footprint(const GpuDatasheet& gpu, const KernelTime& time) {
  constexpr double kStages = 4, kPerAccumulator = 1.5, kOtherRegistersKib = 64;
  constexpr std::uint32_t kThreads = 256;
  const double accumulators_kib = static_cast<double>(time.tile_m) * time.tile_n * kPartialBytes / kBytesPerKib;
  CtaFootprint cta;
  cta.threads = kThreads;
  cta.registers_kib = std::min<double>(gpu.sm.registers_kib, kPerAccumulator * accumulators_kib + kOtherRegistersKib);
  cta.shared_memory_kib =
      std::min<double>(gpu.sm.shared_memory_kib, kStages * (time.tile_m + time.tile_n) * kStepBytes / kBytesPerKib);
  return cta;
}

KernelLimit limit_of(const Candidate& c) {
  KernelLimit limit = KernelLimit::launch;
  double most = c.time.fixed_seconds;
  const auto consider = [&](double seconds, KernelLimit candidate) {
    if (seconds > most) most = seconds, limit = candidate;
  };
  consider(c.tensor, KernelLimit::tensor);
  consider(c.feed, KernelLimit::feed);
  consider(c.time.l2_seconds, KernelLimit::l2);
  consider(c.time.hbm_seconds, KernelLimit::hbm);
  return limit;
}

/// Experts of a serving engine. Under steady load, groups are those of training (grouped GEMM of CUTLASS).
bool is_of_experts(const GemmShape& shape) {
  return shape.groups > 1 && !shape.steady && shape.gemm_library == GemmLibrary::cublas;
}

Problem describe(const GpuDatasheet& gpu, const GemmShape& shape) {
  const double rate = gpu.sm.flop_per_clock[static_cast<std::size_t>(shape.dtype)];
  if (rate <= 0) throw std::domain_error(gpu.name + " has no tensor rate for " + std::string(name_of(shape.dtype)));
  Problem p{gpu,
            shape,
            bytes_of(shape.dtype),
            0,
            gpu.clock_hz(),
            rate,
            gpu.sm.burst_efficiency_ratio,
            gpu.sm.sustained_efficiency_ratio,
            gpu.sm.throttle_us * kSecondsPerUs,
            0,
            0,
            {}};
  if (!library_runs(gpu, shape))
    throw std::domain_error(std::string(name_of(shape.gemm_library)) + " has no kernel for this product on " +
                            gpu.name);
  const KernelConstants::Products& constants = gpu.kernels.products;
  p.sms = shape.most_sms > 0 ? std::min(shape.most_sms, gpu.sm.count) : gpu.sm.count;
  double rows = static_cast<double>(shape.groups) * static_cast<double>(shape.m);  // in memory
  if (shape.gemm_library == GemmLibrary::deepgemm) {
    std::uint64_t m = shape.m;
    if (shape.groups > 1) rows = m = deepgemm_row_tiles(shape.m, shape.groups) * kGroupRows;
    p.deepgemm = deepgemm_tile(m, shape.n, p.sms, shape.groups > 1);
  }
  if (is_of_experts(shape))
    p.walk_seconds =
        std::ceil(static_cast<double>(shape.k) / kExpertStepDepth) * (constants.expert_step_us * kSecondsPerUs);
  p.weight_bytes = shape.weight_bytes > 0 ? shape.weight_bytes : p.element_bytes;
  p.widening_cycles = p.weight_bytes < p.element_bytes ? 1 / constants.widened_per_clock : 0;
  p.result_bytes = shape.result_dtype ? bytes_of(*shape.result_dtype) : std::max(p.element_bytes, kLeastResultBytes);
  if (shape.accumulate) p.result_bytes *= 2;
  if (p.element_bytes < kLeastResultBytes && gpu.sm.low_precision_sustained_ratio > 0)
    p.sustained = gpu.sm.low_precision_sustained_ratio;
  if (shape.steady) p.burst = p.sustained, p.throttle_seconds = 0;
  const double n = static_cast<double>(shape.n), k = static_cast<double>(shape.k);
  const double weights = shape.groups * n * k * p.weight_bytes, inputs = rows * k * p.element_bytes;
  const double results = rows * n * p.result_bytes;
  double missed = 1;  // share of the weights that is not in L2
  p.operand_bytes = weights + inputs;
  p.compulsory_bytes = inputs + results;
  if (shape.weight_copies > 0) missed = missed_ratio(gpu, shape.weight_copies * weights + inputs + results);
  p.compulsory_bytes += missed * weights;
  if (shape.l2_flushed)
    p.dirty_bytes = constants.dirty_l2_ratio * std::min(p.compulsory_bytes, gpu.l2.capacity_mib * kBytesPerMib);
  for (std::size_t i = 0; i < kSplits.size(); ++i)
    p.steps[i] = std::ceil(k / kSplits[i] / (kStepBytes / p.element_bytes));
  return p;
}

}  // namespace

bool library_runs(const GpuDatasheet& gpu, const GemmShape& shape) {
  if (shape.gemm_library == GemmLibrary::cublas) return true;
  const bool narrow_weights = shape.weight_bytes > 0 && shape.weight_bytes < bytes_of(shape.dtype);
  if (shape.dtype != DataType::fp8 || narrow_weights) return false;
  return shape.gemm_library == GemmLibrary::rowwise || facts_of(gpu.architecture).runs_deepgemm;
}

KernelTime gemm_time(const GpuDatasheet& gpu, const GemmShape& shape) {
  if (shape.m == 0 || shape.n == 0 || shape.k == 0 || shape.groups == 0) return KernelTime();
  const Problem p = describe(gpu, shape);

  Candidate best;
  best.time.seconds = std::numeric_limits<double>::infinity();
  Rivals rivals;
  if (p.deepgemm) {
    const Tile tile{p.deepgemm->m, p.deepgemm->n};
    const std::uint64_t rows = ceil_div(shape.m, tile.m), columns = ceil_div(shape.n, tile.n);
    const std::uint64_t row_tiles = shape.groups > 1 ? deepgemm_row_tiles(shape.m, shape.groups) : rows;
    try_tile(p, tile, rows, columns, row_tiles * columns, 0, best, rivals);
  }
  const bool rowwise = shape.gemm_library == GemmLibrary::rowwise;
  const Menu menu = p.deepgemm ? Menu{0, 0}
                    : rowwise  ? Menu{kRowwiseTile, kRowwiseTile + 1}
                               : menu_of(gpu, p.widening_cycles > 0);
  for (std::size_t i = menu.begin; i < menu.end; ++i) {
    const Tile tile = kTiles[i];
    if (p.widening_cycles > 0 && tile.m > most_rows(gpu)) continue;
    const std::uint64_t rows = ceil_div(shape.m, tile.m), columns = ceil_div(shape.n, tile.n);
    const std::uint64_t tiles = rows * columns * shape.groups;
    for (std::size_t place = 0; place < kSplits.size(); ++place) {
      const std::uint32_t split = kSplits[place];
      if (split > 1 && is_of_experts(shape)) break;
      if (split > 1 && (rowwise || shape.k / split < kLeastSplitDepth || tiles * split > kMostWaves * p.sms)) break;
      try_tile(p, tile, rows, columns, tiles, place, best, rivals);
    }
  }

  KernelTime time = best.time;
  const auto without = [&](KernelLimit limit) -> double& {
    return time.chosen_without[static_cast<std::size_t>(limit)];
  };
  without(KernelLimit::tensor) = without(KernelLimit::feed) = rivals.without_ctas;
  without(KernelLimit::l2) = rivals.without_l2;
  without(KernelLimit::hbm) = rivals.without_hbm;
  time.limit = limit_of(best);
  time.tail_efficiency = static_cast<double>(time.ctas) / (static_cast<double>(time.waves) * p.sms);
  time.sms = static_cast<std::uint32_t>(std::min<std::uint64_t>(time.ctas, p.sms));
  time.cta = footprint(gpu, time);
  // CUTLASS 3 and cuBLAS loop over tiles from Hopper on (TMA, clusters).
  time.persistent = facts_of(gpu.architecture).has_tma;
  constexpr double kFlopsPerProduct = 2;
  time.flops = kFlopsPerProduct * shape.groups * static_cast<double>(shape.m) * shape.n * shape.k;
  time.tensor_j = time.clock_ratio * tensor_joules(gpu, shape.dtype, time.flops);
  return time;
}

}  // namespace railyard::gpu
