// The room `import` makes scenarios of LLMServingSim's files. Cluster is the configuration as read (cluster_file.h),
// instances_of() its ClusterInstances on GPUs, cluster_links.h its links as a platform with overrides, kv_blocks.h the
// blocks of its memory. The command line calls import_llmservingsim(); the result goes through the loader.
//
// Import of LLMServingSim's files: a cluster configuration (JSON) and a dataset (JSONL) become a scenario of the kind
// serving. The result is a tree like that of a scenario file, which goes through the same loader. Each value in it has
// the place of the key or option that it comes from, so errors of the loader name the user's file.
//
// Rules are those of casys-kaist/LLMServingSim 5daddb2 (serving/core): settings of an instance before options before
// defaults; KV blocks = (mem_size x mem_util - weights) / block; no host time, and no padding of batches.
#pragma once

#include <string>
#include <vector>

#include "sc_main/scenario/table/node.h"

namespace railyard::scenario {

/// An option of the command line that sets a key, as text.
struct KeyOption {
  std::string option;  ///< "--max-num-seqs"
  std::string key;     ///< of an instance of the cluster configuration: "max_num_seqs"
  std::string text;

  Origin origin() const;
};

/// LLMServingSim's options; paths are relative to the current directory.
struct LlmServingSimOptions {
  std::string cluster_config, dataset;
  std::string profile_root;     ///< folder of <hardware>/<model>/<variant>; "": times from datasheets
  std::string models;           ///< folder of configs; "": the shipped ones
  std::string num_reqs;         ///< "" or "0": the whole dataset
  std::string routing_policy;   ///< word of workload.router that chooses among several instances; "": by load
  bool links_as_given = false;  ///< link_bw and link_latency instead of the platform's links between GPUs
  std::vector<KeyOption> settings;
};

struct ImportedScenario {
  NodePtr root;
  std::vector<std::string> notes;  ///< one line for each key that has no effect
};

/// @param platform  its hosts and number of GPUs per server replace those of the cluster configuration; so do its links,
///                  unless options.links_as_given
/// @throws InputError at the position in the cluster configuration, or at the option
ImportedScenario import_llmservingsim(const LlmServingSimOptions& options, const std::string& platform);

}  // namespace railyard::scenario
