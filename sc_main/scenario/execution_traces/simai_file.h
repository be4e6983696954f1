// Reads a workload in the text format of SimAI and ASTRA-sim 1.0 (aliyun/SimAI, astra-sim/workload/Workload.cc):
//
//   HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 2 vpp: 1 ga: 4 all_gpus: 16 ... pp_comm: 4096
//   ROWS
//   NAME DEPENDENCY FWD_NS FWD_COMM FWD_BYTES IG_NS IG_COMM IG_BYTES WG_NS WG_COMM WG_BYTES UPDATE_NS
//
// fwd: forward; ig: gradients of inputs; wg: gradients of weights. A collective is NONE, ALLREDUCE, ALLGATHER,
// REDUCESCATTER, ALLTOALL or BROADCAST, with the ending _EP or _DP_EP for other groups than the usual one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/input_error.h"
#include "base/units.h"
#include "collective/spec.h"

namespace railyard::scenario {

enum class SimaiGroup : std::uint8_t { usual, ep, dp_ep };

struct SimaiWork {
  Time compute;
  std::optional<collective::Operation> operation;  ///< none: NONE, or no bytes
  SimaiGroup group = SimaiGroup::usual;
  Bytes bytes = 0;  ///< of the whole vector, as in CollectiveSpec

  bool operator==(const SimaiWork& o) const {
    return compute == o.compute && operation == o.operation && group == o.group && bytes == o.bytes;
  }
};

struct SimaiRow {
  std::string name;
  int line = 0;
  SimaiWork forward, input_gradient, weight_gradient;
  Time update;  ///< after each of its collectives

  bool operator==(const SimaiRow& o) const {
    return name == o.name && forward == o.forward && input_gradient == o.input_gradient &&
           weight_gradient == o.weight_gradient && update == o.update;
  }
};

/// Which collectives a kind of workload has, and in what order it computes gradients.
struct SimaiPolicy {
  const char* name = "";
  bool backward = true;
  bool forward_collectives = true;  ///< and those of input gradients, over the model's group
  bool weight_collectives = true;   ///< over the group of replicas
  bool waits_for_inputs = false;    ///< a collective of input gradients ends before weight gradients begin
  bool weights_first = false;       ///< gradients of weights before those of inputs
  bool is_benchmark = false;        ///< only collectives of weight gradients, one after the other
  /// The model's group: all ranks, those of a server, one of each server, or as the first line says.
  enum class Split : std::uint8_t { all, first_dimension, other_dimensions, by_head } split = Split::all;
};

struct SimaiFile {
  std::string path;
  const SimaiPolicy* policy = nullptr;
  std::uint32_t tp = 1, ep = 1, pp = 1, vpp = 1, ga = 1;
  std::optional<std::uint32_t> all_gpus;
  Bytes pp_bytes = 0;
  std::vector<std::uint32_t> checkpoints, initiates;  ///< rows
  std::vector<SimaiRow> rows;
};

/// @param where  of the key that names the file
SimaiFile read_simai(const std::string& path, const Origin& where);

}  // namespace railyard::scenario
