// A group of ranks that run collectives together, like an NCCL communicator: its members, the paths between them, and
// the collective library. All collectives start here: the communicator makes the request, lets the library's rules
// choose algorithm, protocol and channels, and stores this choice by operation and size.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "collective/reuse.h"
#include "collective/tuner.h"
#include "execution/rank.h"

namespace railyard::execution {

class Communicator {
 public:
  /// @param ranks    at least one; a single rank has no peers
  /// @param streams  by member: index of the stream of its rank in which the member runs
  /// @param request  properties that all collectives of this communicator share. Without a set of queue pairs, objects of
  ///                 one class with the same ranks stand for one communicator of the library and share a set
  Communicator(const std::vector<Rank*>& ranks, std::vector<std::size_t> streams,
               const collective::CollectiveRequest& request, transport::Fabric& fabric);
  /// The same stream for all members.
  Communicator(const std::vector<Rank*>& ranks, std::size_t stream, const collective::CollectiveRequest& request,
               transport::Fabric& fabric);

  /// Several communicators of adjacent ranks, placed alike, which run each collective at the same time (Group::parts).
  Communicator(const std::vector<Rank*>& ranks, std::size_t stream, std::uint32_t parts,
               const collective::CollectiveRequest& request, transport::Fabric& fabric);

  /// A folded communicator (collective/spec.h): its ranks are those that exist.
  Communicator(const std::vector<Rank*>& ranks, std::size_t stream,
               const std::vector<collective::FoldedMember>& members, const collective::CollectiveRequest& request,
               transport::Fabric& fabric);

  /// Ranks that exist.
  std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  /// Members of its collectives, also those that do not exist.
  std::uint32_t members() const { return group_.size(); }
  const std::vector<Rank*>& ranks() const { return ranks_; }
  Rank& rank(std::uint32_t member) const { return *ranks_[member]; }
  gpu::Stream& stream(std::uint32_t member) const { return ranks_[member]->stream(streams_[member]); }
  const collective::Group& group() const { return group_; }
  const collective::CollectiveRequest& request() const { return request_; }
  /// The paths between the members; of several communicators, those of the first one. @pre the machine is elaborated
  const collective::Site& site();

  /// Algorithm, protocol and channels for a collective of this size. @pre the machine is elaborated
  const collective::CollectiveSpec& choose(collective::Operation operation, Bytes bytes);
  /// The same of an all-to-all with such messages.
  const collective::CollectiveSpec& choose_all_to_all(Bytes bytes, const collective::Shares& shares);
  /// DeepEP's kernels for tokens. @param shares  of members  @pre as collective::choose_tokens()
  const collective::CollectiveSpec& choose_tokens(Bytes bytes, const collective::Shares& shares,
                                                  const collective::TokenExchange& tokens);
  /// A communicator of two members, of which the first sends to the second. Created at the first call.
  Communicator& pair(std::uint32_t from, std::uint32_t to);
  /// How NCCL's kernels run a send from the first member to the second. @pre two members
  const collective::CollectiveSpec& choose_exchange(Bytes bytes);
  /// The shortest time between the entry of a member and the start of a collective.
  Time least_launch() { return collective::least_launch(request_, site()); }

  /// Allows replays of the collectives of communicators whose links nobody else uses without saying so before (collective/reuse.h). If
  /// communicators share a link, their collectives are simulated. Exception: communicators of different classes with the
  /// same ranks and stream. A rank's stream runs one job after the other, so their collectives follow each other like
  /// those of one communicator.
  /// @param communicators  all communicators of the run
  /// @param others         all other messages of the run, those of exchanges included
  /// @param begin_together see Executor::members_begin_together()
  /// @pre the machine is elaborated
  static void allow_reuse(const std::vector<Communicator*>& communicators,
                          const std::vector<collective::OtherTraffic>& others, transport::Fabric& fabric,
                          bool begin_together = false);
  /// Table of courses that may be replayed; null: every collective is simulated.
  collective::ReuseTable* reuse() const { return reuse_.get(); }
  /// Uses the table of a communicator with the same members in another stream.
  /// @pre each member takes part in one collective of both after the other
  void share_reuse(const Communicator& same) { reuse_ = same.reuse_; }

 private:
  Communicator(std::vector<Rank*> ranks, std::vector<std::size_t> streams, collective::Group group,
               const collective::CollectiveRequest& request, transport::Fabric& fabric);
  std::vector<gpu::Gpu*> gpus() const;
  /// The group of one communicator.
  const collective::Group& one() const { return group_.parts.empty() ? group_ : group_.parts.front(); }
  void open_queue_pairs();

  std::vector<Rank*> ranks_;
  std::vector<std::size_t> streams_;
  collective::CollectiveRequest request_;
  transport::Fabric& fabric_;
  collective::Group group_;
  std::optional<collective::Site> site_;
  std::map<std::pair<collective::Operation, Bytes>, collective::CollectiveSpec> chosen_;
  std::map<std::tuple<Bytes, const void*, bool>, collective::CollectiveSpec> chosen_all_to_alls_;
  using TokenKey = std::tuple<Bytes, Bytes, collective::TokenExchange::Leg, bool, const void*>;
  std::map<TokenKey, collective::CollectiveSpec> chosen_tokens_;
  std::map<Bytes, collective::CollectiveSpec> chosen_exchanges_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<Communicator>> pairs_;
  std::shared_ptr<collective::ReuseTable> reuse_;
};

}  // namespace railyard::execution
