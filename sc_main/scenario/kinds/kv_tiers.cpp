#include "sc_main/scenario/kinds/kv_tiers.h"

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
  return r;
}

void check_kv_tiers(KvTiers& tiers, const std::vector<InstanceSpec>& instances, const Source& source) {
  check_disk(tiers, source);
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
