#include "workload/job_record.h"

#include <fmt/format.h>
#include <array>

#include "workload/overlap/spec.h"

namespace railyard::workload {

namespace {

/// By p2p::Measure.
constexpr std::array<const char*, 7> kMeasures{"Copy", "Both", "Latency", "Write", "WriteLatency", "H2D", "D2H"};

const char* initials(collective::Operation operation) {
  constexpr std::array<const char*, 6> kInitials{"AR", "AG", "RS", "BC", "A2A", "SR"};
  return kInitials[static_cast<std::size_t>(operation)];
}

}  // namespace

std::string JobRecord::name() const {
  const char* half = mlp ? "Mlp" : "Attn";
  std::string name;
  switch (kind) {
    case Kind::prefill: name = fmt::format("P_Rank_PP[{}]_TP[{}]_Chunk[{}]", stage, tp, index); break;
    case Kind::tp_all_reduce:
      name = fmt::format("TP_AR_PP[{}]_Layer[{}]_Chunk[{}]_{}", stage, layer, index, half);
      break;
    case Kind::tp_all_gather: name = fmt::format("TP_AG_PP[{}]_Chunk[{}]", stage, index); break;
    case Kind::pp_activation:
      name = fmt::format("PP_Act_FromP[{}]_ToP[{}]_TP[{}]_Chunk[{}]", stage, stage + 1, tp, index);
      break;
    case Kind::handoff:
      name = fmt::format("Handoff_PP[{}]_TP[{}]_Chunk[{}]", stage, tp, index);
      if (layer != kNone) name += fmt::format("_Layer[{}]", layer);
      break;
    case Kind::decode: name = fmt::format("D_Rank_[{}]_Step_[{}]", rank, index); break;
    case Kind::decode_all_reduce:
      name = fmt::format("D_TP_AR_PP[{}]_Layer[{}]_Step_[{}]_{}", stage, layer, index, half);
      break;
    case Kind::decode_all_gather: name = fmt::format("D_TP_AG_PP[{}]_Step_[{}]", stage, index); break;
    case Kind::decode_activation:
      name = fmt::format("D_PP_Act_FromP[{}]_ToP[{}]_TP[{}]_Step_[{}]", stage, stage + 1, tp, index);
      break;
    case Kind::decode_token: name = fmt::format("D_Token_FromP[{}]_ToP[0]_TP[{}]_Step_[{}]", stage, tp, index); break;
    case Kind::host_request: name = "Host_Request"; break;
    case Kind::host_prefill: name = fmt::format("Host_P_Chunk[{}]", index); break;
    case Kind::host_prefill_launch:
      name = fmt::format("Host_P_Launch_PP[{}]_Layer[{}]_Chunk[{}]", stage, layer, index);
      break;
    case Kind::host_decode: name = fmt::format("Host_D_Step_[{}]", index); break;
    case Kind::host_decode_launch:
      name = fmt::format("Host_D_Launch_PP[{}]_Layer[{}]_Step_[{}]", stage, layer, index);
      break;
    case Kind::host_token: name = fmt::format("Host_Token[{}]", index); break;
    case Kind::collective_test: name = fmt::format("{}_Bytes[{}]_It[{}]", initials(operation), bytes, index); break;
    case Kind::layer_kernel: name = fmt::format("Layer_TP[{}]_Step[{}]", tp, index); break;
    case Kind::layer_collective: name = fmt::format("Layer_{}_Step[{}]", initials(operation), index); break;
    case Kind::copy_test: name = fmt::format("{}_From[{}]_To[{}]", kMeasures[index], stage, tp); break;
    case Kind::host_copy_test: name = fmt::format("{}_GPU[{}]", kMeasures[index], rank); break;
    case Kind::kernel_test: name = fmt::format("Kernel[{}]_GPU[{}]", index, rank); break;
    case Kind::overlap_gemm:
      name = fmt::format("Gemm_{}_Rank[{}]_Step[{}]", overlap::kMethodNames[stage], rank, index);
      break;
    case Kind::overlap_collective:
      name = fmt::format("Collective_{}_Rank[{}]", overlap::kMethodNames[stage], rank);
      break;
    case Kind::overlap_shard:
      name = fmt::format("Shard_{}_Rank[{}]_Step[{}]", overlap::kMethodNames[stage], rank, index);
      break;
    case Kind::overlap_sum: name = fmt::format("Sum_{}_Rank[{}]", overlap::kMethodNames[stage], rank); break;
    case Kind::write_test: name = fmt::format("{}_Bytes[{}]", kMeasures[index], bytes); break;
  }
  if (request != kNone) name += fmt::format("_Req[{}]", request);
  return name;
}

const char* JobRecord::kind_name() const {
  switch (kind) {
    case Kind::prefill:
    case Kind::decode:
    case Kind::layer_kernel: return "compute";
    case Kind::tp_all_reduce:
    case Kind::tp_all_gather:
    case Kind::layer_collective:
    case Kind::decode_all_reduce:
    case Kind::decode_all_gather: return "tp";
    case Kind::pp_activation:
    case Kind::decode_activation:
    case Kind::decode_token: return "pp";
    case Kind::handoff: return "kv";
    case Kind::host_request:
    case Kind::host_prefill:
    case Kind::host_prefill_launch:
    case Kind::host_decode:
    case Kind::host_decode_launch:
    case Kind::host_token: return "host";
    case Kind::collective_test:
    case Kind::copy_test:
    case Kind::host_copy_test:
    case Kind::write_test:
    case Kind::kernel_test:
    case Kind::overlap_gemm:
    case Kind::overlap_collective:
    case Kind::overlap_shard:
    case Kind::overlap_sum: return "test";
  }
  return "";
}

}  // namespace railyard::workload
