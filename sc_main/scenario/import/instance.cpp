#include "sc_main/scenario/import/instance.h"

#include <algorithm>
#include <utility>

namespace railyard::scenario {

namespace {

void check_length(const NodePtr& root, const std::string& path, const std::string& count_key, std::uint64_t count,
                  const std::string& list_key, std::size_t length) {
  if (count == length) return;
  const std::string key = path + count_key;
  throw InputError(place_of(root, key), key + ": " + std::to_string(count) + ", but the list of " + list_key + " has " +
                                            std::to_string(length) + "; accepted: " + std::to_string(length));
}

/// Each prompt finds an instance that decodes, and all run the same model.
void check_roles(const NodePtr& root, const std::vector<PlacedInstance>& instances) {
  if (instances.empty())
    throw InputError(place_of(root, "nodes"),
                     "nodes: no instance; accepted: one or more, with pd_type null, or with prefill and decode");
  const auto refuse_alone = [&](PdType role, PdType other, const char* what) {
    const auto is = [&](PdType type) { return [type](const PlacedInstance& i) { return i.pd_type == type; }; };
    const auto alone = std::find_if(instances.begin(), instances.end(), is(role));
    if (alone != instances.end() && std::none_of(instances.begin(), instances.end(), is(other)))
      alone->refuse("pd_type", std::string(what) + "; accepted: null, or instances with prefill and with decode");
  };
  refuse_alone(PdType::prefill, PdType::decode, "prefill without an instance that decodes");
  refuse_alone(PdType::decode, PdType::prefill, "decode without an instance that prefills");
  const PlacedInstance& first = instances.front();
  for (const PlacedInstance& other : instances)
    for (const auto& [key, is_same] : {std::pair{"model_name", first.model_name == other.model_name},
                                       {"dtype", first.dtype == other.dtype},
                                       {"kv_cache_dtype", first.kv_cache_dtype == other.kv_cache_dtype}})
      if (!is_same) other.refuse(key, "differs from that of " + first.path() + "; all instances run the same model");
}

}  // namespace

PlacedInstance::PlacedInstance(NodePtr written, std::string path, NodePtr settings)
    : written_(std::move(written)), settings_(std::move(settings)), path_(std::move(path)) {
  const Fields& fields = cluster_instance_record().fields();
  ClusterInstance& values = *this;
  read_fields(fields, &values, *settings_, "", true);
  read_fields(fields, &values, *written_, path_);
}

Origin PlacedInstance::place(const std::string& key) const {
  if (!has(key) && settings_->find(key)) return settings_->find(key)->origin;
  return place_of(written_, key);
}

void PlacedInstance::refuse(const std::string& key, const std::string& what) const {
  throw InputError(place(key), path_ + "." + key + ": " + what);
}

std::vector<PlacedInstance> instances_of(const NodePtr& root, const NodePtr& settings) {
  Cluster cluster;
  cluster_record().read(cluster, *root, "");
  check_length(root, "", "num_nodes", cluster.num_nodes, "nodes", cluster.nodes.size());
  std::vector<PlacedInstance> instances;
  for (std::size_t n = 0; n < cluster.nodes.size(); ++n) {
    const ClusterNode& node = cluster.nodes[n];
    const std::string path = "nodes." + std::to_string(n) + ".";
    check_length(root, path, "num_instances", node.num_instances, "instances", node.instances.size());
    for (std::size_t i = 0; i < node.instances.size(); ++i) {
      const std::string place = path + "instances." + std::to_string(i);
      instances.emplace_back(value_at(root, place), place, settings);
    }
  }
  check_roles(root, instances);
  std::stable_partition(instances.begin(), instances.end(),
                        [](const PlacedInstance& instance) { return instance.pd_type != PdType::decode; });
  return instances;
}

Parallelism parallelism_of(const PlacedInstance& instance, const transformer::ModelShape& model) {
  Parallelism result;
  result.pp = instance.pp_size;
  if (result.pp > model.layers)
    instance.refuse("pp_size", std::to_string(result.pp) + " is more than the " + std::to_string(model.layers) +
                                   " layers of " + instance.model_name);
  const std::uint64_t gpus = instance.num_npus.value_or(instance.tp_size.value_or(1) * result.pp);
  result.tp = instance.tp_size.value_or(gpus / result.pp);
  if (gpus != std::uint64_t{result.tp} * result.pp)
    instance.refuse("num_npus", std::to_string(gpus) + " is not tp_size x pp_size, " + std::to_string(result.tp) +
                                    " x " + std::to_string(result.pp));
  const std::uint32_t ep = instance.ep_size.value_or(1);
  if (ep > result.tp)
    instance.refuse("ep_size", std::to_string(ep) + " is more than tp_size, " + std::to_string(result.tp) +
                                   "; accepted without a dp_group: up to tp_size");
  if (ep > 1) instance.refuse("ep_size", "expert parallelism is not modelled; accepted: 1");
  return result;
}

}  // namespace railyard::scenario
