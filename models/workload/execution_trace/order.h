// The order in which the nodes of a trace are emitted, and the check that all ranks together can run it.
//
// Nodes that meet become one: all members of a collective, a send and its receive. Members meet in the order of their
// programs: the k-th node of each member that names the group, and the k-th send and receive of a pair with the same
// tag. The order is then a topological order of all ranks together. A stream runs its jobs in the order of their
// emission, so no stream waits for a job behind another job that waits for it: a trace that has an order cannot hang.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "workload/execution_trace/trace.h"

namespace railyard::workload::execution_trace {

/// A trace that cannot run. `what` does not name the node.
struct TraceError : std::runtime_error {
  TraceError(std::uint32_t of_rank, std::uint32_t node_index, const std::string& what)
      : std::runtime_error(what), rank(of_rank), node(node_index) {}
  std::uint32_t rank, node;
};

/// Nodes of several ranks that run as one.
struct Meeting {
  std::uint32_t group = 0;   ///< of a collective, in Trace::groups
  bool is_exchange = false;  ///< a send and its receive
  /// The send waits for nothing of the receiving rank: its bytes have a buffer there, as those of isend() have. The receive
  /// is done when the bytes have arrived and the nodes for which it waits are done.
  bool is_eager = false;
  std::vector<std::uint32_t> ranks;  ///< by member; of an exchange the sender and the receiver
  std::vector<std::uint32_t> nodes;  ///< by member
};

/// One emission: a node of a rank, or a meeting.
struct Emission {
  static constexpr std::uint32_t kAlone = ~0u;
  std::uint32_t meeting = kAlone;
  std::uint32_t rank = 0, node = 0;  ///< alone
};

struct Order {
  std::vector<Meeting> meetings;
  std::vector<Emission> emissions;  ///< nodes of kind none have none
  bool eager_sends = false;

  /// Whether this send or receive belongs to an eager exchange. Those of a run that Railyard exported wait as they did there.
  bool is_eager(const TraceNode& node) const { return eager_sends && !node.spec && !node.engine; }
};

/// Sorts the nodes of a program topologically, smaller ids first, and lets dependencies on nodes of kind none pass
/// through. @throws TraceError at rank 0: a cycle
void sort_nodes(Program& program);

/// @pre the programs are sorted
/// @param eager_sends  sends do not wait for their receives
/// @throws TraceError: members of a group that disagree, a send without its receive, ranks that wait for each other
Order order_of(const Trace& trace, bool eager_sends);

/// A name for tables: other characters than those of ASCII, commas and quotes become _, and long names are cut.
std::string plain_name(const std::string& name);

/// "node 7 ('all_reduce')"
std::string text_of(const TraceNode& node);

}  // namespace railyard::workload::execution_trace
