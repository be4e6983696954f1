// Rings. In step k of K, the member at position p sends chunk (p - k) mod n to the next member. It forwards data of
// step k-1 slice by slice. An all-reduce has K = 2(n-1) steps: the first n-1 steps reduce, the other steps gather.
// All-gather and reduce-scatter have K = n-1. A broadcast goes down the chain from its root piece by piece, and a reduce
// to its root, where each member adds its own vector.
//
// Inside a server all channels are equal and form one bundle (two if both directions are used). Over several servers
// there is one bundle per member of a server: ring r enters each server at member r and leaves it at the member before
// r, so the NIC of every member carries one ring in and one ring out.
#include <algorithm>

#include "collective/rounds.h"

namespace railyard::collective {

namespace {

struct Bundle {
  std::vector<std::uint32_t> order;     ///< members along the ring
  std::vector<std::uint32_t> position;  ///< by member
  std::uint32_t channels = 1;
  Range range;
  Bytes round = 0;  ///< round_bytes()
  Bytes slice = 0;  ///< of a full round, where slices are lines
  std::uint32_t loops = 1;
};

class Ring final : public Program {
 public:
  /// @param even  all chunks are as long as the longest: of a folded group, the member that runs sends each of them
  Ring(const CollectiveSpec& spec, std::vector<Bundle> bundles, std::uint32_t members, bool even)
      : Program(static_cast<std::uint32_t>(bundles.size()), 1),
        bundles_(std::move(bundles)),
        members_(members),
        steps_(spec.operation == Operation::all_reduce ? 2 * (members - 1) : members - 1),
        slices_(spec.slices),
        chain_(is_rooted(spec.operation)),
        by_line_(spec.protocol != Protocol::simple),
        even_(even) {}

  std::uint32_t channels(std::uint32_t thread) const override { return bundles_[thread].channels; }

  bool is_alike() const override { return !chain_; }
  std::uint32_t actions(std::uint32_t, std::uint32_t thread) const override {
    if (members_ == 1) return 0;
    return bundles_[thread].loops * slices_ * (chain_ ? 1 : steps_ + 1);
  }

  void describe(std::uint32_t member, std::uint32_t thread, std::uint32_t index, Action& action) const override {
    const Bundle& b = bundles_[thread];
    const std::uint32_t position = b.position[member];
    const std::uint32_t next = b.order[position + 1 == members_ ? 0 : position + 1];
    if (chain_) {
      const Range piece = slice_of(b, of_round(b.range, b.round, index / slices_), index % slices_);
      action.continues = index % slices_ != 0;
      if (position > 0) action.wait(0, 1, index + 1);
      if (position + 1 < members_) {
        action.send(next, thread, 0, piece);
      } else {
        action.work_bytes = piece.bytes;
      }
      return;
    }
    const std::uint32_t per_loop = (steps_ + 1) * slices_;
    const std::uint32_t loop = b.loops == 1 ? 0 : index / per_loop;
    const std::uint32_t in_loop = index - loop * per_loop;
    const std::uint32_t step = slices_ == 1 ? in_loop : in_loop / slices_;
    const std::uint32_t slice = in_loop - step * slices_;
    action.continues = by_line_ && slice != 0;
    if (step > 0) action.wait(0, 1, (loop * steps_ + step - 1) * slices_ + slice + 1);
    const std::uint32_t chunk = (position + 2 * members_ - step) % members_;
    Range of_chunk = b.range.part(members_, chunk);
    if (even_) of_chunk.bytes = b.range.part(members_, 0).bytes;
    const Range piece = slice_of(b, of_round(of_chunk, b.round, loop), slice);
    if (step < steps_) {
      action.send(next, thread, 0, piece);
    } else {
      action.work_bytes = piece.bytes;
    }
  }

 private:
  /// Lines of a short round are as long as others, but fewer. Simple divides each round.
  Range slice_of(const Bundle& b, const Range& round, std::uint32_t slice) const {
    return by_line_ ? of_round(round, b.slice, slice) : round.part(slices_, slice);
  }
  std::vector<Bundle> bundles_;
  std::uint32_t members_, steps_, slices_;
  bool chain_, by_line_, even_;
};

}  // namespace

std::unique_ptr<Program> make_ring(const CollectiveSpec& spec, const Group& group) {
  const std::uint32_t n = group.size();
  std::uint32_t rings = entries_of(group);
  if (spec.both_directions) rings *= 2;
  rings = std::min(rings, spec.channels);

  std::vector<Bundle> bundles(rings);
  std::uint32_t from_channel = 0;
  for (std::uint32_t r = 0; r < rings; ++r) {
    Bundle& b = bundles[r];
    const bool backwards = spec.both_directions && r % 2 == 1;
    const std::uint32_t entry = spec.both_directions ? r / 2 : r;
    for (const auto& chain : chains_of(group, entry)) b.order.insert(b.order.end(), chain.begin(), chain.end());
    if (backwards) std::reverse(b.order.begin(), b.order.end());
    if (is_rooted(spec.operation)) {
      const auto root = std::find(b.order.begin(), b.order.end(), spec.root);
      std::rotate(b.order.begin(), spec.operation == Operation::broadcast ? root : root + 1, b.order.end());
    }
    b.position.resize(n);
    for (std::uint32_t p = 0; p < n; ++p) b.position[b.order[p]] = p;
    b.channels = spec.channels / rings + (r < spec.channels % rings ? 1 : 0);
    b.range = Range{0, spec.bytes}.parts(spec.channels, from_channel, from_channel + b.channels);
    from_channel += b.channels;
    const Bytes longest = is_rooted(spec.operation) ? b.range.bytes : ceil_div(b.range.bytes, n);
    b.round = round_bytes(spec, b.channels);
    b.loops = loops_of(spec, longest, b.channels);
    b.slice = ceil_div(b.round == 0 ? longest : std::min(b.round, longest), spec.slices);
  }
  return std::make_unique<Ring>(spec, std::move(bundles), n, group.folded());
}

}  // namespace railyard::collective
