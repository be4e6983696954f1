#include "sc_main/scenario/import/cluster_file.h"

#include <nlohmann/json.hpp>

namespace railyard::scenario {

namespace {

constexpr double kMostGib = 1e5, kMostGbPerS = 1e6, kMostNs = 1e9, kMostDegree = 4096, kMostTokens = 1 << 20,
                 kMostBlockTokens = 4096;

/// For values that are checked, and not used.
struct Unused {
  std::string name, text;
  double number = 0;
};

template <class T>
Field& add_refused(Record<T>& record, const char* key, const std::string& what) {
  return record.custom(key, "", "", nullptr, [what](T&, const Node& node, const std::string& path) {
    throw InputError(node.origin, path + ": " + what + " not modelled; remove this key");
  });
}

/// A switch that is accepted if it is off.
template <class T>
Field& add_off(Record<T>& record, const char* key, const std::string& what) {
  return record.custom(key, "", "", nullptr, [what](T&, const Node& node, const std::string& path) {
    if (read_boolean({}, node, path))
      throw InputError(node.origin, path + ": " + what + " is not modelled; accepted: false");
  });
}

template <class T>
void add_unused_switch(Record<T>& record, const char* key) {
  record.custom(key, "", "", nullptr,
                [](T&, const Node& node, const std::string& path) { read_boolean({}, node, path); });
}

/// A number, or a list with one number for each dimension of the network.
void add_network(Record<Cluster>& record, const char* key, double most, const char* doc) {
  record
      .custom(key, doc, "", nullptr,
              [most](Cluster&, const Node& node, const std::string& path) {
                Field number;
                number.range(0, most);
                if (node.kind != Node::Kind::sequence) {
                  read_number(number, node, path);
                  return;
                }
                for (std::size_t i = 0; i < node.items.size(); ++i)
                  read_number(number, *node.items[i], path + "." + std::to_string(i));
              })
      .required();
}

template <class T, class Size, class Rate, class Latency>
void add_memory(Record<T>& record, Size size, Rate rate, Latency latency) {
  record.add("mem_size", size, "capacity in GiB").above(0, kMostGib).required();
  record.add("mem_bw", rate, "bandwidth in GB/s").range(0, kMostGbPerS).required();
  record.add("mem_latency", latency, "latency in ns").range(0, kMostNs).required();
}

Record<Unused> host_memory_record() {
  Record<Unused> r;
  add_memory(r, &Unused::number, &Unused::number, &Unused::number);
  add_refused(r, "pim_config", "processing in memory is");
  return r;
}

/// Where weights and KV cache are stored.
Record<Unused> places_record() {
  Record<Unused> r;
  r.word("weights", &Unused::text, {"npu"}, "place of the weights");
  r.word("kv_loc", &Unused::text, {"npu"}, "place of the KV cache");
  r.word("kv_evict_loc", &Unused::text, {"npu", "cpu"}, "place of evicted KV cache");
  return r;
}

struct Placement {
  Unused all;
  std::vector<Unused> blocks, layers;
};

Record<Placement> placement_record() {
  Record<Unused> block = places_record();
  block.add("blocks", &Unused::text, "numbers of decoder layers").required();
  Record<Placement> r;
  r.nested("default", &Placement::all, places_record(), "for all layers");
  r.list("blocks", &Placement::blocks, block, "for some decoder layers");
  r.named("layers", &Placement::layers, places_record(), "for layers by name");
  return r;
}

void read_pd_type(ClusterInstance& instance, const Node& node, const std::string& path) {
  instance.pd_type.reset();
  if (node.kind == Node::Kind::null) return;
  Field words;
  words.choices = {"prefill", "decode", "null"};
  const std::size_t which = read_choice(words, node, path);
  if (which < 2) instance.pd_type = static_cast<PdType>(which);
}

}  // namespace

const Record<ClusterInstance>& cluster_instance_record() {
  static const Record<ClusterInstance> record = [] {
    using I = ClusterInstance;
    Record<NpuMemory> memory;
    add_memory(memory, &NpuMemory::mem_size, &NpuMemory::mem_bw, &NpuMemory::mem_latency);
    memory.add("mem_util", &NpuMemory::mem_util, "share for weights and KV cache").above(0, 1);
    Record<I> r;
    r.add("model_name", &I::model_name, "name of the model on HuggingFace").required();
    r.add("hardware", &I::hardware, "name of the GPU").required();
    r.nested("npu_mem", &I::npu_mem, memory, "memory of a GPU").required();
    r.custom("pd_type", "prefill, decode or null", "", nullptr, read_pd_type).required();
    r.add("num_npus", &I::num_npus, "number of GPUs").range(1, kMostDegree);
    r.add("tp_size", &I::tp_size, "tensor-parallel ranks").range(1, kMostDegree);
    r.add("pp_size", &I::pp_size, "pipeline stages").range(1, kMostDegree);
    r.add("ep_size", &I::ep_size, "expert-parallel ranks").range(1, kMostDegree);
    r.custom("dp_group", "", "", nullptr, [](I&, const Node& node, const std::string& path) {
      if (node.kind != Node::Kind::null)
        throw InputError(node.origin, path + ": data parallelism is not modelled; accepted: null");
    });
    r.add("max_num_seqs", &I::max_num_seqs, "most requests that run at once; 0: no limit").range(0, kMostTokens);
    r.add("max_num_batched_tokens", &I::max_num_batched_tokens, "most tokens in a batch; 0: no limit")
        .range(0, kMostTokens);
    r.add("long_prefill_token_threshold", &I::long_prefill_token_threshold, "most tokens of one prompt in a batch")
        .range(0, kMostTokens);
    r.add("block_size", &I::block_size, "tokens of a KV block").range(1, kMostBlockTokens);
    r.word("dtype", &I::dtype, {"float16", "bfloat16", "fp8", "int8"}, "number format of weights");
    r.word("kv_cache_dtype", &I::kv_cache_dtype, {"auto", "fp8"}, "number format of the KV cache");
    r.add("enable_chunked_prefill", &I::enable_chunked_prefill, "a prompt may be split over batches");
    r.add("enable_prefix_caching", &I::enable_prefix_caching, "requests share blocks with the same tokens");
    r.add("reserve_full_isl", &I::reserve_full_isl, "a request starts if its whole prompt fits");
    add_unused_switch(r, "enable_local_offloading");
    add_unused_switch(r, "enable_block_copy");
    add_off(r, "enable_attn_offloading", "attention outside of the GPU");
    add_off(r, "enable_sub_batch_interleaving", "interleaving of sub-batches");
    r.custom("placement", "", "", nullptr, [](I&, const Node& node, const std::string& path) {
      Placement placement;
      placement_record().read(placement, node, path);
    });
    return r;
  }();
  return record;
}

const Record<Cluster>& cluster_record() {
  static const Record<Cluster> record = [] {
    Record<ClusterNode> node;
    node.add("num_instances", &ClusterNode::num_instances, "length of the list of instances").required();
    node.custom("cpu_mem", "memory of the host", "", nullptr,
                [](ClusterNode&, const Node& written, const std::string& path) {
                  Unused memory;
                  host_memory_record().read(memory, written, path);
                })
        .required();
    node.list("instances", &ClusterNode::instances, cluster_instance_record(), "serving engines").required();
    add_refused(node, "power", "power is");
    Record<Cluster> r;
    r.add("num_nodes", &Cluster::num_nodes, "length of the list of nodes").required();
    add_network(r, "link_bw", kMostGbPerS, "bandwidth of links in GB/s");
    add_network(r, "link_latency", kMostNs, "latency of links in ns");
    r.list("nodes", &Cluster::nodes, node, "servers").required();
    add_refused(r, "cxl_mem", "CXL memory is");
    return r;
  }();
  return record;
}

}  // namespace railyard::scenario
