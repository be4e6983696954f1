#include "collective/deepep.h"

#include <algorithm>

#include "collective/program.h"

namespace railyard::collective {

namespace {

using Leg = TokenExchange::Leg;

class TokenProgram final : public Program {
 public:
  TokenProgram(const CollectiveSpec& spec, const Group& group)
      : Program(3, std::max(1u, group.servers() - 1 + group.size() / group.servers() - 1)),
        leg_(spec.tokens.leg),
        notifies_(spec.tokens.notifies),
        servers_(group.servers()),
        local_(group.size() / group.servers()),
        channels_(std::max(1u, spec.channels / 2)),
        is_even_(spec.shares.is_even()),
        of_members_(divided(spec.bytes, spec.shares.of.get(), group.size())),
        of_servers_(divided(spec.tokens.network_bytes, spec.tokens.of_servers.get(), servers_)) {
    if (leg_ == Leg::notify) return;
    const std::vector<Bytes>& slowest = servers_ > 1 ? of_servers_ : of_members_;
    pieces_ = loops_of(spec, *std::max_element(slowest.begin(), slowest.end()), channels_);
  }

  std::uint32_t channels(std::uint32_t) const override { return channels_; }
  bool is_alike() const override { return is_even_; }
  std::uint32_t actions(std::uint32_t, std::uint32_t thread) const override {
    if (servers_ * local_ == 1) return 0;
    if (thread == kSend) return notifies_ ? 1 + std::max(1u, pieces_) : pieces_;
    return thread == kReceive || has_two_hops() ? pieces_ : 0;
  }

  void describe(std::uint32_t member, std::uint32_t thread, std::uint32_t index, Action& action) const override {
    const bool network_first = leg_ == Leg::dispatch ? servers_ > 1 : local_ == 1;
    const Hop first = network_first ? Hop::network : Hop::nvlink, second = network_first ? Hop::nvlink : Hop::network;
    if (thread == kReceive) {
      await(has_two_hops() ? second : first, index + 1, action);
      action.work_bytes = received(member, index);
    } else if (thread == kForward) {
      await(first, index + 1, action);
      if (leg_ == Leg::combine) action.work_bytes = added(member, index);
      send(second, member, kReceive, index, action);
    } else if (notifies_ && index == 0) {
      for (const Hop hop : {Hop::network, Hop::nvlink})
        each_peer(hop, member, [&](std::uint32_t to, std::uint32_t lane) { action.send_flag(to, kSend, lane); });
    } else {
      if (notifies_ && index == 1) action.wait(0, lanes(), 1);
      if (pieces_ > 0) send(first, member, has_two_hops() ? kForward : kReceive, index - (notifies_ ? 1 : 0), action);
    }
  }

 private:
  static constexpr std::uint32_t kSend = 0, kForward = 1, kReceive = 2;
  enum class Hop : std::uint8_t { network, nvlink };

  bool has_two_hops() const { return servers_ > 1 && local_ > 1; }

  static std::vector<Bytes> divided(Bytes bytes, const std::vector<std::uint32_t>* shares, std::uint32_t parts) {
    std::vector<Bytes> all;
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; shares != nullptr && i < parts; ++i) sum += (*shares)[i];
    for (std::uint32_t i = 0; i < parts; ++i)
      all.push_back(shares == nullptr ? Range{0, bytes}.part(parts, i).bytes : bytes * (*shares)[i] / sum);
    return all;
  }

  /// Calls `with` for each member with the same place on another server, or for each other member of the server, and with the
  /// lane of `member` there.
  template <class With>
  void each_peer(Hop hop, std::uint32_t member, With with) const {
    const std::uint32_t here = member / local_, place = member % local_;
    if (hop == Hop::network)
      for (std::uint32_t d = 1; d < servers_; ++d) with((here + d) % servers_ * local_ + place, servers_ - d - 1);
    else
      for (std::uint32_t k = 1; k < local_; ++k) with(here * local_ + (place + k) % local_, servers_ + local_ - k - 2);
  }
  void await(Hop hop, std::uint32_t arrivals, Action& action) const {
    hop == Hop::network ? action.wait(0, servers_ - 1, arrivals) : action.wait(servers_ - 1, local_ - 1, arrivals);
  }

  Bytes piece_of(Bytes bytes, std::uint32_t index) const { return Range{0, bytes}.part(pieces_, index).bytes; }
  /// Tokens of all servers' members with one place that a member's experts have.
  Bytes of_member(std::uint32_t member) const { return servers_ * of_members_[member]; }

  void send(Hop hop, std::uint32_t member, std::uint32_t thread, std::uint32_t index, Action& action) const {
    each_peer(hop, member, [&](std::uint32_t to, std::uint32_t lane) {
      const std::uint32_t experts_at = leg_ == Leg::dispatch ? to : member;
      const Bytes bytes = hop == Hop::network ? of_servers_[experts_at / local_] : of_member(experts_at);
      action.send(to, thread, lane, {0, piece_of(bytes, index)});
    });
  }
  /// What a member copies, or adds, to its result.
  Bytes received(std::uint32_t member, std::uint32_t index) const {
    Bytes bytes = 0;
    if (leg_ == Leg::dispatch)
      bytes = local_ * of_member(member);
    else if (servers_ > 1)
      for (const Bytes of_server : of_servers_) bytes += of_server;
    else
      for (const Bytes of_member : of_members_) bytes += of_member;
    return piece_of(bytes, index);
  }
  /// What a member adds of its server's results.
  Bytes added(std::uint32_t member, std::uint32_t index) const {
    Bytes bytes = 0;
    for (std::uint32_t k = 0; k < local_; ++k) bytes += of_member(member / local_ * local_ + k);
    return piece_of(bytes, index);
  }

  const Leg leg_;
  const bool notifies_;
  const std::uint32_t servers_, local_, channels_;
  const bool is_even_;
  const std::vector<Bytes> of_members_, of_servers_;  ///< of a rank's tokens
  std::uint32_t pieces_ = 0;
};

}  // namespace

std::unique_ptr<Program> make_token_exchange(const CollectiveSpec& spec, const Group& group) {
  return std::make_unique<TokenProgram>(spec, group);
}

}  // namespace railyard::collective
