// A serving engine's kernels, as data: the vectors that its own all-reduce takes, by GPU, interconnect and number of ranks,
// its attention, and its products of block-scaled weights. The values come from platforms/datasheets/engines. NCCL is an
// engine without an all-reduce of its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/units.h"
#include "gpu/kernels/attention.h"
#include "gpu/kernels/gemm.h"

namespace railyard::collective {

/// What joins the members of a server.
enum class Interconnect : std::uint8_t { nvlink, pcie };
inline constexpr std::array<const char*, 2> kInterconnectNames{"nvlink", "pcie"};

/// Host time of a call outside a CUDA graph, in a loop, on some CPUs.
struct EagerCall {
  std::vector<Cpu> cpus;  ///< empty: all
  double us = 0;
};
/// Of the first one that fits; 0 if none does.
inline double call_us(const std::vector<EagerCall>& calls, Cpu cpu) {
  const auto fits = [&](const EagerCall& call) {
    return call.cpus.empty() || std::find(call.cpus.begin(), call.cpus.end(), cpu) != call.cpus.end();
  };
  const auto call = std::find_if(calls.begin(), calls.end(), fits);
  return call == calls.end() ? 0 : call->us;
}

/// The largest vector, in KiB: with it, or without it. Both 0: no vector.
struct SizeLimit {
  std::uint32_t up_to_kib = 0, below_kib = 0;

  Bytes most() const { return below_kib > 0 ? below_kib * kKib - 1 : up_to_kib * kKib; }

 private:
  static constexpr Bytes kKib = 1 << 10;
};

/// A kernel whose members read from their peers, between exchanges of flags.
struct PullKernel {
  std::uint32_t blocks = 1, threads = 1;
  std::uint32_t read_bytes = 1;  ///< that a thread reads from each peer at once

  /// From all peers.
  double bytes_in_flight(std::uint32_t ranks) const {
    return (ranks - 1) * static_cast<double>(blocks) * threads * read_bytes;
  }
};

/// Vectors of the one-shot and the two-shot algorithm. Two-shot takes those above `one_shot`.
struct RankLimits {
  std::vector<std::uint32_t> ranks;  ///< numbers of ranks to which the limits apply
  SizeLimit one_shot, two_shot;
};

/// The all-reduce kernel for some GPUs.
struct AllReduceKernel {
  std::vector<gpu::Architecture> architectures;  ///< empty: all
  Interconnect interconnect = Interconnect::nvlink;
  std::optional<PullKernel> pull;  ///< none: members store to their peers, and data carries its flags
  std::vector<RankLimits> limits;
};

struct Engine {
  std::string name;
  gpu::AttentionLibrary attention = gpu::AttentionLibrary::flash;
  /// The first one for the GPU applies; none: cuBLAS.
  std::vector<gpu::BlockScaledProducts> block_scaled_products;
  std::vector<EagerCall> eager_call;        ///< of collectives; none: the host is not the limit
  std::vector<AllReduceKernel> all_reduce;  ///< the first one that fits applies

  double eager_call_us(Cpu cpu) const { return call_us(eager_call, cpu); }
};

}  // namespace railyard::collective
