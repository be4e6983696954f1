// Ranks that meet in collectives, as an NCCL communicator: who they are, how they reach each other, and by which library.
// The one place that asks for a collective: it makes the request, lets the library's rules choose algorithm, protocol and
// channels, and remembers the choice by operation and size.
#pragma once

#include <map>
#include <memory>
#include <optional>
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

  /// Whose courses may be replayed; null: all are simulated.
  collective::ReuseTable* reuse() const { return reuse_.get(); }
  void set_reuse(std::unique_ptr<collective::ReuseTable> table) { reuse_ = std::move(table); }

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
