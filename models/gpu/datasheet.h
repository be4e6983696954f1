// The datasheet of a GPU, as read from platforms/datasheets/gpus/*.yaml (the keys are the field names). Plain data; no
// SystemC.
//
// Facts come from the vendor: SMs, clock, tensor rates, capacities, memory bandwidth, links. Constants (efficiencies,
// fixed costs) are fitted to open measurements, one set per device; `calibration` tells where a device's constants come
// from. A constant that is a rate is stored as a share of a fact, so that it changes with the fact.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "base/data_type.h"
#include "base/units.h"
#include "gpu/architecture.h"
#include "gpu/kernel_constants.h"

namespace railyard::gpu {

struct GpuDatasheet {
  std::string name;  ///< the file's stem, e.g. "L40S"
  Architecture architecture = Architecture::ampere;
  std::string calibration;  ///< source of the calibrated constants: measured | family | specification
  std::string family;       ///< the device from which the constants were derived (rule: scripts/calibrate.py), or empty
  std::string source;       ///< citation of the specification values

  struct Sm {
    std::uint32_t count = 0;
    double clock_mhz = 0;  ///< clock at which flop_per_clock gives the listed peak
    /// Highest clock, which kernels far from the power limit have; 0: not known. Only the family rule reads it
    /// (sc_main/scenario/datasheets/datasheets.cpp).
    double boost_mhz = 0;
    /// Dense tensor FLOP per SM per clock, by DataType; 0: not supported.
    std::array<double, kDataTypes> flop_per_clock{};
    double feed_bytes_per_clock = 0;           ///< L2 -> shared memory operand feed, per SM
    double epilogue_bytes_per_clock = 0;       ///< result write-out, per SM
    double burst_efficiency_ratio = 1;         ///< share of the tensor peak that short kernels reach
    double sustained_efficiency_ratio = 1;     ///< the same for kernels much longer than throttle_us (power limit)
    double low_precision_sustained_ratio = 0;  ///< the same for types below 16 bits; 0: as sustained_efficiency_ratio
    /// eta(t) = sustained + (burst - sustained)/(1 + t/throttle), where t is the tensor time; 0: sustained only under
    /// steady load
    double throttle_us = 0;
    double power_w = 0;        ///< power limit of the board; 0: not known
    double power_limit_w = 0;  ///< to what the owner has set it (nvidia-smi -pl); 0: power_w
    /// Clock in a whole training step, as a share of clock_mhz: what power_w leaves (kernels/step_clock.h)
    double step_clock_ratio = 1;
    std::uint32_t registers_kib = 256;
    std::uint32_t threads = 2048;    ///< resident at once
    std::uint32_t fp32_lanes = 128;  ///< fp32 instructions of threads per clock
    std::uint32_t shared_memory_kib = 0;
  } sm;

  struct L2 {
    double capacity_mib = 0;
    double bytes_per_sm_clock =
        0;  ///< read bandwidth per SM and clock; a multicast to a cluster counts once for each of its SMs
    double working_ratio = 0.6;  ///< share of the capacity that a working set may fill before parts are read again
  } l2;

  /// What the board draws (energy.h). No family hands these on: they are fitted to watts of this device.
  struct Energy {
    double idle_w = 0;           ///< without work on its SMs
    double sm_w = 0;             ///< more, for each SM with a thread block, at the highest clock
    double hbm_pj_per_byte = 0;  ///< read or written; with the way between memory and SMs. 0: no constant is known
    /// Of a useful tensor FLOP at the highest clock, by DataType; 0: as bf16.
    std::array<double, kDataTypes> tensor_pj_per_flop{};
    bool is_known() const { return hbm_pj_per_byte > 0; }
  } energy;

  struct Hbm {
    double capacity_gb = 0;      ///< 1e9 bytes
    double visible_gb = 0;       ///< memory that CUDA reports (cudaMemGetInfo); 0: not known
    double gb_per_s = 0;         ///< specification
    double gemm_ratio = 0;       ///< share of gb_per_s that GEMM operand streams reach
    double stream_ratio = 0.9;   ///< share of gb_per_s that large copies and decode attention reach
    double read_latency_ns = 0;  ///< turn-around of a remote read request inside the GPU (GPUDirect)
    double visible_bytes() const { return (visible_gb > 0 ? visible_gb : capacity_gb) * 1e9; }
  } hbm;

