// What a service runs: workload.kind: serving or disaggregated_prefill, typed and validated. Plain data; no SystemC.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/input_error.h"
#include "workload/inference/engine/instance_spec.h"
#include "workload/inference/kv/disk_spec.h"
#include "workload/inference/requests/request_list.h"
#include "workload/inference/routing/router_spec.h"

namespace railyard::workload::inference {

/// Service level objectives; none: not measured.
struct Slo {
  std::optional<double> ttft_s, tpot_s;
};

/// The longest request, or its prompt.
struct Longest {
  std::uint64_t tokens = 0;
  Origin where;
};

/// NIC of a rank: one that is nearest to its GPU, or number (p*tp+t) mod the NICs of its server.
enum class NicRule : std::uint8_t { modulo, nearest };

/// Something happens to an instance.
struct InstanceChange {
  enum class What : std::uint8_t {
    drain,  ///< no request comes to it any more; those that are there are served
    fail,   ///< it ends, and what it has of requests and KV is lost
    join,   ///< it loads its weights, if it does not have them, and takes requests then
  };
  Time at;
  What what = What::drain;
  std::uint32_t instance = 0;                 ///< its id
  std::optional<std::uint32_t> weights_from;  ///< of join: an instance of the same mapping; none: host memory
};

/// Who finds a block in host memory: the instance that has written it, or all alike instances of the server.
enum class HostPool : std::uint8_t { instance, server };

/// Copies of KV cache outside of the GPUs. Each attention replica of each instance has a store, numbered over all instances.
struct KvTiers {
  double host_bytes_per_server = 0;  ///< for all instances of a server, by their ranks; 0: none
  Origin where;
  HostPool pool = HostPool::instance;
  /// By store: the number of its pool of blocks. Stores of a pool have the same layout, and their ranks are on the same servers.
  std::vector<std::uint32_t> pools;
  bool shares_host() const { return host_bytes_per_server > 0 && pool == HostPool::server; }
  KvDiskSpec disk;  ///< with host memory only
  Origin disk_where;
  /// Least tokens that a store reads from the host memory of another one, on other servers; 0: none. With host memory only.
  std::uint32_t peer_min_tokens = 0;
  std::vector<std::vector<std::uint32_t>> peers;  ///< by store: those; of the same layout
};

struct ServingSpec {
  RequestSourceMaker requests;
  bool has_sessions = false;       ///< requests follow each other
  bool has_leaves = false;         ///< clients may leave before they have their answer
  std::optional<Longest> longest;  ///< by the sum of prompt and answer; none: the distribution of lengths has no bound
  /// For all parts of requests; or for prompts, and then for answers. Their places are their ids.
  std::vector<InstanceSpec> instances;
  /// Of the load generator, for each request before the API server has it; in the client's latencies.
  double client_us = 0;
  PpSend pp_send = PpSend::shard;
  NicRule nic_rule = NicRule::nearest;
  RouterSpec router;
  std::uint64_t seed = 1;                        ///< of the router
  HandoffGrain handoff = HandoffGrain::fetched;  ///< from prompts to answers
  KvConnector connector;
  FirstContact first_contact = FirstContact::before;
  KvTiers kv_tiers;
  std::vector<InstanceChange>
      changes;  ///< ordered by time. An instance whose first change is a join is not there before
  FirstToken first_token = FirstToken::prefill;  ///< with instances for answers
  Slo slo;
  bool names_requests = true;    ///< in names of jobs
  RequestList::Requests listed;  ///< all requests, for the estimate of traffic; null: not known
};

}  // namespace railyard::workload::inference
