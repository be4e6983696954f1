#include "sc_main/scenario/kinds/kv_tiers.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sc_main/scenario/kinds/kind.h"

namespace railyard::scenario {

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

/// The servers of an instance.
std::set<std::pair<std::uint32_t, std::uint32_t>> servers_of(const InstanceSpec& instance,
                                                             std::uint32_t gpus_per_server) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> servers;
  for (const std::uint32_t gpu : instance.mapping.placement) servers.insert({instance.group, gpu / gpus_per_server});
  return servers;
}

void resolve_peers(KvTiers& tiers, const std::vector<InstanceSpec>& instances, std::uint32_t gpus_per_server,
                   const Source& source) {
  const std::string key = "workload.kv_tiers.peers";
  if (!value_at(source.root, key)) return;
  const auto refuse = [&](const std::string& what) { throw InputError(place_of(source.root, key), key + ": " + what); };
  if (tiers.peer_min_tokens == 0) refuse("has no min_tokens; accepted: tokens from which on a read is worth its time");
  if (tiers.host_bytes_per_server == 0)
    refuse("reads go to host memory; accepted with workload.kv_tiers.host.bytes_per_server");
  std::vector<std::set<std::pair<std::uint32_t, std::uint32_t>>> servers;
  for (const InstanceSpec& instance : instances) servers.push_back(servers_of(instance, gpus_per_server));
  tiers.peers.resize(instances.size());
  for (std::uint32_t i = 0; i < instances.size(); ++i) {
    for (std::uint32_t j = 0; j < instances.size(); ++j) {
      const auto is_of_both = [&](const auto& server) { return servers[j].count(server) != 0; };
      if (instances[i].has_layout_of(instances[j]) && std::none_of(servers[i].begin(), servers[i].end(), is_of_both))
        tiers.peers[i].push_back(j);
    }
  }
  if (std::all_of(tiers.peers.begin(), tiers.peers.end(), [](const auto& peers) { return peers.empty(); }))
    refuse(
        "no instance has another one with its tp, layers of stages, kv_dtype and block_tokens on other servers; "
        "accepted "
        "with such a pair");
}

}  // namespace

Record<KvTiers> kv_tiers_record() {
  Record<KvTiers> host;
  host.add(
          "bytes_per_server", &KvTiers::host_bytes_per_server,
          "memory of each server for it; the instances there share it by their ranks, and each keeps copies of its own")
      .above(0, kMostBytes)
      .fallback("none");
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
  resolve_peers(tiers, instances, gpus_per_server, source);
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
