// An execution trace: the work of each rank as a graph of nodes, from a file that another program wrote (kind `trace`).
// Plain data without SystemC. The loader reads a format into a Trace (sc_main/scenario/execution_traces), order_of()
// checks that all ranks together can run it (order.h), and a TracePlayer runs it (player.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collective/spec.h"
#include "gpu/kernels/kernel_chain.h"
#include "gpu/stream.h"
#include "workload/traffic.h"

namespace railyard::workload::execution_trace {

enum class NodeKind : std::uint8_t {
  compute,     ///< on the GPU
  host,        ///< work of host software
  collective,  ///< one member of a collective
  send,
  receive,
  copy,   ///< messages to other GPUs, where no node receives them
  load,   ///< from the memory of the GPU's host to the GPU
  store,  ///< from the GPU to the memory of its host
  none    ///< takes no time; passes its dependencies on
};

struct CopyEngine {
  transport::Engine engine = transport::Engine::copy_engine;
  std::uint32_t queue_pair = 0;
  Time start;  ///< before the first byte
  std::uint8_t traffic_class = 0;
};

struct TraceNode {
  std::uint64_t id = 0;  ///< in its file, for errors: id of a node, or number of a line
  std::string name;
  NodeKind kind = NodeKind::compute;
  Time duration;  ///< compute, host
  /// Compute without a duration: the GPU's roofline gives its time.
  bool by_roofline = false;
  double flops = 0, hbm_bytes = 0;
  collective::Operation operation = collective::Operation::all_reduce;
  Bytes bytes = 0;                   ///< of a collective as in CollectiveSpec; of a message
  std::uint32_t group = 0;           ///< of a collective: place in RankTrace::groups
  std::uint32_t peer = 0;            ///< send, receive: place in RankTrace::peers
  std::uint64_t tag = 0;             ///< send, receive
  std::vector<std::uint32_t> after;  ///< nodes of the same program for which this node waits

  // Of a run that Railyard exported; otherwise the player decides.
  std::uint32_t stream = 0;                        ///< place in Trace::streams, counted from 1; 0: the kind's stream
  std::optional<std::uint32_t> behind;             ///< node before it in this stream
  gpu::SharedChain kernels;                        ///< of a compute node
  std::optional<collective::CollectiveSpec> spec;  ///< of a collective, or of a send and a receive by SMs
  std::optional<CopyEngine> engine;  ///< of a send and a receive by a copy engine; of a copy, load or store
  std::vector<std::pair<std::uint32_t, Bytes>> messages;  ///< of a copy: rank and bytes
};

/// Several ranks may run the same program.
struct Program {
  std::vector<TraceNode> nodes;
};

struct RankTrace {
  std::uint32_t program = 0;
  std::vector<std::uint32_t> groups;  ///< in Trace::groups
  std::vector<std::uint32_t> peers;   ///< ranks
};

/// Ranks that run collectives together.
struct CommGroup {
  std::string name;
  TrafficClass traffic_class = TrafficClass::tp;
  std::vector<std::uint32_t> ranks;
};

/// A stream of a run that Railyard exported.
struct ExportedStream {
  std::string name;
  gpu::CommPriority comm_priority = gpu::CommPriority::high;
};

struct Trace {
  std::vector<Program> programs;
  std::vector<RankTrace> ranks;
  std::vector<CommGroup> groups;
  std::vector<ExportedStream> streams;
  bool members_begin_together = false;  ///< see Executor

  const std::vector<TraceNode>& nodes(std::uint32_t rank) const { return programs[ranks[rank].program].nodes; }
};

}  // namespace railyard::workload::execution_trace
