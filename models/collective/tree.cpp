// Trees. Partial sums go up and results come down, chunk by chunk; both directions are threads of their own and
// overlap. Where lines are slow (slices > 1), they go on as soon as they arrive. Inside a server the members form a chain. The first members of the chains form two binary trees, each for
// half the channels. A server that is an inner node of one tree is a leaf of the other. Over several servers there is
// such a pair of trees for every member at which a chain can start, so that the NIC of every member carries its share,
// as in rings.
#include <algorithm>

#include "collective/rounds.h"

namespace railyard::collective {

namespace {

/// One of the trees, with its share of the channels and bytes.
struct Tree {
  std::vector<std::uint32_t> parent;  ///< by member; kNone: the root
  std::vector<std::vector<std::uint32_t>> children;
  std::vector<std::uint32_t> lane_at_parent;  ///< by member
  std::uint32_t channels = 1;
  Range range;
  Bytes piece = 0;  ///< of a chunk: its slice
  std::uint32_t pieces = 1;
};

class TreeProgram final : public Program {
 public:
  /// @param entries  places at which chains start, each for one pair of trees
  TreeProgram(std::vector<Tree> trees, std::uint32_t lanes, std::uint32_t entries, std::uint32_t members_per_server,
              std::uint32_t slices, bool reduces)
      : Program(static_cast<std::uint32_t>(trees.size()) * 2, lanes),
        trees_(std::move(trees)),
        entries_(entries),
        members_per_server_(members_per_server),
        slices_(slices),
        reduces_(reduces) {}

  std::uint32_t channels(std::uint32_t thread) const override { return trees_[thread / 2].channels; }

  bool turns() const override {
    return entries_ == members_per_server_ && trees_.size() == 2 * entries_ &&
           std::all_of(trees_.begin(), trees_.end(),
                       [&](const Tree& t) { return t.channels == trees_[0].channels && t.pieces == trees_[0].pieces; });
  }
  Point turned(Point point, std::uint32_t by) const override {
    const std::uint32_t tree = point.thread / 2, entry = tree % entries_;
    point.thread += 2 * ((entry + 2 * entries_ - by) % entries_ - entry);
    return point;
  }
  std::uint32_t actions(std::uint32_t, std::uint32_t thread) const override {
    const Tree& t = trees_[thread / 2];
    if (t.parent.size() == 1) return 0;
    const bool up = thread % 2 == 0;
    if (up && !reduces_) return 0;
    return t.pieces;
  }

  void describe(std::uint32_t member, std::uint32_t thread, std::uint32_t index, Action& action) const override {
    const Tree& t = trees_[thread / 2];
    const Range piece = of_round(t.range, t.piece, index);
    action.continues = index % slices_ != 0;
    const std::vector<std::uint32_t>& children = t.children[member];
    const bool root = t.parent[member] == BinaryTree::kNone;
    if (thread % 2 == 0) {  // up
      if (!children.empty()) action.wait(0, static_cast<std::uint32_t>(children.size()), index + 1);
      if (root) {
        action.work_bytes = piece.bytes;
        action.signal_thread = thread + 1;
      } else {
        action.send(t.parent[member], thread, t.lane_at_parent[member], piece);
      }
      return;
    }
    if (!root || reduces_) action.wait(0, 1, index + 1);
    for (const std::uint32_t child : children) action.send(child, thread, 0, piece);
    if (children.empty()) action.work_bytes = piece.bytes;
  }

 private:
  std::vector<Tree> trees_;
  std::uint32_t entries_, members_per_server_, slices_;
  bool reduces_;
};

}  // namespace

std::unique_ptr<Program> make_tree(const CollectiveSpec& spec, const Group& group) {
  const std::uint32_t n = group.size(), servers = group.servers();
  // A broadcast has one tree, which starts at its root.
  const bool broadcasts = spec.operation == Operation::broadcast;
  // Few channels have entries of their own and the first binary tree (NVIDIA/nccl src/graph/connect.cc, connectTrees).
  const std::uint32_t entries = broadcasts ? 1 : entries_of(group);
  const std::uint32_t wanted = broadcasts ? 1 : std::min(spec.channels, servers == 1 ? entries : entries * 2);

  std::vector<Tree> trees(wanted);
  std::uint32_t lanes = 1;
  std::uint32_t from_channel = 0;
  for (std::uint32_t w = 0; w < wanted; ++w) {
    Tree& t = trees[w];
    t.parent.assign(n, BinaryTree::kNone);
    t.children.resize(n);
    t.lane_at_parent.assign(n, 0);
    const auto hang = [&](std::uint32_t child, std::uint32_t below) {
      t.parent[child] = below;
      t.lane_at_parent[child] = static_cast<std::uint32_t>(t.children[below].size());
      t.children[below].push_back(child);
      lanes = std::max<std::uint32_t>(lanes, static_cast<std::uint32_t>(t.children[below].size()));
    };
    std::vector<std::vector<std::uint32_t>> chains = chains_of(group, w % entries);
    if (broadcasts) {
      std::rotate(chains.begin(), chains.begin() + group.server_of(spec.root), chains.end());
      std::rotate(chains[0].begin(), std::find(chains[0].begin(), chains[0].end(), spec.root), chains[0].end());
    }
    for (const auto& chain : chains)
      for (std::size_t i = 1; i < chain.size(); ++i) hang(chain[i], chain[i - 1]);
    const BinaryTree over = BinaryTree::of(servers, w / entries);
    for (std::uint32_t s = 0; s < servers; ++s)
      if (over.parent[s] != BinaryTree::kNone) hang(chains[s].front(), chains[over.parent[s]].front());
    t.channels = spec.channels / wanted + (w < spec.channels % wanted ? 1 : 0);
    t.range = Range{0, spec.bytes}.parts(spec.channels, from_channel, from_channel + t.channels);
    from_channel += t.channels;
    const Bytes chunk = round_bytes(spec, t.channels);
    t.piece = ceil_div(chunk == 0 ? t.range.bytes : std::min(chunk, t.range.bytes), spec.slices);
    t.pieces = t.piece == 0 ? 1 : static_cast<std::uint32_t>(ceil_div(t.range.bytes, t.piece));
  }
  return std::make_unique<TreeProgram>(std::move(trees), lanes, entries, group.members_per_server(), spec.slices,
                                       spec.operation == Operation::all_reduce);
}

}  // namespace railyard::collective
