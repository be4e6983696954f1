// CollNetDirect: all-reduces over servers whose network adds (SHARP). A head per NIC has a shard of the vector. Each phase is a
// thread of its own, so chunks overlap. For each chunk:
//
//   scatter   every member sends the shards of the other heads to them
//   reduce    (head) when all shards are there: send their sum to the network, which returns the sum over all servers
//   gather    (head) send what the network has returned to the other members
//   receive   when the shards of all heads are there: the chunk is complete
//
// NVIDIA/nccl src/device/all_reduce.h.
#include <algorithm>

#include "collective/rounds.h"

namespace railyard::collective {

namespace {

class CollnetDirect final : public Program {
 public:
  CollnetDirect(const CollectiveSpec& spec, const Group& group)
      : Program(kThreads, group.members_per_server()),
        local_(group.members_per_server()),
        channels_(spec.channels),
        vector_{0, spec.bytes},
        round_(round_bytes(spec, spec.channels)) {
    for (std::uint32_t place = 0; place < local_; ++place)
      if (group.is_head(place)) heads_.push_back(place);
    chunks_ = loops_of(spec, ceil_div(spec.bytes, heads()), spec.channels);
  }

  std::uint32_t channels(std::uint32_t) const override { return channels_; }
  std::uint32_t actions(std::uint32_t member, std::uint32_t thread) const override {
    const bool is_head = head_at(member % local_) != kNone;
    const bool has_others = local_ > 1;
    switch (thread) {
      case kScatter: return has_others ? chunks_ : 0;
      case kReduce:
      case kGather: return is_head ? chunks_ : 0;
      default: return chunks_;
    }
  }

  void describe(std::uint32_t member, std::uint32_t thread, std::uint32_t index, Action& action) const override {
    const std::uint32_t server = member / local_, me = member % local_, own = head_at(me);
    const auto shard = [&](std::uint32_t head) { return of_round(vector_.part(heads(), head), round_, index); };
    // Members but one, counted without it.
    const auto beside = [](std::uint32_t place, std::uint32_t of) { return place - (place > of ? 1 : 0); };
    switch (thread) {
      case kScatter:
        for (std::uint32_t k = 0; k < heads(); ++k) {
          const std::uint32_t head = (me + k) % heads(), to = heads_[head];
          if (to != me) action.send(server * local_ + to, kReduce, beside(me, to), shard(head));
        }
        break;
      case kReduce:
        if (local_ > 1) action.wait(0, local_ - 1, index + 1);
        action.transfers.push_back({Transfer::Kind::aggregate, member, kGather, 0, shard(own)});
        break;
      case kGather:
        action.wait(0, 1, index + 1);
        action.work_bytes = shard(own).bytes;
        for (std::uint32_t k = 1; k < local_; ++k)
          action.send(server * local_ + (me + k) % local_, kReceive, own, shard(own));
        action.signal_thread = kReceive;
        action.signal_lane = own;
        break;
      default:  // receive
        action.wait(0, heads(), index + 1);
        for (std::uint32_t head = 0; head < heads(); ++head)
          if (head != own) action.work_bytes += shard(head).bytes;
    }
  }

 private:
  static constexpr std::uint32_t kScatter = 0, kReduce = 1, kGather = 2, kReceive = 3, kThreads = 4;
  static constexpr std::uint32_t kNone = ~0u;
  std::uint32_t heads() const { return static_cast<std::uint32_t>(heads_.size()); }
  /// The number of the head with this place on its server.
  std::uint32_t head_at(std::uint32_t place) const {
    const auto found = std::find(heads_.begin(), heads_.end(), place);
    return found == heads_.end() ? kNone : static_cast<std::uint32_t>(found - heads_.begin());
  }

  std::uint32_t local_, channels_;
  Range vector_;
  Bytes round_;
  std::vector<std::uint32_t> heads_;  ///< by number: their places
  std::uint32_t chunks_ = 1;
};

}  // namespace

std::unique_ptr<Program> make_collnet_direct(const CollectiveSpec& spec, const Group& group) {
  return std::make_unique<CollnetDirect>(spec, group);
}

}  // namespace railyard::collective
