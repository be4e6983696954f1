// A collective as a dependency graph, written as one program per thread. A member has a few threads; a thread is a
// bundle of CTAs, one per channel, that do the same. A thread does its actions in order. An action waits until lanes of
// its thread have a given number of arrivals, then moves bytes inside the GPU, and then starts transfers. When a
// transfer has landed, it raises a lane of a thread: one more arrival.
//
// Programs are functions of (member, thread, index), not lists, so a ring over a thousand members needs only counters.
// Graphs: NVIDIA/nccl src/device/{all_reduce,all_gather,reduce_scatter,sendrecv}.h and src/graph/trees.cc;
// vllm-project/vllm csrc/custom_all_reduce.cuh (one-shot, two-shot).
#pragma once

#include <memory>
#include <vector>

#include "collective/spec.h"

namespace railyard::collective {

/// Bytes of a flag: one 16 B store.
constexpr Bytes kFlagBytes = 16;

struct Transfer {
  enum class Kind : std::uint8_t {
    write,      ///< to member `to`; raises a lane there
    flag,       ///< a write of kFlagBytes, not limited by the rate of a channel
    reduce,     ///< the switch returns the sum of the range over all members of the server; raises a lane of the sender
    multicast,  ///< to every member of the server, including the sender; raises a lane at each of them
    aggregate,  ///< to the network, which returns the sum over the heads with this place; raises a lane of the sender
  } kind = Kind::write;
  std::uint32_t to = 0;  ///< member; only for write and flag
  std::uint32_t thread = 0, lane = 0;
  Range range;  ///< payload, in the destination's buffer
};

struct Action {
  static constexpr std::uint32_t kNone = ~0u;
  std::uint32_t first_lane = 0, lanes = 0;  ///< waits until each of these lanes of its thread ...
  std::uint32_t arrivals = 0;               ///< ... has this number of arrivals since the collective began
  Bytes work_bytes = 0;                     ///< moved inside the GPU before the transfers start: copies, sums
  bool continues = false;                   ///< same chunk as the previous action of the thread: no further step cost
  std::vector<Transfer> transfers;
  std::uint32_t signal_thread = kNone;  ///< at its end, raises a lane of this thread of the same member
  std::uint32_t signal_lane = 0;

  void clear() {
    lanes = arrivals = first_lane = 0;
    work_bytes = 0;
    continues = false;
    transfers.clear();
    signal_thread = kNone;
  }
  void wait(std::uint32_t first, std::uint32_t count, std::uint32_t so_many) {
    first_lane = first;
    lanes = count;
    arrivals = so_many;
  }
  void send(std::uint32_t to, std::uint32_t thread, std::uint32_t lane, const Range& range) {
    transfers.push_back({Transfer::Kind::write, to, thread, lane, range});
  }
  void send_flag(std::uint32_t to, std::uint32_t thread, std::uint32_t lane) {
    transfers.push_back({Transfer::Kind::flag, to, thread, lane, {0, kFlagBytes}});
  }
};

class Program {
 public:
  virtual ~Program() = default;
  std::uint32_t threads() const { return threads_; }  ///< per member
  std::uint32_t lanes() const { return lanes_; }      ///< per thread
  /// Number of CTAs of a thread.
  virtual std::uint32_t channels(std::uint32_t thread) const = 0;
  virtual std::uint32_t actions(std::uint32_t member, std::uint32_t thread) const = 0;
  /// Fills `action`. @pre the action has been cleared with clear()
  virtual void describe(std::uint32_t member, std::uint32_t thread, std::uint32_t index, Action& action) const = 0;
  /// Whether all members, or all with the same place on their servers, do the same at the same time.
  virtual bool is_alike() const { return false; }
  /// A lane of a thread.
  struct Point {
    std::uint32_t thread = 0, lane = 0;
  };
  /// Whether the members of a server, each server with as many, do the same at the same time, each from its own place:
  /// what a point is to one of them, turned(point, k) is to the member k places before it.
  virtual bool turns() const { return false; }
  virtual Point turned(Point point, std::uint32_t) const { return point; }

 protected:
  Program(std::uint32_t threads, std::uint32_t lanes) : threads_(threads), lanes_(lanes) {}

 private:
  std::uint32_t threads_, lanes_;
};

/// The reason why there is no program for this (one sentence), or null if there is one.
const char* unsupported(const CollectiveSpec& spec, const Group& group);
/// @pre !unsupported(spec, group); the group outlives the program
std::unique_ptr<Program> make_program(const CollectiveSpec& spec, const Group& group);

// One function per algorithm; make_program() selects.
std::unique_ptr<Program> make_ring(const CollectiveSpec& spec, const Group& group);
std::unique_ptr<Program> make_tree(const CollectiveSpec& spec, const Group& group);
std::unique_ptr<Program> make_exchange(const CollectiveSpec& spec, const Group& group);
std::unique_ptr<Program> make_all_to_all(const CollectiveSpec& spec, const Group& group);
std::unique_ptr<Program> make_token_exchange(const CollectiveSpec& spec, const Group& group);
std::unique_ptr<Program> make_send_recv(const CollectiveSpec& spec, const Group& group);
std::unique_ptr<Program> make_nvls(const CollectiveSpec& spec, const Group& group);
std::unique_ptr<Program> make_collnet_direct(const CollectiveSpec& spec, const Group& group);
std::unique_ptr<Program> make_hierarchical(const CollectiveSpec& spec, const Group& group);
/// Of a group in parts: each part runs the program of its own.
std::unique_ptr<Program> make_in_parts(const CollectiveSpec& spec, const Group& group);

/// Number of rounds in which a channel moves its share of `bytes`, with at most chunk_bytes per round.
inline std::uint32_t loops_of(const CollectiveSpec& spec, Bytes bytes, std::uint32_t channels) {
  if (spec.chunk_bytes == 0 || bytes == 0) return 1;
  return static_cast<std::uint32_t>(ceil_div(bytes, spec.chunk_bytes * channels));
}

/// Chains of members for rings and trees: for each server, its members in cyclic order from member `entry` on. Each
/// value of `entry` gives a different ring or tree, so that the NIC of every member carries one. In one server whose
/// members NVLinks join directly, `entry` counts the orders that start with member 0, so that every link carries as many rings.
std::vector<std::vector<std::uint32_t>> chains_of(const Group& group, std::uint32_t entry);
/// Number of different entries: the members of the smallest server; in one server 1, or the number of orders.
std::uint32_t entries_of(const Group& group);

/// A binary tree over `size` nodes, with parent and children of each node. Every subtree is a contiguous range of
/// nodes.
struct BinaryTree {
  static constexpr std::uint32_t kNone = ~0u;
  std::vector<std::uint32_t> parent;  ///< kNone: the root
  std::vector<std::vector<std::uint32_t>> children;
  /// Two trees that together load every node equally: at most one node is an inner node of both.
  /// @param which  0: the first tree; 1: the first tree mirrored (even size) or shifted by one (odd size)
  static BinaryTree of(std::uint32_t size, std::uint32_t which);
};

}  // namespace railyard::collective
