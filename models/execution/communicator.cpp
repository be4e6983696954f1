#include "execution/communicator.h"

namespace railyard::execution {

Communicator::Communicator(std::vector<Rank*> ranks, std::size_t stream, const collective::Request& request,
                           transport::Fabric& fabric)
    : ranks_(std::move(ranks)),
      stream_(stream),
      request_(request),
      fabric_(fabric),
      group_(collective::group_of(gpus())) {
  if (size() > 1) collective::add_multicast_groups(group_, gpus(), fabric_);
}

std::vector<gpu::Gpu*> Communicator::gpus() const {
  std::vector<gpu::Gpu*> gpus;
  for (const Rank* rank : ranks_) gpus.push_back(rank->gpu);
  return gpus;
}

const collective::Site& Communicator::site() {
  if (!site_) site_ = collective::site_of(gpus(), group_, fabric_);
  return *site_;
}

const collective::CollectiveSpec& Communicator::choose(collective::Operation operation, Bytes bytes) {
  const auto [found, fresh] = chosen_.try_emplace({operation, bytes});
  if (fresh) {
    collective::Request request = request_;
    request.operation = operation;
    request.bytes = bytes;
    found->second = collective::choose(request, group_, site());
  }
  return found->second;
}

}  // namespace railyard::execution
