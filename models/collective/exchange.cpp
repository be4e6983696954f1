// Exchanges: in each phase, every member sends to every other member and then waits for the transfers of all of them.
//
// one_shot   every member sends its whole vector to all members, and sums n copies.
// two_shot   every member sends shard j to member j, which sums n copies and sends the result to all members.
// Serving engines use both for all-reduce. Some kernels have barriers (exchanges of flags) before and after these phases.
#include <algorithm>

#include "collective/program.h"

namespace railyard::collective {

namespace {

enum class Round : std::uint8_t { flags, whole, scatter, gather };

class Exchange final : public Program {
 public:
  Exchange(const CollectiveSpec& spec, std::uint32_t members, std::vector<Round> phases)
      : Program(1, std::max(1u, members - 1)),
        phases_(std::move(phases)),
        members_(members),
        channels_(spec.channels),
        vector_{0, spec.bytes} {}

  std::uint32_t channels(std::uint32_t) const override { return channels_; }
  bool is_alike() const override { return true; }
  std::uint32_t actions(std::uint32_t, std::uint32_t) const override {
    return members_ == 1 ? 0 : static_cast<std::uint32_t>(phases_.size()) + 1;
  }

  void describe(std::uint32_t member, std::uint32_t, std::uint32_t index, Action& action) const override {
    if (index > 0) {
      action.wait(0, members_ - 1, index);
      action.work_bytes = work(member, phases_[index - 1]);
    }
    if (index == phases_.size()) return;
    const Round phase = phases_[index];
    for (std::uint32_t k = 1; k < members_; ++k) {
      const std::uint32_t to = (member + k) % members_;
      const std::uint32_t lane = members_ - k - 1;  // the lane of `to` for transfers from this member
      switch (phase) {
        case Round::flags: action.send_flag(to, 0, lane); break;
        case Round::whole: action.send(to, 0, lane, vector_); break;
        case Round::scatter: action.send(to, 0, lane, vector_.part(members_, to)); break;
        case Round::gather: action.send(to, 0, lane, vector_.part(members_, member)); break;
      }
    }
  }

 private:
  /// Bytes that are read and summed, or copied, after a phase has arrived.
  Bytes work(std::uint32_t member, Round phase) const {
    switch (phase) {
      case Round::whole: return vector_.bytes * members_;
      case Round::scatter: return vector_.part(members_, member).bytes * members_;
      default: return 0;
    }
  }
  std::vector<Round> phases_;
  std::uint32_t members_, channels_;
  Range vector_;
};

}  // namespace

std::unique_ptr<Program> make_exchange(const CollectiveSpec& spec, const Group& group) {
  std::vector<Round> phases(spec.barriers_before, Round::flags);
  if (spec.algorithm == Algorithm::one_shot) {
    phases.push_back(Round::whole);
  } else {
    phases.push_back(Round::scatter);
    phases.push_back(Round::gather);
  }
  phases.insert(phases.end(), spec.barriers_after, Round::flags);
  return std::make_unique<Exchange>(spec, group.size(), std::move(phases));
}

}  // namespace railyard::collective
