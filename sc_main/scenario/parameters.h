// A scenario as it is written: the structs that the parameter table fills, before names are looked up and sizes worked
// out. The member initialisers are the defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/kernels/kernel_spec.h"
#include "platforms/machine_spec.h"
#include "sc_main/scenario.h"
#include "sc_main/scenario/model/config.h"
#include "sc_main/scenario/model/profile.h"
#include "sc_main/scenario/table/record.h"
#include "workload/bench/collective_spec.h"
#include "workload/bench/layer_spec.h"
#include "workload/bench/overlap_spec.h"
#include "workload/bench/point_to_point_spec.h"
#include "workload/prefill/spec.h"

namespace railyard::scenario {

struct GroupSection {
  std::string name;  ///< its key
  std::uint32_t servers = 1;
  std::string gpu;  ///< "": the board's
};

struct PlxSection {
  std::string datasheet;  ///< "": the board's
  platforms::Uplink uplink = platforms::Uplink::dual_root;
  std::optional<std::uint32_t> nics_per_plx;
  bool acs = false;
};

struct NicSection {
  std::string datasheet;  ///< "": the board's
  std::optional<std::uint32_t> per_server;
};

enum class NetworkWord { single_switch, leaf_spine, rail_optimized };

struct NetworkSection {
  std::optional<NetworkWord> kind;  ///< nullopt: by what fits
  std::string datasheet;            ///< "": the NIC's
  bool rail_optimized = false;
  std::optional<infiniband::Routing> routing;
  std::optional<std::uint32_t> spines;
};

struct MachineSection {
  std::vector<GroupSection> groups;
  PlxSection plx;
  NicSection nic;
  NetworkSection network;
  platforms::NvLinkBridge nvlink_bridge = platforms::NvLinkBridge::none;
};

struct ClassSection {
  std::uint32_t vc = 0;
  std::uint32_t weight = 1;
  std::uint32_t priority = 0;
};

struct ClassesSection {
  ClassSection tp, pp, kv{1, 1, 0};
};

struct FabricSection {
  transport::Fidelity fidelity = transport::Fidelity::train;
  std::optional<std::uint64_t> transaction_bytes;
  ClassesSection classes;
};

struct EventItem {
  double at_us = 0;
  std::string link, gpu;  ///< "": not of one
  std::optional<LinkSide> side;
  std::optional<double> rate_ratio, slow_ratio;
  bool fail = false;
};

struct RequestItem {
  double arrival_s = 0;
  std::uint32_t prompt_tokens = 0;
  std::optional<std::uint32_t> output_tokens;
};

enum class TraceFormat { azure, mooncake };

struct RequestsSection {
  std::uint32_t count = 1;
  std::uint32_t prompt_tokens = 0;
  std::optional<std::uint32_t> output_tokens;
  std::vector<RequestItem> list;
  TraceFormat format = TraceFormat::azure;
  std::string file;
  std::optional<std::uint32_t> max_count;
  double rate_scale = 1;
};

struct MappingSection {
  std::optional<std::uint32_t> tp, pp;
  std::optional<std::vector<std::uint32_t>> stage_layers;
};

struct DecodeSection : MappingSection {
  std::optional<std::uint32_t> steps;  ///< nullopt: the trace's, or the default where there is none
  std::uint32_t max_batch = 32;
};

struct PlacementSection {
  std::optional<std::vector<std::uint32_t>> prefill, decode;
};

struct HostSection {
  std::string preset = "vllm_v1";
  std::optional<bool> async;
  std::optional<double> step_us, sequence_us, layer_us, request_us, token_us;
};

struct PrefillSection {
  RequestsSection requests;
  std::uint32_t chunk_tokens = 256;
  double memory_limit_ratio = 0.9;
  PlacementSection placement;
  workload::prefill::NicRule nic_rule = workload::prefill::NicRule::modulo;
  workload::prefill::Handoff handoff = workload::prefill::Handoff::per_chunk;
  workload::prefill::PpSend pp_send = workload::prefill::PpSend::shard;
  HostSection host;
  MappingSection prefill;
  DecodeSection decode;
};

enum class AlgorithmWord { automatic, ring, tree, nvls, nvls_tree, one_shot, two_shot, hierarchical, direct, pxn };
enum class ProtocolWord { automatic, simple, ll, ll128 };

struct RanksSection {
  std::optional<std::uint32_t> rank_count;          ///< the first so many GPUs
  std::optional<std::vector<std::uint32_t>> ranks;  ///< these GPUs
  std::optional<std::uint32_t> ranks_per_server;
};

struct SizesSection {
  std::uint64_t min_bytes = 8;
  std::uint64_t max_bytes = 128u << 20;
  std::uint32_t factor = 2;
  std::vector<std::uint64_t> sizes_bytes;  ///< empty: from min_bytes to max_bytes
};

struct CollectiveSection : RanksSection, SizesSection {
  collective::Operation operation = collective::Operation::all_reduce;
  workload::collective_bench::ElementType dtype = workload::collective_bench::ElementType::fp32;
  workload::collective_bench::Library library = workload::collective_bench::Library::nccl;
  AlgorithmWord algorithm = AlgorithmWord::automatic;
  ProtocolWord protocol = ProtocolWord::automatic;
  std::uint32_t root = 0;
  bool both_directions = false;
  bool in_graph = false;
  std::uint32_t iterations = 1;
  std::vector<double> skew_us;
};

struct PointToPointSection : RanksSection, SizesSection {
  PointToPointSection() {
    min_bytes = 2;
    max_bytes = 8u << 20;
  }
  workload::p2p::Test test = workload::p2p::Test::matrix;
  transport::Engine engine = transport::Engine::copy_engine;
  workload::p2p::Memory memory = workload::p2p::Memory::host;
  bool p2p = true;
  std::optional<std::uint64_t> copy_bytes;
  std::optional<std::uint32_t> iterations;
  std::uint32_t queue_pairs = 1;
  std::uint32_t tx_depth = 128;
};

/// Kernels of one operation: every combination of the values that its keys list; an empty list is a key that is not written.
struct KernelItem {
  using Numbers = std::vector<std::uint64_t>;
  gpu::KernelOp op = gpu::KernelOp::gemm;
  std::vector<gpu::KernelLaunch> launch;
  std::vector<DataType> dtype, result_dtype, kv_dtype;
  Numbers m, n, k, groups, weight_copies;
  Numbers heads, kv_heads, head_dim, value_dim, batch, context_tokens;
  Numbers contexts_tokens;  ///< no sweep: of each sequence of one batch
  Numbers tokens, width, bytes;
  std::optional<bool> latent, causal, split_context, residual, gated, dynamic, kv_cache, cold, split_k, steady;
  std::optional<double> load_bytes, host_us;
};

struct KernelSection {
  std::vector<KernelItem> kernels;
};

struct LayerSection {
  workload::layer::Phase phase = workload::layer::Phase::prefill;
  std::uint32_t tp = 1;
  std::uint32_t batch = 1;
  std::optional<std::uint64_t> tokens;
  std::uint64_t context_tokens = 0;
  bool sequence_parallel = false;
  std::optional<collective::Library> library;  ///< nullopt: by phase
};

struct OverlapGemmSection {
  std::uint64_t m = 0, n = 0, k = 0;
  DataType dtype = DataType::bf16;
};

struct OverlapSection : RanksSection {
  workload::overlap::Operation operation = workload::overlap::Operation::all_gather_gemm;
  OverlapGemmSection gemm;
  std::optional<std::uint64_t> collective_bytes;
  std::vector<workload::overlap::Method> methods;  ///< empty: those of the operation
};

enum class WorkloadKind { disaggregated_prefill, collective, p2p, kernel, layer, overlap };

/// Only the section of its kind is written.
struct WorkloadSection {
  WorkloadKind kind = WorkloadKind::disaggregated_prefill;
  PrefillSection prefill;
  CollectiveSection collective;
  PointToPointSection p2p;
  KernelSection kernel;
  LayerSection layer;
  OverlapSection overlap;
};

struct ScenarioFile {
  std::string name;  ///< "": the file's path
  std::uint32_t schema_version = 1;
  std::string platform;  ///< "": the executable's
  std::uint64_t seed = 1;
  ModelSection model;
  MachineSection machine;
  ComputeSection compute;
  FabricSection fabric;
  std::vector<EventItem> events;
  WorkloadSection workload;
};

constexpr std::uint32_t kDefaultSteps = 8;

/// The parameter table, and the part of it that is the workload's own.
const Record<ScenarioFile>& scenario_table();
void add_workload(Record<ScenarioFile>& table);
Record<KernelSection> kernel_record();
Record<LayerSection> layer_record();

}  // namespace railyard::scenario
