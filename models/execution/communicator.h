// Ranks that meet in collectives, as an NCCL communicator: who they are, how they reach each other, and by which library.
// The one place that asks for a collective: it makes the request, lets the library's rules choose algorithm, protocol and
// channels, and remembers the choice by operation and size.
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
  /// @param ranks   at least one; alone it meets nobody
  /// @param stream  of each rank, where its members run
  /// @param request  what all its collectives have in common
  Communicator(std::vector<Rank*> ranks, std::size_t stream, const collective::Request& request,
               transport::Fabric& fabric);

  std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  const std::vector<Rank*>& ranks() const { return ranks_; }
  Rank& rank(std::uint32_t member) const { return *ranks_[member]; }
  gpu::Stream& stream(std::uint32_t member) const { return ranks_[member]->stream(stream_); }
  const collective::Group& group() const { return group_; }
  const collective::Request& request() const { return request_; }
  /// How the members reach each other. @pre the machine is elaborated
  const collective::Site& site();

  /// How a collective of this size runs. @pre the machine is elaborated
  const collective::CollectiveSpec& choose(collective::Operation operation, Bytes bytes);
  /// Two of the members, of which the first one sends to the second: made when first asked for.
  Communicator& pair(std::uint32_t from, std::uint32_t to);
  /// How a send from the first member to the second runs, as NCCL's kernels do it. @pre two members
  const collective::CollectiveSpec& choose_exchange(Bytes bytes);
  /// No collective of these members begins sooner after a member has entered.
  Time least_launch() { return collective::least_launch(request_, site()); }

  /// A message that is not part of a collective: from, to, class.
  using OtherTraffic = std::tuple<transport::Window, transport::Window, std::uint8_t>;
  /// Lets collectives of these communicators be replayed where no other traffic reaches their links (collective/reuse.h).
  /// @param communicators  all of the run, of one traffic class
  /// @param others         all other messages of the run, those of exchanges included
  /// @pre the machine is elaborated
  static void allow_reuse(const std::vector<Communicator*>& communicators, const std::vector<OtherTraffic>& others,
                          transport::Fabric& fabric);
  /// Courses that may be replayed; null: every collective is simulated.
  collective::ReuseTable* reuse() const { return reuse_.get(); }

 private:
  std::vector<gpu::Gpu*> gpus() const;

  std::vector<Rank*> ranks_;
  std::size_t stream_;
  collective::Request request_;
  transport::Fabric& fabric_;
  collective::Group group_;
  std::optional<collective::Site> site_;
  std::map<std::pair<collective::Operation, Bytes>, collective::CollectiveSpec> chosen_;
  std::map<Bytes, collective::CollectiveSpec> chosen_exchanges_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<Communicator>> pairs_;
  std::unique_ptr<collective::ReuseTable> reuse_;
};

}  // namespace railyard::execution
