// The hierarchical all-reduce: reduce-scatter inside each server, ring all-reduce of the shards over the members with the
// same place on their servers (their rail), all-gather inside each server. Chunks overlap: each part is a thread.
#include "collective/rounds.h"

namespace railyard::collective {

namespace {

class Hierarchical final : public Program {
 public:
  Hierarchical(const CollectiveSpec& spec, const Group& group)
      : Program(kThreads, group.members_per_server()),
        local_(group.members_per_server()),
        servers_(group.servers()),
        steps_(2 * (servers_ - 1)),
        channels_(spec.channels),
        vector_{0, spec.bytes},
        round_(round_bytes(spec, spec.channels)),
        chunks_(loops_of(spec, ceil_div(spec.bytes, local_), spec.channels)) {}

  std::uint32_t channels(std::uint32_t) const override { return channels_; }
  bool is_alike() const override { return true; }
  std::uint32_t actions(std::uint32_t, std::uint32_t thread) const override {
    if (local_ * servers_ == 1) return 0;
    return thread == kRail ? chunks_ * (steps_ + 1) : chunks_;
  }

  void describe(std::uint32_t member, std::uint32_t thread, std::uint32_t index, Action& action) const override {
    const std::uint32_t server = member / local_, me = member % local_;
    const auto shard = [&](std::uint32_t local, std::uint32_t chunk) {
      return of_round(vector_.part(local_, local), round_, chunk);
    };
    const auto to_all = [&](std::uint32_t target_thread, bool own) {
      for (std::uint32_t k = 1; k < local_; ++k) {
        const std::uint32_t to = (me + k) % local_;
        action.send(server * local_ + to, target_thread, local_ - k - 1, shard(own ? me : to, index));
      }
    };
    switch (thread) {
      case kScatter: to_all(kRail, false); break;
      case kRail: {
        const std::uint32_t chunk = index / (steps_ + 1), step = index % (steps_ + 1);
        if (step == 0) {
          if (local_ > 1) action.wait(0, local_ - 1, chunk + 1);
          action.work_bytes = shard(me, chunk).bytes;
        } else {
          action.wait(local_ - 1, 1, chunk * steps_ + step);
        }
        if (step < steps_) {
          const Range piece = shard(me, chunk).part(servers_, (server + 2 * servers_ - step) % servers_);
          action.send((server + 1) % servers_ * local_ + me, kRail, local_ - 1, piece);
        } else {
          action.signal_thread = kGather;
        }
        break;
      }
      case kGather:
        action.wait(0, 1, index + 1);
        to_all(kReceive, true);
        break;
      default:
        if (local_ > 1) action.wait(0, local_ - 1, index + 1);
        action.work_bytes = shard(me, index).bytes * (local_ - 1);
    }
  }

 private:
  static constexpr std::uint32_t kScatter = 0, kRail = 1, kGather = 2, kReceive = 3, kThreads = 4;
  std::uint32_t local_, servers_, steps_, channels_;
  Range vector_;
  Bytes round_;
  std::uint32_t chunks_;
};

}  // namespace

std::unique_ptr<Program> make_hierarchical(const CollectiveSpec& spec, const Group& group) {
  return std::make_unique<Hierarchical>(spec, group);
}

}  // namespace railyard::collective
