// A GPU's datasheet: what is known of one device, as read from platforms/datasheets/gpus/*.yaml (keys are the field names).
// Facts come from the vendor: SMs, clock, tensor rates, capacities, memory bandwidth, links. Constants (efficiencies, fixed costs)
// are fitted to open measurements, one set per device; `calibration` says where a device has them from. A constant that is a rate
// is stored as a share of a fact, so that it follows when the fact changes. Plain data; no SystemC.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/data_type.h"
#include "base/units.h"

namespace railyard::gpu {

struct GpuDatasheet {
  std::string name;          ///< the file's stem, e.g. "L40S"
  std::string architecture;  ///< volta | ampere | ada | hopper | blackwell | cdna3
  std::string calibration;   ///< measured | family | specification: where the calibrated constants come from
  std::string
      family;  ///< the device whose calibrated constants these follow (scripts/calibrate.py has the rule); or none
  std::string source;  ///< citation of the specification values

  struct Sm {
    std::uint32_t count = 0;
    double clock_mhz = 0;  ///< clock at which flop_per_clock gives the listed peak
    /// Dense tensor FLOP per SM per clock, by DataType; 0: not supported.
    std::array<double, kDataTypes> flop_per_clock{};
    double feed_bytes_per_clock = 0;           ///< L2 -> shared memory operand feed, per SM
    double epilogue_bytes_per_clock = 0;       ///< result write-out, per SM
    double burst_efficiency_ratio = 1;         ///< tensor rate reached by short kernels, of the peak
    double sustained_efficiency_ratio = 1;     ///< reached by kernels much longer than throttle_us (power limit)
    double low_precision_sustained_ratio = 0;  ///< the same for types below 16 bits; 0: as sustained_efficiency_ratio
    /// eta(t) = sustained + (burst - sustained)/(1 + t/throttle), t being tensor time; 0: sustained under steady load only
    double throttle_us = 0;
    std::uint32_t registers_kib = 256;
    std::uint32_t threads = 2048;  ///< resident at once
    std::uint32_t shared_memory_kib = 0;
  } sm;

  struct L2 {
    double capacity_mib = 0;
    double bytes_per_sm_clock =
        0;  ///< read bandwidth, per SM and clock; a multicast to a cluster counts at each of its SMs
    double working_ratio = 0.6;  ///< of the capacity, that a working set may fill before parts of it are read again
  } l2;

  struct Hbm {
    double capacity_gb = 0;         ///< 1e9 bytes
    double gb_per_s = 0;            ///< specification
    double gemm_ratio = 0;          ///< of gb_per_s, reached by GEMM operand streams
    double stream_ratio = 0.9;      ///< of gb_per_s, reached by large copies and decode attention
    double half_saturation_mb = 0;  ///< transfer size at which a memory-bound kernel reaches half of stream_ratio
    double read_latency_ns = 0;     ///< a remote read request's turn-around inside the GPU (GPUDirect)
  } hbm;

  struct Kernel {
    double launch_us = 0;           ///< back-to-back cost of a kernel inside a CUDA graph
    double stream_launch_us = 2.5;  ///< the same of kernels that the host puts into a stream
    double dynamic_scale_us = 10;  ///< finding the scale of a whole tensor before it is quantised: kernels of their own
    double gemm_fixed_us = 0;      ///< prologue and pipeline fill of a GEMM
    double split_k_us = 0;         ///< reduction pass of a split-K GEMM
    double gemm_step_clocks =
        0;  ///< least of a step of a GEMM's main loop: barriers, latency of the tensor instructions
    double overlap_exponent = 4;  ///< p-norm that joins tensor, L2 and HBM time
    double attention_ratio = 0;   ///< of the rate that prefill attention would have with products at the fp16 tensor
                                  ///< peak and most of its exponentials in turn with them (kernels/attention.h)
    double attention_row_clocks = 0;    ///< that a query row takes on its SM beside its keys, with heads of 128 numbers
    double attention_fixed_us = 0;      ///< launch, prologue and drain of a prefill attention kernel
    double decode_attention_ratio = 0;  ///< of hbm.gb_per_s, reached by decode attention over a large KV cache
    double decode_attention_fixed_us = 0;
    double decode_flight_kib = 24;  ///< that one thread block of decode attention keeps on its way from memory
    double decode_split_us =
        0.05;  ///< for each part of a context that is split: their results are joined one after the other
  } kernel;

  struct Collective {
    // What a channel's CTA costs per action of a collective (collective/spec.h): the SM's part of a hop, and its rates. Fabric
    // latencies and rates are not in them.
    std::uint32_t channels = 0;  ///< CTAs of NCCL's largest kernels
    double launch_us = 0;        ///< an NCCL kernel from a stream, in a loop, to its first action; few threads
    double wide_launch_us = 0;   ///< more of it when channels have all their threads
    double graph_launch_us = 0;  ///< any collective kernel inside a CUDA graph
    double p2p_launch_us = 0;    ///< more of it for grouped sends and receives
    double ll_step_ns = 0;       ///< LL: poll, reduce, store; few threads
    double ll_wide_step_ns = 0;  ///< more of it with all threads
    double ll_line_ns = 0;       ///< each further line of 8 B per thread
    double ll128_step_ns = 0;
    double ll128_gb_per_s = 0;        ///< payload of one channel
    double simple_step_ns = 0;        ///< a slice: poll, barrier, fence, flag
    double simple_gb_per_s = 0;       ///< payload of one channel
    double p2p_gb_per_s = 0;          ///< the same for sends and receives of an all-to-all
    std::uint32_t nvls_channels = 0;  ///< CTAs of kernels that multicast and reduce in the switch; 0: none
    double nvls_step_ns = 0;
    double nvls_gb_per_s = 0;    ///< payload of one channel, per role
    double custom_step_ns = 0;   ///< serving engines' all-reduce: a phase of flags or data
    double custom_gb_per_s = 0;  ///< what all its CTAs store, or read and sum
    double eager_us = 0;         ///< a framework's call outside a graph, in a loop
  } collective;

  /// What a copy in a stream costs before its first byte and until the next may begin, back to back.
  struct Copy {
    double engine_us = 2.3;  ///< by a copy engine (cudaMemcpyPeerAsync)
    double kernel_us = 4.8;  ///< by a kernel of the SMs that stores to the peer
  } copy;

  struct NvLink {
    std::uint32_t generation = 0;  ///< 0: none
    std::uint32_t links = 0;
    double gb_per_s = 0;  ///< per link and direction
    bool bridge = false;  ///< the links join this card and the one beside it, and reach no switch
  } nvlink;

  struct C2c {
    double gb_per_s = 0;  ///< NVLink-C2C to the CPU beside it, one direction; 0: none
  } c2c;

  struct Pcie {
    std::uint32_t generation = 0;
    std::uint32_t lanes = 16;
    bool p2p = true;  ///< peers of its server reach its memory; without, their bytes bounce off host memory
  } pcie;

  double clock_hz() const { return sm.clock_mhz * 1e6; }
  /// Dense fp16 tensor FLOP per SM per clock, which attention is a share of.
  double tensor_flop_per_clock() const { return sm.flop_per_clock[static_cast<std::size_t>(DataType::fp16)]; }
  double l2_bytes_per_s() const { return l2.bytes_per_sm_clock * sm.count * clock_hz(); }
  double gemm_hbm_bytes_per_s() const { return hbm.gemm_ratio * hbm.gb_per_s * 1e9; }
};

}  // namespace railyard::gpu
