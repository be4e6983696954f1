#include "sc_main/scenario/kinds/kv_tiers.h"

#include "sc_main/scenario/kinds/kind.h"

namespace railyard::scenario {

using workload::inference::InstanceSpec;
using workload::inference::KvTiers;

Record<KvTiers> kv_tiers_record() {
  Record<KvTiers> host;
  host.add(
          "bytes_per_server", &KvTiers::host_bytes_per_server,
          "memory of each server for it; the instances there share it by their ranks, and each keeps copies of its own")
      .above(0, 1e15)
      .fallback("none");
  Record<KvTiers> r;
  r.group("host", host,
          "memory of the GPUs' sockets: blocks of prompts are copied there when they are complete, and loaded when a "
          "request needs them and the GPUs have them no more");
  return r;
}

void check_kv_tiers(KvTiers& tiers, const std::vector<InstanceSpec>& instances, const Source& source) {
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
