// What is told of a job when it is over, and how it is named. Names follow one pattern in every output, brackets literal.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"
#include "collective/spec.h"

namespace railyard::workload {

struct JobRecord {
  enum class Kind : std::uint8_t {
    prefill,              ///< P_Rank_PP[p]_TP[t]_Chunk[c]: all kernels of a chunk on a rank
    tp_all_reduce,        ///< TP_AR_PP[p]_Layer[l]_Chunk[c]_Attn | _Mlp
    tp_all_gather,        ///< TP_AG_PP[p]_Chunk[c]: activation shards that came from the stage before
    pp_activation,        ///< PP_Act_FromP[p]_ToP[p+1]_TP[t]_Chunk[c]
    handoff,              ///< Handoff_PP[p]_TP[t]_Chunk[c], with _Layer[l] when handed off per layer
    decode,               ///< D_Rank_[r]_Step_[s]
    decode_all_reduce,    ///< D_TP_AR_PP[p]_Layer[l]_Step_[s]_Attn | _Mlp
    decode_all_gather,    ///< D_TP_AG_PP[p]_Step_[s]
    decode_activation,    ///< D_PP_Act_FromP[p]_ToP[p+1]_TP[t]_Step_[s]
    decode_token,         ///< D_Token_FromP[p]_ToP[0]_TP[t]_Step_[s]: sampled tokens back to the first stage
    host_request,         ///< Host_Request: from a request's arrival until it is queued
    host_prefill,         ///< Host_P_Chunk[c]: what comes before a chunk's first kernel
    host_prefill_launch,  ///< Host_P_Launch_PP[p]_Layer[l]_Chunk[c]: launches of a layer's kernels
    host_decode,          ///< Host_D_Step_[s]
    host_decode_launch,   ///< Host_D_Launch_PP[p]_Layer[l]_Step_[s]
    host_token,           ///< Host_Token[i]: an output token on its way to the client
    collective_test,      ///< AR_Bytes[b]_It[i]: one iteration of a collective test; AG, RS, BC, A2A, SR in place of AR
    copy_test,            ///< Copy_From[i]_To[j], Both_From[i]_To[j], Latency_From[i]_To[j]: a pair of the matrix
    host_copy_test,       ///< H2D_GPU[i], D2H_GPU[i]: a GPU and its host
    write_test,           ///< Write_Bytes[b], WriteLatency_Bytes[b]: a size of an ib_write sweep
    layer_kernel,         ///< Layer_TP[t]_Step[i]: a kernel of a layer run on its own
    layer_collective,     ///< Layer_AR_Step[i]: one of its collectives; AG, RS in place of AR
    kernel_test,          ///< Kernel[i]_GPU[g]: a kernel of the list, on the GPU of a group
    overlap_gemm,         ///< Gemm_[method]_Rank[r]_Step[i]: a product, or a piece of it, of an overlap test
    overlap_collective,   ///< Collective_[method]_Rank[r]
    overlap_shard,        ///< Shard_[method]_Rank[r]_Step[i]: what copy engines move from a rank
    overlap_sum,          ///< Sum_[method]_Rank[r]
  };
  static constexpr std::uint32_t kNone = 0xffffffffu;

  Kind kind = Kind::prefill;
  std::uint32_t stage = 0, tp = 0, layer = kNone;
  std::uint32_t index = 0;  ///< chunk, step, iteration, kernel, step of a layer or of an overlap test, or p2p::Measure
  std::uint32_t request = kNone;  ///< named only where a run has several
  bool mlp = false;
  collective::Operation operation = collective::Operation::all_reduce;  ///< of a collective test
  std::uint32_t rank = 0;                                               ///< p*tp+t; of a collective its first member
  Time start, end;
  Time queued;  ///< behind other work in its stream, once all it waits for was done; of a collective: until
                ///< the last peer entered
  Bytes bytes = 0;

  std::string name() const;
  /// Of the column `kind`: compute, tp, pp, kv, host or test.
  const char* kind_name() const;
  /// Whether this is one of the jobs kept at `--jobs stage`: everything but what comes once a layer or token.
  bool per_stage() const {
    return kind != Kind::tp_all_reduce && kind != Kind::decode_all_reduce &&
           (kind != Kind::handoff || layer == kNone) && kind != Kind::host_prefill_launch &&
           kind != Kind::host_decode_launch && kind != Kind::host_token;
  }
};

class JobSink {
 public:
  virtual void on_job(const JobRecord& record) = 0;

 protected:
  ~JobSink() = default;
};

}  // namespace railyard::workload
