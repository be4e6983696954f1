// A collective as a dependency graph, written as one program per thread: a member has a few threads (bundles of CTAs that do
// the same on as many channels), and a thread does its actions in order. An action waits until lanes of its thread have had
// so many arrivals, moves bytes inside the GPU, and starts transfers; a transfer raises a lane of a thread when it has landed.
//
// Programs are functions of (member, thread, index), not lists, so that a ring over a thousand members costs counters only.
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
    write,      ///< to `to`; raises its lane
    flag,       ///< a write of kFlagBytes that no channel's rate limits
    reduce,     ///< the switch sums the range of all members of the server and returns it here; raises the own lane
    multicast,  ///< to every member of the server, this one included; raises the lane of all
  } kind = Kind::write;
  std::uint32_t to = 0;  ///< member; of reduce and multicast: ignored
  std::uint32_t thread = 0, lane = 0;
  Range range;  ///< payload, in the destination's buffer
};

struct Action {
  static constexpr std::uint32_t kNone = ~0u;
  std::uint32_t first_lane = 0, lanes = 0;  ///< waits for each of these lanes of its thread ...
  std::uint32_t arrivals = 0;               ///< ... to have had so many arrivals since the collective began
  Bytes work_bytes = 0;                     ///< moved inside the GPU before the transfers start: copies, sums
  bool continues = false;                   ///< the chunk of the thread's last action, whose step has been paid
  std::vector<Transfer> transfers;
  std::uint32_t signal_thread = kNone;  ///< raises a lane of another of the member's threads when it is over
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
  std::uint32_t threads() const { return threads_; }  ///< of each member
  std::uint32_t lanes() const { return lanes_; }      ///< of each thread
  /// CTAs of a thread.
  virtual std::uint32_t channels(std::uint32_t thread) const = 0;
  virtual std::uint32_t actions(std::uint32_t member, std::uint32_t thread) const = 0;
  /// Fills an action that is clear().
  virtual void describe(std::uint32_t member, std::uint32_t thread, std::uint32_t index, Action& action) const = 0;

 protected:
  Program(std::uint32_t threads, std::uint32_t lanes) : threads_(threads), lanes_(lanes) {}

 private:
  std::uint32_t threads_, lanes_;
};

/// Why there is no such program (one sentence), or null: there is.
const char* unsupported(const CollectiveSpec& spec, const Group& group);
/// @pre !unsupported(spec, group); the group outlives the program
std::unique_ptr<Program> make_program(const CollectiveSpec& spec, const Group& group);

// Each algorithm's own; make_program() chooses.
std::unique_ptr<Program> make_ring(const CollectiveSpec& spec, const Group& group);
std::unique_ptr<Program> make_tree(const CollectiveSpec& spec, const Group& group);
std::unique_ptr<Program> make_exchange(const CollectiveSpec& spec, const Group& group);
std::unique_ptr<Program> make_all_to_all(const CollectiveSpec& spec, const Group& group);
std::unique_ptr<Program> make_send_recv(const CollectiveSpec& spec, const Group& group);
std::unique_ptr<Program> make_nvls(const CollectiveSpec& spec, const Group& group);
std::unique_ptr<Program> make_hierarchical(const CollectiveSpec& spec, const Group& group);

/// How often a channel has to come back for its share of `bytes`, at most chunk_bytes each time.
inline std::uint32_t loops_of(const CollectiveSpec& spec, Bytes bytes, std::uint32_t channels) {
  if (spec.chunk_bytes == 0 || bytes == 0) return 1;
  return static_cast<std::uint32_t>(ceil_div(bytes, spec.chunk_bytes * channels));
}

/// The chains of members that rings and trees make of servers: by server, its members from member `entry` of it on and round.
/// Every entry is another ring or tree, so that every member's NIC carries one.
std::vector<std::vector<std::uint32_t>> chains_of(const Group& group, std::uint32_t entry);
/// How many entries differ: the members of the smallest server, one where there is one server.
std::uint32_t entries_of(const Group& group);

/// A binary tree over `size` nodes in which a node's subtree is a range: parent and children of each.
struct BinaryTree {
  static constexpr std::uint32_t kNone = ~0u;
  std::vector<std::uint32_t> parent;  ///< kNone: the root
  std::vector<std::vector<std::uint32_t>> children;
  /// Two trees in which at most one node is inside of both, so that together they load every node alike.
  /// @param which  0, or 1: the first one mirrored (even size) or shifted by one (odd size)
  static BinaryTree of(std::uint32_t size, std::uint32_t which);
};

}  // namespace railyard::collective
