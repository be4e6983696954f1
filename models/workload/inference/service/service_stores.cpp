// Host memory and disks for copies of KV: which stores share them.
#include <map>
#include <memory>
#include <set>

#include "workload/inference/service/service.h"

namespace railyard::workload::inference {

void Service::add_stores(const std::vector<Placed>& placed) {
  const KvTiers& tiers = spec_.kv_tiers;
  std::map<std::uint32_t, std::shared_ptr<KvTier>> pools;
  for (std::size_t id = 0; id < placed.size() && tiers.host_bytes_per_server > 0; ++id) {
    const Mapping& mapping = spec_.instances[id].mapping;
    for (std::uint32_t replica = 0; replica < mapping.dp; ++replica) {
      std::shared_ptr<KvTier>& pool = pools[tiers.pools[host_stores_.size()]];
      if (!pool) pool = std::make_shared<KvTier>(placed[id].host_blocks[replica]);
      HostStore& store = host_stores_.emplace_back();
      store.blocks = pool;
      for (const std::uint32_t rank : mapping.ranks_of(replica)) store.memories.push_back(placed[id].memories[rank]);
    }
  }
  for (std::uint32_t store = 0; store < tiers.peers.size(); ++store)
    for (const std::uint32_t peer : tiers.peers[store]) kv_peers_.allow(store, peer);
}

HostKv Service::host_kv(const Placed& placed, std::uint32_t first) {
  HostKv host;
  host.stores = &host_stores_;
  host.first = first;
  host.outlives = spec_.kv_tiers.pool == HostPool::server;
  host.queue_pairs = placed.queue_pairs;
  if (!spec_.kv_tiers.peers.empty()) host.peers = &kv_peers_;
  if (spec_.kv_tiers.disk.bytes_per_server == 0) return host;
  host.disk_blocks = placed.disk_blocks;
  for (const std::uint32_t server : placed.servers)
    host.disks.push_back(&disks_.try_emplace(server, server, spec_.kv_tiers.disk, executor_).first->second);
  return host;
}

std::uint64_t Service::host_blocks() const {
  std::set<const KvTier*> pools;
  std::uint64_t sum = 0;
  for (const HostStore& store : host_stores_)
    if (pools.insert(store.blocks.get()).second) sum += store.blocks->total();
  return sum;
}

}  // namespace railyard::workload::inference
