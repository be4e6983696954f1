// What a collective is: which operation, by which algorithm and protocol, over how many channels, and what each step costs
// the SMs. Plain data. Who takes part is a Group; the dependency graph that follows from both is a Program (program.h).
//
// Sizes are those of nccl-tests: `bytes` is the vector of an all-reduce or broadcast, the gathered vector of an all-gather,
// the scattered one of a reduce-scatter, a member's whole send buffer of an all-to-all, the message of a send/recv.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "base/units.h"
#include "gpu/kernels/kernel_time.h"
#include "transport/device/message.h"

namespace railyard::collective {

enum class Operation : std::uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send_recv };
enum class Algorithm : std::uint8_t { ring, tree, nvls, nvls_tree, one_shot, two_shot, hierarchical, direct, pxn };
/// NCCL's: Simple moves slots of data and then a flag; in LL every 8 B carry 8 B of flags, in LL128 every 120 B carry 8 B.
enum class Protocol : std::uint8_t { simple, ll, ll128 };

/// Whose rules choose algorithm and protocol, and whose kernels run.
enum class Library : std::uint8_t { nccl, vllm, sglang, trtllm };

/// Names as scenarios and tables write them, in the order of the enumerators.
extern const std::vector<const char*> kOperationNames, kAlgorithmNames, kProtocolNames, kLibraryNames;
/// As names of jobs abbreviate an operation: AR, AG, RS, BC, A2A, SR.
const char* initials(Operation operation);

/// What an action of a channel's CTA costs beyond what the fabric takes. All zero: SMs are free and infinitely fast.
struct StepCost {
  Time step;             ///< every action: poll, barrier, issue, fence, flag; the CTA is held
  Bytes line_bytes = 0;  ///< what a channel's threads move in one go; 0: no such grain
  Time line;             ///< for each go after the first of a step
  Rate channel_rate;     ///< payload that one channel moves; zero: no limit
  std::uint32_t wire_numerator = 1, wire_denominator = 1;  ///< bytes stored per byte of payload
  Time network_send, network_receive;  ///< the proxies' part when a transfer leaves the server, at either end

  auto key() const {
    return std::make_tuple(step, line_bytes, line, channel_rate.bytes_per_second(), wire_numerator, wire_denominator,
                           network_send, network_receive);
  }
  Bytes wire_bytes(Bytes payload) const { return ceil_div(payload * wire_numerator, wire_denominator); }
};

struct CollectiveSpec {
  Operation operation = Operation::all_reduce;
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  Bytes bytes = 0;
  std::uint32_t root = 0;             ///< broadcast: the member that has it
  std::uint32_t channels = 1;         ///< CTAs of a member
  std::uint32_t slices = 1;           ///< per chunk: what is sent on as soon as it is there
  Bytes chunk_bytes = 0;              ///< most that one channel moves in a step; 0: all at once
  std::uint32_t slots = 0;            ///< transfers that a sender may be ahead of its receiver; 0: no limit
  std::uint32_t barriers_before = 0;  ///< one-shot and two-shot: exchanges of flags before the data
  std::uint32_t barriers_after = 0;
  bool both_directions = false;  ///< ring: every other channel runs the other way round
  bool one_way = false;          ///< send/recv: only the first member sends, only the second one receives
  std::uint8_t traffic_class = 0;
  std::uint32_t channel =
      0;  ///< of its first thread's messages, the next thread's is one higher: those of one (class, destination, channel) keep their order
  Time launch;  ///< from entering to the first action
  Time host;    ///< a member is not done sooner after entering: calls from a slow host
  StepCost cost;

  /// All of it, to compare and to sort by.
  auto key() const {
    return std::tuple_cat(std::make_tuple(operation, algorithm, protocol, bytes, root, channels, slices, chunk_bytes,
                                          slots, barriers_before, barriers_after, both_directions, one_way,
                                          traffic_class, channel, launch, host),
                          cost.key());
  }
};

/// What the CTA of a channel takes of an SM: NCCL's kernels have up to 640 threads (512 in LL) of 96 registers
/// (NVIDIA/nccl src/include/device.h and makefiles/common.mk, -maxrregcount=96), a serving engine's 512 threads of 64.
gpu::CtaFootprint cta_of(const CollectiveSpec& spec);

/// Who takes part: memories in rank order, and the server of each. Members of a server follow each other.
struct Group {
  std::vector<transport::Window> members;
  std::vector<std::uint32_t> server;  ///< by member, counted from 0; empty: all in one
  std::vector<transport::GroupId>
      multicast_group;  ///< by server: the fabric's group of its members (NVLS); empty: none

  std::uint32_t size() const { return static_cast<std::uint32_t>(members.size()); }
  std::uint32_t servers() const { return server.empty() ? 1 : server.back() + 1; }
  std::uint32_t server_of(std::uint32_t member) const { return server.empty() ? 0 : server[member]; }
  /// Members per server if that is the same in all; otherwise 0.
  std::uint32_t members_per_server() const;
};

/// A piece of a vector.
struct Range {
  Bytes offset = 0, bytes = 0;
  /// Part `index` of `parts`, as even as possible: the first ones are a byte longer.
  Range part(std::uint64_t parts, std::uint64_t index) const {
    const Bytes each = bytes / parts, more = bytes % parts;
    return {offset + each * index + (index < more ? index : more), each + (index < more ? 1 : 0)};
  }
  /// Parts [from, to) of `parts`, joined.
  Range parts(std::uint64_t parts, std::uint64_t from, std::uint64_t to) const {
    const Bytes begin = part(parts, from).offset;
    const Range last = part(parts, to - 1);
    return {begin, last.offset + last.bytes - begin};
  }
};

}  // namespace railyard::collective
