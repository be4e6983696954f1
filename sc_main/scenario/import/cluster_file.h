// A cluster configuration of LLMServingSim (configs/cluster/README.md at 5daddb2) as written. The member initialisers
// are its defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sc_main/scenario/table/record.h"

namespace railyard::scenario {

struct NpuMemory {
  double mem_size = 0;  ///< GiB
  double mem_bw = 0, mem_latency = 0;
  double mem_util = 0.9;
};

enum class PdType : std::uint8_t { prefill, decode };

struct ClusterInstance {
  std::string model_name, hardware;
  NpuMemory npu_mem;
  std::optional<PdType> pd_type;  ///< none: both phases
  std::optional<std::uint32_t> num_npus, tp_size, ep_size;
  std::uint32_t pp_size = 1;
  std::uint32_t max_num_seqs = 128;             ///< 0: no limit
  std::uint32_t max_num_batched_tokens = 2048;  ///< 0: no limit but the model's longest context
  std::uint32_t long_prefill_token_threshold = 0;
  std::uint32_t block_size = 16;
  std::string dtype;  ///< "": that of the model's config
  std::string kv_cache_dtype = "auto";
  bool enable_chunked_prefill = true, enable_prefix_caching = true, reserve_full_isl = true;
};

struct ClusterNode {
  std::uint32_t num_instances = 0;
  std::vector<ClusterInstance> instances;
};

struct Cluster {
  std::uint32_t num_nodes = 0;
  std::vector<ClusterNode> nodes;
};

const Record<Cluster>& cluster_record();
const Record<ClusterInstance>& cluster_instance_record();

}  // namespace railyard::scenario
