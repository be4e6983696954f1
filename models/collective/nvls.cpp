// In-switch collectives (NVLink SHARP). Every member is the head of a slice of the vector; of an all-reduce, at most 32 members
// of a server are heads. Each phase is a thread of its own, so chunks overlap. For each chunk:
//
//   scatter    copy the chunk of every head to the multicast buffer, and send a flag to the heads
//   reduce     (head) when the flags of all members are there: read the sum of all copies through the switch
//   up, down   over several servers, the heads of a slice, one per server: nvls_tree reduces up a binary tree and sends the
//              result down; nvls sends to the network, which returns the sum (SHARP)
//   multicast  (head) one store, which the switch delivers to all members of the server
//   gather     when the chunks of all heads are there: copy them to their place
//
// There are two trees, each for half the channels and bytes. No server is an inner node of both.
//
// An all-reduce moves S(1 + 1/n) per member and direction. All-gather has no scatter and reduce; reduce-scatter has no
// multicast. If vectors are registered with the switches, nothing is copied, members exchange flags only once, and threads
// load what they store to the switch, or load sums from it.
#include "collective/nccl_graph.h"
#include "collective/rounds.h"

namespace railyard::collective {

namespace {

class Nvls final : public Program {
 public:
  Nvls(const CollectiveSpec& spec, const Group& group)
      : Program(kThreads * trees_of(spec, group), std::max(group.members_per_server(), 1 + kMostChildren)),
        operation_(spec.operation),
        registered_(spec.registered),
        network_adds_(spec.algorithm == Algorithm::nvls),
        local_(group.members_per_server()),
        heads_(spec.operation == Operation::all_reduce ? std::min(local_, nccl_tables().most_heads) : local_),
        servers_(group.servers()) {
    const std::uint32_t trees = trees_of(spec, group);
    for (std::uint32_t which = 0, from = 0; which < trees; ++which) {
      Half& half = halves_.emplace_back();
      half.tree = BinaryTree::of(servers_, which);
      half.channels = spec.channels / trees + (which < spec.channels % trees ? 1 : 0);
      half.range = Range{0, spec.bytes}.parts(spec.channels, from, from + half.channels);
      half.round = round_bytes(spec, half.channels);
      half.chunks = loops_of(spec, ceil_div(half.range.bytes, heads_), half.channels);
      from += half.channels;
    }
  }

  std::uint32_t channels(std::uint32_t thread) const override { return halves_[thread / kThreads].channels; }
  std::uint32_t actions(std::uint32_t member, std::uint32_t number) const override {
    if (local_ * servers_ == 1) return 0;
    const std::uint32_t chunks = halves_[number / kThreads].chunks, thread = number % kThreads;
    if (member % local_ >= heads_ && thread != kScatter && thread != kGather) return 0;
    const bool reduces = operation_ != Operation::all_gather, gathers = operation_ != Operation::reduce_scatter;
    switch (thread) {
      case kScatter: return !reduces ? 0 : registered_ ? 1 : chunks;
      case kReduce: return reduces ? chunks : 0;
      case kUp:
      case kDown: return servers_ > 1 ? chunks : 0;
      case kMulticast: return gathers ? chunks : 0;
      default: return chunks;
    }
  }

  bool turns() const override { return !network_adds_ && heads_ == local_; }
  Point turned(Point point, std::uint32_t by) const override {
    // One lane for each head.
    const std::uint32_t thread = point.thread % kThreads;
    if (thread == kReduce || thread == kGather) point.lane = (point.lane + 2 * local_ - by) % local_;
    return point;
  }

  void describe(std::uint32_t member, std::uint32_t number, std::uint32_t index, Action& action) const override {
    const Half& half = halves_[number / kThreads];
    const std::uint32_t base = number / kThreads * kThreads, thread = number % kThreads;
    const std::uint32_t server = member / local_, head = member % local_;
    const Range mine = head < heads_ ? of_round(half.range.part(heads_, head), half.round, index) : Range();
    const BinaryTree& tree = half.tree;
    action.continues = registered_ && index > 0;
    const auto on_server = [&](std::uint32_t s) { return s * local_ + head; };
    switch (thread) {
      case kScatter:
        action.work_bytes = copied(all_bytes(half, index));
        for (std::uint32_t k = 0; k < heads_; ++k)
          action.send_flag(server * local_ + (head + k) % heads_, base + kReduce, head);
        break;
      case kReduce: {
        action.wait(0, local_, registered_ ? 1 : index + 1);
        action.work_bytes = loaded(mine.bytes);
        const std::uint32_t next = operation_ == Operation::reduce_scatter ? kGather : servers_ > 1 ? kUp : kMulticast;
        action.transfers.push_back({Transfer::Kind::reduce, member, base + next, 0, mine});
        break;
      }
      case kUp:
        if (network_adds_) {
          action.wait(0, 1, index + 1);
          action.transfers.push_back({Transfer::Kind::aggregate, member, base + kDown, 0, mine});
          break;
        }
        action.wait(0, 1 + static_cast<std::uint32_t>(tree.children[server].size()), index + 1);
        if (tree.parent[server] == BinaryTree::kNone) {
          action.signal_thread = base + kDown;
        } else {
          const std::vector<std::uint32_t>& siblings = tree.children[tree.parent[server]];
          action.send(on_server(tree.parent[server]), base + kUp, siblings.front() == server ? 1 : 2, mine);
        }
        break;
      case kDown:
        action.wait(0, 1, index + 1);
        if (!network_adds_)
          for (const std::uint32_t child : tree.children[server]) action.send(on_server(child), base + kDown, 0, mine);
        action.signal_thread = base + kMulticast;
        break;
      case kMulticast:
        if (operation_ != Operation::all_gather) action.wait(0, 1, index + 1);
        action.work_bytes = loaded(mine.bytes);
        action.transfers.push_back({Transfer::Kind::multicast, member, base + kGather, head, mine});
        break;
      default:  // gather
        if (operation_ == Operation::reduce_scatter) {
          action.wait(0, 1, index + 1);
          action.work_bytes = copied(mine.bytes);
        } else {
          action.wait(0, heads_, index + 1);
          action.work_bytes = copied(all_bytes(half, index));
        }
    }
  }

 private:
  static constexpr std::uint32_t kScatter = 0, kReduce = 1, kUp = 2, kDown = 3, kMulticast = 4, kGather = 5,
                                 kThreads = 6;
  static constexpr std::uint32_t kMostChildren = 2;
  struct Half {
    BinaryTree tree;
    std::uint32_t channels = 1, chunks = 1;
    Bytes round = 0;  ///< round_bytes()
    Range range;
  };
  static std::uint32_t trees_of(const CollectiveSpec& spec, const Group& group) {
    return spec.algorithm == Algorithm::nvls_tree && group.servers() > 1 && spec.channels > 1 ? 2 : 1;
  }

  /// Of all heads in a round.
  Bytes all_bytes(const Half& half, std::uint32_t index) const {
    return of_round(half.range.part(heads_, 0), half.round, index).bytes * heads_;
  }
  Bytes copied(Bytes bytes) const { return registered_ ? 0 : bytes; }
  /// By the threads of a CTA, at the rate of a channel.
  Bytes loaded(Bytes bytes) const { return registered_ ? bytes : 0; }

  Operation operation_;
  bool registered_, network_adds_;
  std::uint32_t local_, heads_, servers_;
  std::vector<Half> halves_;
};

}  // namespace

std::unique_ptr<Program> make_nvls(const CollectiveSpec& spec, const Group& group) {
  return std::make_unique<Nvls>(spec, group);
}

}  // namespace railyard::collective
