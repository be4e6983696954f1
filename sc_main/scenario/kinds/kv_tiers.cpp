#include "sc_main/scenario/kinds/kv_tiers.h"

#include <algorithm>
#include <utility>

#include "sc_main/scenario/kinds/kind.h"

namespace railyard::scenario {

using workload::inference::HostPool;
using workload::inference::InstanceSpec;
using workload::inference::KvDiskSpec;
using workload::inference::KvTiers;

namespace {

constexpr double kMostBytes = 1e15, kFastestGbPerS = 1e4, kLongestUs = 1e9;

void check_disk(KvTiers& tiers, const Source& source) {
  const std::string key = "workload.kv_tiers.disk";
  if (!value_at(source.root, key)) return;
  const auto refuse = [&](const std::string& what) { throw InputError(place_of(source.root, key), key + ": " + what); };
  for (const char* name : {"bytes_per_server", "gb_per_s", "latency_us"})
    if (!value_at(source.root, key + "." + name))
      refuse(std::string("has no ") + name + "; accepted: bytes_per_server, gb_per_s and latency_us together");
  if (tiers.host_bytes_per_server == 0)
    refuse("KV on disks goes through host memory; accepted with workload.kv_tiers.host.bytes_per_server");
  tiers.disk_where = place_of(source.root, key + ".bytes_per_server");
}

/// An attention replica of an instance.
struct Store {
  const InstanceSpec* instance = nullptr;
  using Server = std::pair<std::uint32_t, std::uint32_t>;  // group, number
  std::vector<Server> servers;                             ///< of each rank

  bool is_like(const Store& other) const { return instance->has_layout_of(*other.instance); }
  bool meets(const Store& other) const {
    return std::any_of(servers.begin(), servers.end(), [&](const Server& server) {
      return std::find(other.servers.begin(), other.servers.end(), server) != other.servers.end();
    });
  }
};

std::vector<Store> stores_of(const std::vector<InstanceSpec>& instances, std::uint32_t gpus_per_server) {
  std::vector<Store> stores;
  for (const InstanceSpec& instance : instances) {
    for (std::uint32_t replica = 0; replica < instance.mapping.dp; ++replica) {
      Store& store = stores.emplace_back();
      store.instance = &instance;
      for (const std::uint32_t rank : instance.mapping.ranks_of(replica))
        store.servers.emplace_back(instance.group, instance.mapping.placement[rank] / gpus_per_server);
    }
  }
  return stores;
}

void resolve_pools(KvTiers& tiers, const std::vector<Store>& stores) {
  for (std::uint32_t i = 0; i < stores.size(); ++i) {
    std::uint32_t first = 0;
    while (first < i && !(tiers.pool == HostPool::server && stores[first].is_like(stores[i]) &&
                          stores[first].servers == stores[i].servers))
      ++first;
    tiers.pools.push_back(first < i ? tiers.pools[first] : i);
  }
}

void resolve_peers(KvTiers& tiers, const std::vector<Store>& stores, const Source& source) {
  const std::string key = "workload.kv_tiers.peers";
  if (!value_at(source.root, key)) return;
  const auto refuse = [&](const std::string& what) { throw InputError(place_of(source.root, key), key + ": " + what); };
  if (tiers.peer_min_tokens == 0) refuse("has no min_tokens; accepted: tokens from which on a read is worth its time");
  if (tiers.host_bytes_per_server == 0)
    refuse("reads go to host memory; accepted with workload.kv_tiers.host.bytes_per_server");
  tiers.peers.resize(stores.size());
  for (std::uint32_t i = 0; i < stores.size(); ++i)
    for (std::uint32_t j = 0; j < stores.size(); ++j)
      if (stores[i].is_like(stores[j]) && !stores[i].meets(stores[j])) tiers.peers[i].push_back(j);
  if (std::all_of(tiers.peers.begin(), tiers.peers.end(), [](const auto& peers) { return peers.empty(); }))
    refuse(
        "no instance has another one with its tp, layers of stages, kv_dtype and block_tokens on other servers; "
        "accepted "
        "with such a pair");
}

}  // namespace

Record<KvTiers> kv_tiers_record() {
  Record<KvTiers> host;
  host.add("bytes_per_server", &KvTiers::host_bytes_per_server,
           "memory of each server for it; the instances there, or their pools, divide it by their ranks")
      .above(0, kMostBytes)
      .fallback("none");
  host.choice("pool", &KvTiers::pool, {"instance", "server"},
              "instance: each attention replica has copies of its own (vLLM's OffloadingConnector, LMCache in process, "
              "HiCache); server: one pool for all alike instances on the same servers, which keeps its blocks when an "
              "instance fails (LMCache's multi-process mode)");
  Record<KvDiskSpec> disk;
  disk.add("bytes_per_server", &KvDiskSpec::bytes_per_server,
           "of the disk of each server for it; the instances there share it by their ranks, and each has blocks of its "
           "own")
      .above(0, kMostBytes)
      .fallback("none");
  disk.add("gb_per_s", &KvDiskSpec::gb_per_s,
           "of the disk of each server, for all instances there: reads one after the other, and writes beside them")
      .above(0, kFastestGbPerS)
      .fallback("none");
  disk.add("latency_us", &KvDiskSpec::latency_us, "from when a read or write is asked for until its bytes move")
      .range(0, kLongestUs)
      .fallback("none");
  Record<KvTiers> r;
  r.group("host", host,
          "memory of the GPUs' sockets: blocks of prompts are copied there when they are complete, and loaded when a "
          "request needs them and the GPUs have them no more");
  r.nested("disk", &KvTiers::disk, disk,
           "disks below host memory: what has come to host memory is written there, and read to host memory when a "
           "request needs it and host memory has it no more");
  Record<KvTiers> peers;
  peers.add("min_tokens", &KvTiers::peer_min_tokens, "fewest tokens that a request reads from a peer")
      .range(1, 1'000'000'000)
      .fallback("none");
  r.group("peers", peers,
          "host memory of alike instances on other servers: what a request needs, and neither the GPUs nor the own "
          "host memory have, "
          "is read from there to the own host memory");
  return r;
}

void check_kv_tiers(KvTiers& tiers, const std::vector<InstanceSpec>& instances, std::uint32_t gpus_per_server,
                    const Source& source) {
  check_disk(tiers, source);
  const std::vector<Store> stores = stores_of(instances, gpus_per_server);
  resolve_pools(tiers, stores);
  resolve_peers(tiers, stores, source);
  if (value_at(source.root, "workload.kv_tiers.host.pool") && tiers.host_bytes_per_server == 0)
    throw InputError(place_of(source.root, "workload.kv_tiers.host.pool"),
                     "workload.kv_tiers.host.pool: there is no memory for it; accepted with "
                     "workload.kv_tiers.host.bytes_per_server");
  if (tiers.host_bytes_per_server == 0) return;
  const std::string key = "workload.kv_tiers.host.bytes_per_server";
  tiers.where = place_of(source.root, key);
  for (const InstanceSpec& instance : instances)
    if (!instance.scheduler.prefix_caching)
      throw InputError(tiers.where,
                       key + ": instance " + instance.name +
                           " does not look for equal prefixes; accepted with scheduler.prefix_caching: true");
}

}  // namespace railyard::scenario
