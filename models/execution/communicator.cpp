#include "execution/communicator.h"

#include <algorithm>

namespace railyard::execution {

namespace {

std::vector<gpu::Gpu*> gpus_of(const std::vector<Rank*>& ranks) {
  std::vector<gpu::Gpu*> gpus;
  for (const Rank* rank : ranks) gpus.push_back(rank->gpu);
  return gpus;
}

}  // namespace

Communicator::Communicator(std::vector<Rank*> ranks, std::vector<std::size_t> streams, collective::Group group,
                           const collective::CollectiveRequest& request, transport::Fabric& fabric)
    : ranks_(std::move(ranks)),
      streams_(std::move(streams)),
      request_(request),
      fabric_(fabric),
      group_(std::move(group)) {
  if (members() == 1) return;
  open_queue_pairs();
  collective::add_multicast_groups(group_, gpus(), fabric_);
  site();  // as NCCL does when it makes a communicator: what happens to links during the run changes no plan
}

Communicator::Communicator(const std::vector<Rank*>& ranks, std::vector<std::size_t> streams,
                           const collective::CollectiveRequest& request, transport::Fabric& fabric)
    : Communicator(ranks, std::move(streams), collective::group_of(gpus_of(ranks)), request, fabric) {}

Communicator::Communicator(const std::vector<Rank*>& ranks, std::size_t stream,
                           const collective::CollectiveRequest& request, transport::Fabric& fabric)
    : Communicator(ranks, std::vector<std::size_t>(ranks.size(), stream), request, fabric) {}

Communicator::Communicator(const std::vector<Rank*>& ranks, std::size_t stream,
                           const std::vector<collective::FoldedMember>& members,
                           const collective::CollectiveRequest& request, transport::Fabric& fabric)
    : Communicator(ranks, std::vector<std::size_t>(ranks.size(), stream),
                   collective::folded_group_of(gpus_of(ranks), members), request, fabric) {}

Communicator::Communicator(const std::vector<Rank*>& ranks, std::size_t stream, std::uint32_t parts,
                           const collective::CollectiveRequest& request, transport::Fabric& fabric)
    : Communicator(ranks, std::vector<std::size_t>(ranks.size(), stream),
                   collective::group_in_parts(gpus_of(ranks), parts), request, fabric) {}

void Communicator::open_queue_pairs() {
  if (request_.queue_pair_set) return;
  std::vector<std::uint64_t> members;
  for (std::uint32_t m = 0; m < group_.size(); ++m) {
    const std::uint64_t copy = group_.exists(m) ? 0 : std::uint64_t{group_.copy[m]} + 1;
    members.push_back(copy << 32 | group_.members[m]);
  }
  request_.queue_pair_set = fabric_.queue_pair_set(request_.traffic_class, std::move(members), 0);
}

std::vector<gpu::Gpu*> Communicator::gpus() const { return gpus_of(ranks_); }

const collective::Site& Communicator::site() {
  if (!site_) {
    std::vector<gpu::Gpu*> of_one = gpus();
    of_one.resize(one().size());
    site_ = collective::site_of(of_one, one(), fabric_);
    site_->multicast = site_->multicast && request_.nvls;
    site_->most_channels = request_.most_channels;
  }
  return *site_;
}

const collective::CollectiveSpec& Communicator::choose(collective::Operation operation, Bytes bytes) {
  const auto [found, fresh] = chosen_.try_emplace({operation, bytes});
  if (fresh) {
    collective::CollectiveRequest request = request_;
    request.operation = operation;
    request.bytes = bytes;
    found->second = collective::choose(request, one(), site());
  }
  return found->second;
}

const collective::CollectiveSpec& Communicator::choose_all_to_all(Bytes bytes, const collective::Shares& shares) {
  const auto [found, fresh] = chosen_all_to_alls_.try_emplace({bytes, shares.of.get(), shares.by_sender});
  if (fresh) {
    found->second = choose(collective::Operation::all_to_all, bytes);
    found->second.shares = shares;
  }
  return found->second;
}

const collective::CollectiveSpec& Communicator::choose_tokens(Bytes bytes, const collective::Shares& shares,
                                                              const collective::TokenExchange& tokens) {
  const auto [found, fresh] =
      chosen_tokens_.try_emplace({bytes, tokens.network_bytes, tokens.leg, tokens.notifies, shares.of.get()});
  if (fresh) {
    found->second = collective::choose_tokens(request_, site(), bytes, tokens);
    found->second.shares = shares;
  }
  return found->second;
}

void Communicator::allow_reuse(const std::vector<Communicator*>& communicators,
                               const std::vector<collective::OtherTraffic>& others, transport::Fabric& fabric,
                               bool begin_together) {
  std::vector<collective::ReuseGroup> groups;
  std::vector<std::vector<Communicator*>> users;
  for (Communicator* c : communicators) {
    const std::uint8_t traffic_class = c->request_.traffic_class;
    std::size_t g = 0;
    for (; g < groups.size(); ++g) {
      const std::vector<std::uint8_t>& taken = groups[g].classes;
      const Communicator& first = *users[g].front();
      if (first.ranks_ == c->ranks_ && first.streams_ == c->streams_ &&
          std::find(taken.begin(), taken.end(), traffic_class) == taken.end())
        break;
    }
    if (g == groups.size()) {
      groups.emplace_back().least_launch = Time::max();
      groups.back().begin_together = begin_together;
      users.emplace_back();
    }
    groups[g].groups.push_back(&c->group_);
    groups[g].classes.push_back(traffic_class);
    groups[g].least_launch = sooner(groups[g].least_launch, c->least_launch());
    users[g].push_back(c);
  }
  const auto tables = collective::isolate(fabric, groups, others);
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (Communicator* c : users[g]) c->reuse_ = tables[g];
}

Communicator& Communicator::pair(std::uint32_t from, std::uint32_t to) {
  std::unique_ptr<Communicator>& pair = pairs_[{from, to}];
  if (!pair)
    pair = std::make_unique<Communicator>(std::vector<Rank*>{ranks_[from], ranks_[to]},
                                          std::vector<std::size_t>{streams_[from], streams_[to]}, request_, fabric_);
  return *pair;
}

const collective::CollectiveSpec& Communicator::choose_exchange(Bytes bytes) {
  const auto [found, fresh] = chosen_exchanges_.try_emplace(bytes);
  if (fresh) {
    found->second = choose(collective::Operation::send_recv, bytes);
    found->second.one_way = true;
  }
  return found->second;
}

}  // namespace railyard::execution