  struct Kernel {
    double launch_us = 0;                 ///< back-to-back cost of a kernel inside a CUDA graph
    double stream_launch_us = 2.5;        ///< the same for kernels that the host puts into a stream
    double dynamic_scale_us = 10;         ///< extra kernels that find the scale of a whole tensor before quantisation
    double scale_search_per_clock = 2.8;  ///< elements whose largest an SM finds in a clock, while memory keeps up
    double gemm_fixed_us = 0;             ///< prologue and pipeline fill of a GEMM
    double split_k_us = 0;                ///< reduction pass of a split-K GEMM
    double gemm_step_clocks =
        0;  ///< least time of a step of a GEMM's main loop: barriers, latency of the tensor instructions
    double overlap_exponent = 4;        ///< p-norm that joins tensor, L2 and HBM time
    double attention_ratio = 0;         ///< rate of prefill attention, relative to its kernel's on tensor cores at the
                                        ///< clock under load (kernels/attention_kernels.h)
    double attention_block_us = 0;      ///< fixed time of a thread block of prefill attention, besides its keys
    double attention_fixed_us = 0;      ///< launch, prologue and drain of a prefill attention kernel
    double decode_attention_ratio = 0;  ///< share of hbm.gb_per_s that decode attention reaches over a large KV cache,
                                        ///< with a kernel that reads as fast as memory lets it
    double decode_attention_fixed_us = 0;
  } kernel;

  KernelConstants kernels;  ///< of the kernels that run on it

  struct Collective {
    // Cost of an action of a collective on a channel's CTA (collective/spec.h): the SM's part of a hop, and its rates.
    // Latencies and rates of the fabric are not included.
    std::uint32_t channels = 0;  ///< CTAs of NCCL's largest kernels
    double launch_us = 0;       ///< launch of an NCCL kernel from a stream, in a loop, to its first action; few threads
    double wide_launch_us = 0;  ///< added to a launch when channels have all their threads
    double graph_launch_us = 0;  ///< launch of any collective kernel inside a CUDA graph
    double p2p_launch_us = 0;    ///< added to a launch for grouped sends and receives
    double ll_step_ns = 0;       ///< step of LL: poll, reduce, store; few threads
    double ll_wide_step_ns = 0;  ///< added to a step of LL with all threads
    double ll_line_ns = 0;       ///< each further line of 8 B per thread
    double ll128_step_ns = 0;
    double ll128_gb_per_s = 0;        ///< payload of one channel
    double simple_step_ns = 0;        ///< step of Simple, one slice: poll, barrier, fence, flag
    double simple_gb_per_s = 0;       ///< payload of one channel
    double p2p_gb_per_s = 0;          ///< the same for an all-to-all: half of the warps send, half receive
    double p2p_copy_gb_per_s = 0;     ///< sends and receives: copy of a channel from a slot to its place
    std::uint32_t nvls_channels = 0;  ///< CTAs of kernels that multicast and reduce in the switch; 0: no such kernels
    double nvls_step_ns = 0;
    double nvls_gb_per_s = 0;    ///< payload of one channel, per role
    double custom_step_ns = 0;   ///< all-reduce of serving engines: a phase of flags or data
    double custom_fence_ns = 0;  ///< the same with a fence: data must be visible before the flag
    double custom_pull_ns = 0;   ///< latency of a read from a peer while all CTAs read
    double custom_gb_per_s = 0;  ///< rate at which all its CTAs together store, or read and sum
  } collective;

  /// Fixed cost of a copy in a stream, back to back: before its first byte and until the next copy may begin.
  struct Copy {
    double engine_us = 2.3;  ///< copy by a copy engine (cudaMemcpyPeerAsync)
    double kernel_us = 4.8;  ///< copy by a kernel whose SMs store to the peer
  } copy;

  struct NvLink {
    std::uint32_t generation = 0;  ///< 0: none
    std::uint32_t links = 0;
    double gb_per_s = 0;  ///< per link and direction
    bool bridge = false;  ///< the links join this card and its neighbour; they lead to no switch
  } nvlink;

  struct C2c {
    double gb_per_s = 0;  ///< NVLink-C2C to the GPU's CPU, one direction; 0: none
  } c2c;

  struct Pcie {
    std::uint32_t generation = 0;
    std::uint32_t lanes = 16;
    bool p2p = true;  ///< peers of the server reach this memory; otherwise their bytes bounce off host memory
  } pcie;

  double clock_hz() const { return sm.clock_mhz * 1e6; }
  /// The clock as a share of the highest, if this is known.
  double boost_ratio() const { return sm.boost_mhz > 0 ? std::min(1.0, sm.clock_mhz / sm.boost_mhz) : 1; }
  /// Dense fp16 tensor FLOP per SM per clock: the reference for the efficiency of attention.
  double tensor_flop_per_clock() const { return sm.flop_per_clock[static_cast<std::size_t>(DataType::fp16)]; }
  double l2_bytes_per_s() const { return l2.bytes_per_sm_clock * sm.count * clock_hz(); }
  double gemm_hbm_bytes_per_s() const { return hbm.gemm_ratio * hbm.gb_per_s * 1e9; }
};

}  // namespace railyard::gpu
