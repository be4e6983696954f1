// The specification of a collective: operation, algorithm, protocol, number of channels, and the cost of each step on
// the SMs. Plain data. A Group lists the members; a Program (program.h) is the dependency graph that follows from both.
//
// `bytes` counts as in nccl-tests: the vector of an all-reduce, reduce or broadcast, the gathered vector of an all-gather, the
// scattered vector of a reduce-scatter, the whole send buffer of a member in an all-to-all, the message of a send/recv.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "base/units.h"
#include "collective/deepep.h"
#include "transport/device/message.h"

namespace railyard::gpu {
struct CtaFootprint;
}

namespace railyard::collective {

enum class Operation : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  all_to_all,
  send_recv,
  reduce
};
constexpr std::array<const char*, 7> kOperationNames{"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                                     "all_to_all", "send_recv",  "reduce"};
constexpr const char* name_of(Operation operation) { return kOperationNames[static_cast<std::size_t>(operation)]; }
/// From or to one member.
constexpr bool is_rooted(Operation o) { return o == Operation::broadcast || o == Operation::reduce; }
/// Abbreviation of an operation in the names of jobs: AR, AG, RS, BC, A2A, SR, R.
const char* initials(Operation operation);

enum class Algorithm : std::uint8_t {
  ring,
  tree,
  nvls,
  nvls_tree,
  one_shot,
  two_shot,
  hierarchical,
  direct,
  pxn,
  collnet_direct
};
constexpr std::array<const char*, 10> kAlgorithmNames{
    "ring", "tree", "nvls", "nvls_tree", "one_shot", "two_shot", "hierarchical", "direct", "pxn", "collnet_direct"};
constexpr const char* name_of(Algorithm algorithm) { return kAlgorithmNames[static_cast<std::size_t>(algorithm)]; }

/// NCCL's protocols. Simple moves slots of data and then a flag; LL adds 8 B of flags to every 8 B, LL128 8 B to every
/// 120 B.
enum class Protocol : std::uint8_t { simple, ll, ll128 };
constexpr std::array<const char*, 3> kProtocolNames{"simple", "ll", "ll128"};
constexpr const char* name_of(Protocol protocol) { return kProtocolNames[static_cast<std::size_t>(protocol)]; }

/// Versions of NCCL whose rules for sends and receives differ: up to 2.22, up to 2.28, and later.
enum class NcclVersion : std::uint8_t { v2_22, v2_27, v2_29 };
constexpr std::array<const char*, 3> kNcclVersionNames{"2.22", "2.27", "2.29"};

/// Cost of an action on the CTA of a channel, in addition to the time in the fabric. All zero: SMs are infinitely fast.
struct StepCost {
  Time step;             ///< per action: poll, barrier, issue, fence, flag; the CTA is held
  Bytes line_bytes = 0;  ///< bytes that the threads of a channel move at once (a line); 0: no lines
  Time line;             ///< for each line after the first one of a step
  Time polled_line;      ///< instead, if the step receives and the lines are in host memory; zero: they are not
  Rate channel_rate;     ///< payload rate of one channel; zero: no limit
  Rate copy_rate;        ///< rate at which a channel moves bytes inside its GPU; zero: channel_rate
  std::uint32_t wire_numerator = 1, wire_denominator = 1;  ///< bytes stored per byte of payload
  Time network_send, network_receive;  ///< time of the proxy at each end, for transfers that leave the server
  Rate
      proxy_rate;  ///< payload that the proxy of a member checks, one transfer after the other, before it sends; zero: no limit

  auto key() const {
    return std::make_tuple(step, line_bytes, line, polled_line, channel_rate.bytes_per_second(),
                           copy_rate.bytes_per_second(), wire_numerator, wire_denominator, network_send,
                           network_receive, proxy_rate.bytes_per_second());
  }
  Bytes wire_bytes(Bytes payload) const { return ceil_div(payload * wire_numerator, wire_denominator); }
};

/// Messages of an all-to-all that differ: each is `bytes` x of[m] / (sum of `of`), where m is its receiver, or its
/// sender.
struct Shares {
  std::shared_ptr<const std::vector<std::uint32_t>> of;  ///< by member; null: equal messages
  bool by_sender = false;

  bool is_even() const { return of == nullptr; }
  auto key() const { return std::make_pair(is_even() ? std::vector<std::uint32_t>() : *of, by_sender); }
};

struct CollectiveSpec {
  Operation operation = Operation::all_reduce;
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  Bytes bytes = 0;
  std::uint32_t root = 0;             ///< broadcast: the member that sends; reduce: that gets the sum
  std::uint32_t channels = 1;         ///< CTAs per member
  std::uint32_t slices = 1;           ///< parts of a chunk; each part is forwarded as soon as it has arrived
  Bytes chunk_bytes = 0;              ///< most bytes that one channel moves in a step; 0: no limit
  std::uint32_t slots = 0;            ///< transfers by which a sender may be ahead of its receiver; 0: no limit
  std::uint32_t barriers_before = 0;  ///< one-shot and two-shot: exchanges of flags before the data
  std::uint32_t barriers_after = 0;
  bool both_directions = false;  ///< ring: every second channel runs in the opposite direction
  bool registered = false;       ///< nvls: members' vectors are where the switches reach them, so nothing is copied
  bool takes_sms = true;         ///< its CTAs; otherwise it runs beside kernels without them
  bool one_way = false;          ///< send/recv: only the first member sends, only the second one receives
  std::uint8_t traffic_class = 0;
  std::uint16_t queue_pair_set = 0;  ///< of its communicator (transport/device/queue_pairs.h)
  Time launch;                       ///< from the entry to the first action
  Time host;                         ///< least time from entry to end of a member: calls from a slow host
  Shares shares;                     ///< all-to-all
  TokenExchange tokens;              ///< the same, of tokens (deepep.h)
  StepCost cost;

  /// All fields, to compare and to sort by.
  auto key() const {
    return std::tuple_cat(
        std::make_tuple(operation, algorithm, protocol, bytes, root, channels, slices, chunk_bytes, slots,
                        barriers_before, barriers_after, both_directions, registered, takes_sms, one_way, traffic_class,
                        queue_pair_set, launch, host, shares.key(), tokens.key()),
        cost.key());
  }
};

/// Resources of an SM that the CTA of a channel occupies. NCCL's kernels have up to 640 threads (512 in LL) with 96
/// registers (NVIDIA/nccl src/include/device.h and makefiles/common.mk, -maxrregcount=96); those of serving engines
/// have 512 threads with 64 registers.
gpu::CtaFootprint cta_of(const CollectiveSpec& spec);

/// The members of a collective: their memories in rank order, and the server of each. Members of a server are
/// contiguous. A folded group has copies of members that are alike: they do the same at the same time, on servers that are
/// alike. One of them, `like[m]`, runs for all. The memory of another member is then that of like[m], as messages from
/// outside of its server reach it (gpu::Gpu::window_beyond()).
struct Group {
  std::vector<transport::Window> members;
  std::vector<std::uint32_t> server;  ///< by member, counted from 0; empty: one server
  bool mesh = false;                  ///< in one server; NVLinks join each member to each other one, without switches
  std::vector<transport::GroupId>
      multicast_group;  ///< by server: group of its members in the fabric (NVLS); empty: no NVLS
  /// Over several servers whose network adds (SHARP), by member: the aggregation nodes that add what it sends, from its leaf
  /// to the root. Heads have them: one member of a server for each of its NICs, with the same place on every server. Empty:
  /// the network does not add.
  std::vector<std::vector<transport::Window>> sum_nodes;
  /// Adjacent members in parts of equal size that are placed alike. Each part runs every collective by itself; all begin
  /// together. The servers of a part are counted after those of the parts before. Empty: the members run one collective.
  std::vector<Group> parts;
  std::vector<std::uint32_t> like;   ///< by member; empty: the group is not folded. Only of a folded group, by member:
  std::vector<std::uint32_t> copy;   ///< to which copy it belongs
  std::vector<std::uint32_t> place;  ///< among the members of its copy
  std::vector<transport::Window> beyond;  ///< memory of like[m], as messages from outside of its server reach it

  std::uint32_t size() const { return static_cast<std::uint32_t>(members.size()); }
  std::uint32_t servers() const { return server.empty() ? 1 : server.back() + 1; }
  std::uint32_t server_of(std::uint32_t member) const { return server.empty() ? 0 : server[member]; }
  bool folded() const { return !like.empty(); }
  /// Whether this member exists in the machine.
  bool exists(std::uint32_t member) const { return like.empty() || like[member] == member; }
  bool is_head(std::uint32_t member) const { return !sum_nodes.empty() && !sum_nodes[member].empty(); }
  bool all_are_heads() const;
  /// Members per server if this number is the same for all servers; otherwise 0.
  std::uint32_t members_per_server() const;
};

/// A member of a folded group: the place of the GPU that runs for it among those that run, which copy of the part it belongs
/// to, its place among the members of its copy, and whether this copy exists.
struct FoldedMember {
  std::uint32_t gpu = 0, copy = 0, place = 0;
  bool exists = true;
};

/// A range of a vector.
struct Range {
  Bytes offset = 0, bytes = 0;
  /// Part `index` of `parts`. Parts differ by at most one byte; longer parts come first.
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
