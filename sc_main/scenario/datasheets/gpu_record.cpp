// The table of a GPU's datasheet: keys, units, ranges and meanings.
#include "sc_main/scenario/datasheets/gpu_record.h"

namespace railyard::scenario {

using gpu::GpuDatasheet;

namespace {

/// A map from number format to number; each is 0, or in this range.
Fields data_type_fields(const char* doc, double least, double most) {
  using PerType = std::array<double, kDataTypes>;
  Fields fields;
  for (std::size_t i = 0; i < kDataTypes; ++i) {
    Field field;
    field.key = std::string(kDataTypeNames[i]);
    field.kind = Field::Kind::number;
    field.doc = doc;
    field.default_text = "0";
    field.none_or(least, most);
    field.store = [i](const Field& self, void* record, const Node& node, const std::string& path) {
      (*static_cast<PerType*>(record))[i] = read_number(self, node, path);
    };
    field.show = [i](const Field&, const void* record) {
      return number_text((*static_cast<const PerType*>(record))[i]);
    };
    fields.push_back(std::move(field));
  }
  return fields;
}

Fields tensor_rate_fields() {
  Fields fields = data_type_fields("dense tensor FLOP per SM per clock; 0: not supported", 1, 1e9);
  Field& fp16 = fields[static_cast<std::size_t>(DataType::fp16)];
  fp16.doc = "dense tensor FLOP per SM per clock; also the reference for the efficiency of attention";
  fp16.range(1e-6, 1e9).required();
  return fields;
}

}  // namespace

Record<GpuDatasheet> gpu_record() {
  using G = GpuDatasheet;
  Record<G::Sm> sm;
  sm.add("count", &G::Sm::count, "number of streaming multiprocessors").range(1, 4096).required();
  sm.add("clock_mhz", &G::Sm::clock_mhz, "clock at which flop_per_clock gives the listed peak")
      .range(1e-6, 1e5)
      .required();
  sm.add("boost_mhz", &G::Sm::boost_mhz,
         "highest clock, by which times of collectives carry over from the family, if both name it; 0: not known")
      .none_or(1e-6, 1e5);
  sm.mapping("flop_per_clock", tensor_rate_fields(), "dense tensor FLOP per SM per clock, by number format",
             [](void* record) { return std::vector<void*>{&static_cast<G::Sm*>(record)->flop_per_clock}; })
      .required();
  sm.add("feed_bytes_per_clock", &G::Sm::feed_bytes_per_clock, "operand feed from L2 per SM")
      .range(1e-6, 1e6)
      .required()
      .inherited();
  sm.add("epilogue_bytes_per_clock", &G::Sm::epilogue_bytes_per_clock, "result write-out per SM")
      .range(1e-6, 1e6)
      .required()
      .inherited();
  sm.add("burst_efficiency_ratio", &G::Sm::burst_efficiency_ratio, "share of the tensor peak that short kernels reach")
      .range(1e-6, 2)
      .inherited();
  sm.add("sustained_efficiency_ratio", &G::Sm::sustained_efficiency_ratio,
         "share of the tensor peak under the power limit")
      .range(1e-6, 2)
      .inherited();
  sm.add("low_precision_sustained_ratio", &G::Sm::low_precision_sustained_ratio,
         "share of the tensor peak under the power limit for fp8, int8 and fp4; 0: as sustained_efficiency_ratio")
      .none_or(1e-6, 2)
      .inherited();
  sm.add("throttle_us", &G::Sm::throttle_us,
         "kernel time at which half of the loss by the power limit is reached; 0: no loss in bursts")
      .range(0, kMostUs)
      .inherited();
  sm.add("power_w", &G::Sm::power_w,
         "power limit of the board. A GPU of another architecture than its family takes the efficiency of its tensor "
         "cores from it; 0: not known")
      .range(0, 1e5);
  sm.add("power_limit_w", &G::Sm::power_limit_w,
         "to what the owner has set the power limit (nvidia-smi -pl). It changes the clock in a training step; 0: "
         "power_w")
      .none_or(1, 1e5);
  sm.add("step_clock_ratio", &G::Sm::step_clock_ratio,
         "clock of the SMs in a whole training step, as a share of clock_mhz")
      .range(1e-2, 1)
      .inherited();
  sm.add("registers_kib", &G::Sm::registers_kib, "register file per SM").range(1, 65536);
  sm.add("threads", &G::Sm::threads, "resident threads per SM").range(32, 65536);
  sm.add("fp32_lanes", &G::Sm::fp32_lanes, "fp32 instructions of threads per SM and clock").range(1, 65536);
  sm.add("shared_memory_kib", &G::Sm::shared_memory_kib, "shared memory per SM").range(1, 65536).required();

  Record<G::L2> l2;
  l2.add("capacity_mib", &G::L2::capacity_mib, "L2 capacity").range(1e-6, 1e6).required();
  l2.add("working_ratio", &G::L2::working_ratio,
         "share of the capacity that a working set may fill before parts are read again")
      .range(1e-6, 1)
      .inherited();
  l2.add("bytes_per_sm_clock", &G::L2::bytes_per_sm_clock, "L2 read bandwidth per SM and clock")
      .range(1e-6, 1e6)
      .required()
      .inherited();

  Record<G::Energy> energy;
  energy.add("idle_w", &G::Energy::idle_w, "power of the board without work on its SMs").range(0, 1e5);
  energy.add("sm_w", &G::Energy::sm_w, "more power, for each SM with a thread block, at boost_mhz").range(0, 1e4);
  energy
      .add("hbm_pj_per_byte", &G::Energy::hbm_pj_per_byte,
           "energy of a byte at device memory, with its way to the SMs; 0: no energy is reported")
      .none_or(1e-3, 1e6);
  energy.mapping("tensor_pj_per_flop",
                 data_type_fields("energy of a tensor FLOP at boost_mhz; 0: as that of bf16", 1e-6, 1e6),
                 "energy of a tensor FLOP, by number format",
                 [](void* record) { return std::vector<void*>{&static_cast<G::Energy*>(record)->tensor_pj_per_flop}; });

  Record<G::Hbm> hbm;
  hbm.add("capacity_gb", &G::Hbm::capacity_gb, "memory capacity").range(1e-6, 1e5).required();
  hbm.add("visible_gb", &G::Hbm::visible_gb,
          "memory that CUDA reports, from which serving engines compute their KV cache; 0: the capacity")
      .range(0, 1e5);
  hbm.add("gb_per_s", &G::Hbm::gb_per_s, "memory bandwidth by specification").range(1e-6, kMostRate).required();
  hbm.add("gemm_ratio", &G::Hbm::gemm_ratio, "share of gb_per_s that operands of matrix products reach")
      .range(1e-6, 1)
      .required()
      .inherited();
  hbm.add("stream_ratio", &G::Hbm::stream_ratio, "share of gb_per_s that large copies reach")
      .range(1e-6, 1)
      .inherited();
  hbm.add("read_latency_ns", &G::Hbm::read_latency_ns, "turn-around of a remote read inside the GPU")
      .range(0, kMostNs)
      .required()
      .inherited();

  Record<G::Kernel> kernel;
  kernel.add("launch_us", &G::Kernel::launch_us, "back-to-back cost of a kernel inside a CUDA graph")
      .range(0, kMostUs)
      .required()
      .inherited();
  kernel
      .add("stream_launch_us", &G::Kernel::stream_launch_us,
           "back-to-back cost of a kernel that the host puts into a stream")
      .range(0, kMostUs)
      .cite("te42kyfo/gpu-benches, gpu-small-kernels: 2.0 to 2.6 us")
      .inherited();
  kernel
      .add("dynamic_scale_us", &G::Kernel::dynamic_scale_us,
           "time to find the scale of a tensor before it is quantised")
      .range(0, kMostUs)
      .cite("ai-dynamo/aiconfigurator, fp8 products of one row")
      .inherited();
  kernel
      .add(
          "scale_search_per_clock", &G::Kernel::scale_search_per_clock,
          "elements among which an SM finds the largest in a clock, before a tensor is quantised; memory may be slower")
      .range(0.01, 1000)
      .cite("ai-dynamo/aiconfigurator, TensorRT-LLM's computescale table of the H100")
      .inherited();
  kernel.add("gemm_fixed_us", &G::Kernel::gemm_fixed_us, "prologue and pipeline fill of a GEMM")
      .range(0, kMostUs)
      .required()
      .inherited();
  kernel.add("split_k_us", &G::Kernel::split_k_us, "reduction pass of a split-K GEMM")
      .range(0, kMostUs)
      .required()
      .inherited();
  kernel.add("gemm_step_clocks", &G::Kernel::gemm_step_clocks, "least clocks of a step of a GEMM's main loop")
      .range(0, 1e6)
      .inherited();
  kernel
      .add("overlap_exponent", &G::Kernel::overlap_exponent, "p of the p-norm that combines tensor, L2 and memory time")
      .range(1, 64)
      .inherited();
  kernel
      .add("attention_ratio", &G::Kernel::attention_ratio,
           "rate of prefill attention, relative to its kernel's on tensor cores at the clock under load")
      .range(1e-6, 2)
      .required()
      .inherited();
  kernel
      .add("attention_block_us", &G::Kernel::attention_block_us,
           "fixed time of a thread block of prefill attention, besides its keys")
      .range(0, kMostUs)
      .required()
      .inherited();
  kernel.add("attention_fixed_us", &G::Kernel::attention_fixed_us, "launch, prologue and drain of prefill attention")
      .range(0, kMostUs)
      .required()
      .inherited();
  kernel
      .add("decode_attention_ratio", &G::Kernel::decode_attention_ratio,
           "share of hbm.gb_per_s that decode attention reaches with a kernel that reads as fast as memory lets it")
      .range(1e-6, 1)
      .required()
      .inherited();
  kernel.add("decode_attention_fixed_us", &G::Kernel::decode_attention_fixed_us, "fixed cost of decode attention")
      .range(0, kMostUs)
      .required()
      .inherited();

  // p2pBandwidthLatencyTest on A100: 2.7 us for a copy of 4 B, 5.1 us by SMs, without the path to the peer.
  Record<G::Copy> copy;
  copy.add("engine_us", &G::Copy::engine_us, "fixed cost of a copy by a copy engine")
      .range(0, kMostUs)
      .cite("p2pBandwidthLatencyTest, A100");
  copy.add("kernel_us", &G::Copy::kernel_us, "fixed cost of a copy by SMs")
      .range(0, kMostUs)
      .cite("p2pBandwidthLatencyTest, A100");

  Record<G::Collective> collective;
  collective
      .add("channels", &G::Collective::channels, "CTAs of NCCL's largest kernels; links with fewer rings have fewer")
      .range(1, 1024)
      .required()
      .inherited();
  collective
      .add("launch_us", &G::Collective::launch_us,
           "launch of an NCCL kernel from a stream, in a loop, to its first action")
      .range(0, kMostUs)
      .required()
      .inherited();
  collective
      .add("wide_launch_us", &G::Collective::wide_launch_us, "added to launch_us when channels have all their threads")
      .range(0, kMostUs)
      .required()
      .inherited();
  collective
      .add("graph_launch_us", &G::Collective::graph_launch_us,
           "launch of a serving engine's own kernel inside a CUDA graph")
      .range(0, kMostUs)
      .required()
      .inherited();
  collective.add("p2p_launch_us", &G::Collective::p2p_launch_us, "added to a launch for grouped sends and receives")
      .range(0, kMostUs)
      .required()
      .inherited();
  collective.add("ll_step_ns", &G::Collective::ll_step_ns, "LL: time of an action of a channel with few threads")
      .range(0, kMostNs)
      .required()
      .inherited();
  collective.add("ll_wide_step_ns", &G::Collective::ll_wide_step_ns, "added to ll_step_ns with all threads")
      .range(0, kMostNs)
      .required()
      .inherited();
  collective.add("ll_line_ns", &G::Collective::ll_line_ns, "LL: time of each further line of 8 B per thread")
      .range(0, kMostNs)
      .required()
      .inherited();
  collective.add("ll128_step_ns", &G::Collective::ll128_step_ns, "LL128: time of an action")
      .range(0, kMostNs)
      .required()
      .inherited();
  collective.add("ll128_gb_per_s", &G::Collective::ll128_gb_per_s, "LL128: payload rate of one channel")
      .range(1e-6, kMostRate)
      .required()
      .inherited();
  collective.add("simple_step_ns", &G::Collective::simple_step_ns, "Simple: time of an action (one slice)")
      .range(0, kMostNs)
      .required()
      .inherited();
  collective.add("simple_gb_per_s", &G::Collective::simple_gb_per_s, "Simple: payload rate of one channel")
      .range(1e-6, kMostRate)
      .required()
      .inherited();
  collective.add("p2p_gb_per_s", &G::Collective::p2p_gb_per_s, "all-to-all: payload rate of one channel")
      .range(1e-6, kMostRate)
      .required()
      .inherited();
  collective
      .add("p2p_copy_gb_per_s", &G::Collective::p2p_copy_gb_per_s,
           "sends and receives: rate at which one channel copies what has arrived to its place")
      .range(1e-6, kMostRate)
      .required()
      .inherited();
  collective.add("nvls_channels", &G::Collective::nvls_channels, "CTAs of in-switch kernels; 0: none")
      .range(0, 1024)
      .inherited();
  collective.add("nvls_step_ns", &G::Collective::nvls_step_ns, "in-switch kernels: time of an action")
      .range(0, kMostNs)
      .inherited();
  collective
      .add("nvls_gb_per_s", &G::Collective::nvls_gb_per_s,
           "in-switch kernels: payload rate of one channel, per role; 0: none")
      .none_or(kLeastRate, kMostRate)
      .inherited();
  collective
      .add("custom_step_ns", &G::Collective::custom_step_ns,
           "one-shot all-reduce of serving engines: time of an action")
      .range(0, kMostNs)
      .required()
      .inherited();
  collective
      .add("custom_fence_ns", &G::Collective::custom_fence_ns,
           "two-shot all-reduce of serving engines: time of an action, with a fence")
      .range(0, kMostNs)
      .required()
      .inherited();
  collective
      .add(
          "custom_pull_ns", &G::Collective::custom_pull_ns,
          "all-reduce of serving engines that reads from its peers: latency of a read while all CTAs read; 0: no limit")
      .range(0, kMostNs)
      .required()
      .inherited();
  collective
      .add("custom_gb_per_s", &G::Collective::custom_gb_per_s,
           "all-reduce of serving engines: rate at which all CTAs together store, or read and sum")
      .range(1e-6, kMostRate)
      .required()
      .inherited();

  Record<G::NvLink> nvlink;
  nvlink.add("generation", &G::NvLink::generation, "NVLink generation; 0: none").range(0, 16);
  nvlink.add("links", &G::NvLink::links, "number of links of the GPU").range(0, 64);
  nvlink.add("gb_per_s", &G::NvLink::gb_per_s, "rate per link and direction; 0: none").none_or(kLeastRate, kMostRate);
  nvlink.add("bridge", &G::NvLink::bridge, "the links join this card and its neighbour; they lead to no switch");

  Record<G::C2c> c2c;
  c2c.add("gb_per_s", &G::C2c::gb_per_s, "rate of NVLink-C2C to the GPU's CPU, one direction; 0: none")
      .none_or(kLeastRate, kMostRate);

  Record<G::Pcie> pcie;
  pcie.add("generation", &G::Pcie::generation, "PCIe generation").range(kOldestPcie, kNewestPcie).required();
  pcie.add("lanes", &G::Pcie::lanes, "PCIe lanes").range(1, 32);
  pcie.add(
      "p2p", &G::Pcie::p2p,
      "peers of the server reach this memory; false: their bytes bounce off host memory, except over an NVLink bridge");

  Record<G> r;
  r.nested("sm", &G::sm, sm, "streaming multiprocessors").required();
  r.nested("l2", &G::l2, l2, "second-level cache").required();
  r.nested("energy", &G::energy, energy, "energy of the board (docs/energy.md); an estimate");
  r.nested("hbm", &G::hbm, hbm, "device memory").required();
  r.nested("kernel", &G::kernel, kernel, "fitted kernel constants").required();
  r.nested("copy", &G::copy, copy, "copies between GPUs").inherited();
  r.nested("collective", &G::collective, collective, "collective kernels").required();
  r.nested("nvlink", &G::nvlink, nvlink, "NVLink ports");
  r.nested("c2c", &G::c2c, c2c, "NVLink-C2C port");
  r.nested("pcie", &G::pcie, pcie, "PCIe endpoint").required();
  return r;
}

}  // namespace railyard::scenario
