// Sends and receives: NCCL's all-to-all, and a message to the next member. A sender writes pieces into the slots of its
// receiver, which copies each piece to its place (NVIDIA/nccl src/device/sendrecv.h).
//
// direct  a member sends to several peers at a time, nearest first. Each peer has its share of the channels, and a piece
//         is what they carry at once.
// pxn     data for another server first crosses NVLink to the member whose NIC is on the rail of the destination. This
//         member sends the data of all members of its server for the destination as one message.
#include <algorithm>

#include "collective/rounds.h"

namespace railyard::collective {

namespace {

// Operations that a channel runs at the same time (src/enqueue.cc, works per batch). If there are more channels, so many
// peers are served at a time.
constexpr std::uint32_t kPeersAtATime = 8;

/// What the members of an all-to-all send each other.
class Messages {
 public:
  Messages(const CollectiveSpec& spec, std::uint32_t members)
      : members_(members), by_sender_(spec.shares.by_sender), vector_{0, spec.bytes} {
    if (spec.shares.is_even()) return;
    std::uint64_t sum = 0;
    for (const std::uint32_t share : *spec.shares.of) sum += share;
    for (const std::uint32_t share : *spec.shares.of)
      uneven_.push_back({0, std::max<Bytes>(1, spec.bytes * share / sum)});
  }
  bool is_even() const { return uneven_.empty(); }
  Range of(std::uint32_t from, std::uint32_t to) const {
    return is_even() ? vector_.part(members_, to) : uneven_[by_sender_ ? from : to];
  }
  Bytes largest() const {
    Bytes most = is_even() ? vector_.part(members_, 0).bytes : 0;
    for (const Range& message : uneven_) most = std::max(most, message.bytes);
    return most;
  }

 private:
  const std::uint32_t members_;
  const bool by_sender_;
  const Range vector_;
  std::vector<Range> uneven_;  ///< by receiver, or by sender
};

class Direct final : public Program {
 public:
  Direct(const CollectiveSpec& spec, std::uint32_t members)
      : Program(2, std::max(1u, members - 1)),
        members_(members),
        channels_(spec.channels - spec.channels / members),  // the others copy the member's own part
        at_a_time_(std::max(kPeersAtATime, spec.channels)),
        messages_(spec, members),
        round_(round_bytes(spec, std::max(1u, spec.channels / members))),
        pieces_(loops_of(spec, messages_.largest(), std::max(1u, spec.channels / members))) {}

  std::uint32_t channels(std::uint32_t) const override { return channels_; }
  bool is_alike() const override { return messages_.is_even(); }
  std::uint32_t actions(std::uint32_t, std::uint32_t) const override { return batches() * pieces_; }

  void describe(std::uint32_t member, std::uint32_t thread, std::uint32_t index, Action& action) const override {
    const std::uint32_t nearest = index / pieces_ * at_a_time_ + 1, piece = index % pieces_;
    const std::uint32_t beyond = std::min(members_, nearest + at_a_time_);
    if (thread == kReceive) {
      action.wait(members_ - beyond, beyond - nearest, piece + 1);
      for (std::uint32_t k = nearest; k < beyond; ++k)
        action.work_bytes += part_of((member + members_ - k) % members_, member, piece).bytes;
      return;
    }
    for (std::uint32_t k = nearest; k < beyond; ++k) {
      const std::uint32_t to = (member + k) % members_;
      action.send(to, kReceive, members_ - k - 1, part_of(member, to, piece));
    }
  }

 private:
  static constexpr std::uint32_t kSend = 0, kReceive = 1;
  std::uint32_t batches() const { return static_cast<std::uint32_t>(ceil_div(members_ - 1, at_a_time_)); }
  Range part_of(std::uint32_t from, std::uint32_t to, std::uint32_t piece) const {
    return of_round(messages_.of(from, to), round_, piece);
  }
  std::uint32_t members_, channels_, at_a_time_;
  Messages messages_;
  Bytes round_;
  std::uint32_t pieces_;
};

class Pxn final : public Program {
 public:
  Pxn(const CollectiveSpec& spec, const Group& group)
      : Program(3, std::max(1u, group.members_per_server() + group.servers())),
        members_(group.size()),
        servers_(group.servers()),
        local_(group.members_per_server()),
        channels_(spec.channels),
        messages_(spec, members_) {}

  std::uint32_t channels(std::uint32_t) const override { return channels_; }
  bool is_alike() const override { return messages_.is_even(); }
  std::uint32_t actions(std::uint32_t, std::uint32_t thread) const override {
    if (members_ == 1) return 0;
    return thread == kSend ? servers_ : thread == kForward ? servers_ - 1 : 1;
  }

  void describe(std::uint32_t member, std::uint32_t thread, std::uint32_t index, Action& action) const override {
    const std::uint32_t here = member / local_, me = member % local_;
    if (thread == kReceive) {  // from the neighbours, and one message from every other server
      action.wait(0, local_ - 1 + servers_ - 1, 1);
      return;
    }
    if (thread == kForward) {
      if (local_ > 1) action.wait(0, local_ - 1, index + 1);
      const std::uint32_t there = (here + index + 1) % servers_;
      const std::uint32_t to = there * local_ + me;
      Range range = messages_.of(member, to);
      range.bytes = 0;
      for (std::uint32_t k = 0; k < local_; ++k) range.bytes += messages_.of(here * local_ + k, to).bytes;
      action.send(to, kReceive, local_ - 1 + (here + servers_ - there) % servers_ - 1, range);
      return;
    }
    // Data for other servers comes first, so that the NICs start early. Data for members of the own server comes last.
    const std::uint32_t there = (here + index + 1) % servers_;
    for (std::uint32_t k = 1; k < local_; ++k) {
      const std::uint32_t neighbour = (me + k) % local_;
      const std::uint32_t lane = local_ - k - 1;
      action.send(here * local_ + neighbour, there == here ? kReceive : kForward, lane,
                  messages_.of(member, there * local_ + neighbour));
    }
  }

 private:
  static constexpr std::uint32_t kSend = 0, kForward = 1, kReceive = 2;
  std::uint32_t members_, servers_, local_, channels_;
  Messages messages_;
};

class SendRecv final : public Program {
 public:
  SendRecv(const CollectiveSpec& spec, std::uint32_t members)
      : Program(2, 1),
        members_(members),
        channels_(spec.channels),
        one_way_(spec.one_way),
        vector_{0, spec.bytes},
        round_(round_bytes(spec, spec.channels)),
        chunks_(loops_of(spec, spec.bytes, spec.channels)) {}

  std::uint32_t channels(std::uint32_t) const override { return channels_; }
  bool is_alike() const override { return !one_way_; }
  std::uint32_t actions(std::uint32_t member, std::uint32_t thread) const override {
    if (one_way_ && member != thread) return 0;
    return members_ == 1 ? 0 : chunks_;
  }
  void describe(std::uint32_t member, std::uint32_t thread, std::uint32_t index, Action& action) const override {
    const Range piece = of_round(vector_, round_, index);
    if (thread == 0) {
      action.send((member + 1) % members_, 1, 0, piece);
    } else {
      action.wait(0, 1, index + 1);
      action.work_bytes = piece.bytes;
    }
  }

 private:
  std::uint32_t members_, channels_;
  bool one_way_;
  Range vector_;
  Bytes round_;
  std::uint32_t chunks_;
};

}  // namespace

std::unique_ptr<Program> make_all_to_all(const CollectiveSpec& spec, const Group& group) {
  if (spec.algorithm == Algorithm::pxn) return std::make_unique<Pxn>(spec, group);
  return std::make_unique<Direct>(spec, group.size());
}

std::unique_ptr<Program> make_send_recv(const CollectiveSpec& spec, const Group& group) {
  return std::make_unique<SendRecv>(spec, group.size());
}

}  // namespace railyard::collective
